"""The order of the phases: greedy first, flow where greedy is not provably enough, then polish.

Promises: the result is a fixed point (planned again from its own answer, nothing moves), because a
start that is in its band and no worse in conflicts and cross-rack load is always kept.
"""

from dataclasses import replace

import numpy as np

from agent.assign.bound import caps, lower_bound, whole_units_bound
from agent.assign.conflicts import count_conflicts, separate
from agent.assign.exact import fewest_moves
from agent.assign.flow import build_network, is_uniform
from agent.assign.greedy import place_orphans, sticky_start
from agent.assign.instance import Instance
from agent.assign.model import NOBODY, Floats, Ints, gathered
from agent.assign.polish import hand_over_giants, polish, return_home, score
from agent.assign.racks import KINDS_MAX, confined, cross_floor, cross_load, uncross
from agent.assign.route import pools_by_flow
from agent.assign.shed import restore_band
from agent.assign.state import State

RACK_CELLS_MAX = 8_000
"""Units x members up to which a plan over its least cross-rack load is routed and polished."""

FLOW_CELLS_MAX = 400_000
"""Units x members up to which a flow is tried though greedy is in the band already."""

POLISH_WORK_MAX = 400
"""Work (see `Relief`) that one polish may take: some 18 ms where members hold few units."""

POLISH_CELLS = 4_000
"""Units x members where that much pays: in smaller groups there is less to find, in larger ones
a step costs more. 90, some 4 ms, at 160 x 12; 15 at 1000 x 20."""

FAR = 60
"""Units that must leave their members from which on a flow comes before any descent."""

NEAR = 0.055
"""Moves above the count bound that are not searched for any more: one in nineteen."""

EXACT_CELLS_MAX = 1_000
"""Units x members up to which moves are minimised exactly: 5 to 20 ms, as long as a polish."""

EXACT_EFFORT = 0.05
"""Deterministic seconds of CP-SAT; 5 to 20 ms are enough in practice, and at most some 100 ms."""

POURS = ((), (0.6, 0.85, 0.96), (0.8, 0.95))
"""Ways to pour racks (see `confined`), tried one after another; where units are many, the first."""

CROSS_GAIN_MIN = 1.5e-2
"""Share of the cross-rack load that a new plan must save, or the old one stays; and near enough
to the least."""

MENDED_MAX = 0.05
"""Share of all load that may cross with those who had no owner for a mend to be tried first."""

SETTLE_ROUNDS_MAX = 4
"""Plans made from their own answer until nothing moves; two do in practice."""

BISECTIONS = 7
"""Steps between the band and the best placement from scratch where the band cannot be met."""


def band(instance: Instance, imbalance: float) -> tuple[float, Ints]:
    """Give the lower bound on utilisation, and the most weight that each member may hold."""
    bound = lower_bound(instance)
    level = bound * (1 + imbalance)
    if is_uniform(instance):
        level = max(level, whole_units_bound(instance, level))
    return bound, caps(instance, level)


def greedy_plan(instance: Instance, cap: Ints) -> State:
    """Keep, place, and (unless racks will have a say in it) relieve: the plan without flow."""
    state = sticky_start(instance.blind())
    place_orphans(state)
    if not instance.has_racks and not _is_far(instance, _moves_needed(instance, cap)):
        _relieve(state, cap)
    return state


def _is_far(instance: Instance, needed: int) -> bool:
    """Tell whether so much must move that steps one by one take longer than a flow."""
    return needed > FAR and instance.units * instance.members <= FLOW_CELLS_MAX


def _relieve(state: State, cap: Ints) -> None:
    if (state.weight_on > cap).any() and not is_uniform(state.instance):
        hand_over_giants(state, cap)
        restore_band(state, cap)
        return_home(state, cap)


def settled_plan(instance: Instance, bound: float, cap: Ints, greedy: State) -> State:
    """Improve the greedy plan until planning again from the answer would move nothing."""
    state = _plan(instance, bound, cap, greedy)
    if not (instance.has_racks or instance.has_conflicts):
        return state
    for _ in range(SETTLE_ROUNDS_MAX):
        one = np.ones(instance.units, dtype=np.int64)
        owned = replace(instance, home=state.place, pieces=one, toll=one)
        again = _plan(owned, bound, cap, greedy_plan(owned, cap))
        if (again.place == state.place).all():
            break
        state = State(instance, again.place)
    return state


def _plan(instance: Instance, bound: float, cap: Ints, greedy: State) -> State:
    start = _start_if_ideal(instance, bound, cap)
    if start is not None:
        return start
    if instance.has_racks:
        state = _rack_aware(instance, bound, cap, greedy)
    else:
        state = _balanced(instance, bound, cap, greedy)
    if instance.has_conflicts:
        state = separate(state, np.maximum(cap, state.weight_on))
    return _unless_start_is_as_good(instance, cap, state)


def _start_if_ideal(instance: Instance, bound: float, cap: Ints) -> State | None:
    """Give the present owners, where they are in the band and racks and conflicts are ideal."""
    if (instance.home == NOBODY).any():
        return None
    start = sticky_start(instance)
    if (start.weight_on > cap).any() or count_conflicts(start):
        return None
    crossing = cross_load(start)
    if crossing and crossing > _near(instance, cross_floor(instance, bound, cap)):
        return None
    return start


def _near(instance: Instance, crossing: float) -> float:
    """Give how much may cross racks to be as good as `crossing`; equal loads reach the optimum."""
    return crossing * (1 + (1e-9 if is_uniform(instance) else CROSS_GAIN_MIN))


def _unless_start_is_as_good(instance: Instance, cap: Ints, state: State) -> State:
    """Keep the present owners where the plan gains nothing that counts."""
    if not instance.units or (instance.home == NOBODY).any():
        return state
    start = sticky_start(instance)
    if score(start, cap)[0] > score(state, cap)[0]:
        return state
    if count_conflicts(start) > count_conflicts(state):
        return state
    if cross_load(start) > _near(instance, cross_load(state)):
        return state
    return start


def _balanced(
    instance: Instance, bound: float, cap: Ints, greedy: State, *, thorough: bool = True
) -> State:
    """Bring all members into the band with few moves (thorough: the fewest), racks aside."""
    enough = _moves_needed(instance, cap)
    if not (greedy.weight_on > cap).any() and (greedy.moves() <= enough or not thorough):
        return greedy
    if is_uniform(instance):
        return _by_flow(instance, bound, cap) or greedy
    best = greedy
    if instance.units * instance.members <= FLOW_CELLS_MAX or score(best, cap)[0] > 0:
        best = _best_routed(instance, bound, cap, best)
    if thorough and score(best, cap)[0] > 0 and _is_far(instance, enough):
        _relieve(greedy, cap)
        best = min(best, greedy, key=lambda s: score(s, cap))
    best = _fewest(best, cap, enough)
    if score(best, cap)[0] > 0:
        best = _best_effort(instance, bound, cap, best)
    return best


def _fewest(state: State, cap: Ints, enough: int) -> State:
    """Take needless moves back: exactly in small groups, else by trials."""
    over, _, moves, waits = score(state, cap)
    if not over and not waits and moves <= enough * (1 + NEAR):
        return state
    if state.instance.units * state.instance.members <= EXACT_CELLS_MAX:
        found = fewest_moves(state, cap, effort=EXACT_EFFORT)
        if found is not None:
            return min(state, found, key=lambda s: score(s, cap))
    return polish(state, cap, enough=enough, work=_polish_work(state.instance))


def _best_routed(instance: Instance, bound: float, cap: Ints, best: State) -> State:
    """Try flow with full caps and, should rounding not fit, with eased ones; keep the best."""
    for level in (cap, _with_margin(instance, bound, cap)):
        routed = _by_flow(instance, bound, level)
        if routed is not None:
            restore_band(routed, cap)
            return_home(routed, cap)
            best = min(best, routed, key=lambda s: score(s, cap))
        if score(best, cap)[0] == 0 and not instance.has_racks:
            break
    return best


def _polish_work(instance: Instance) -> int:
    size = max(instance.units * instance.members, 1) / POLISH_CELLS
    return int(POLISH_WORK_MAX * min(size**2, size**-2))


def _by_flow(instance: Instance, bound: float, cap: Ints) -> State | None:
    """Place by one flow in which every member is a pool of its own."""
    share = np.floor(instance.capacity * bound).astype(np.int64)
    network = build_network(instance, cap, share, np.arange(instance.members))
    place = pools_by_flow(instance, network)
    if place is None:
        return None
    state = State(instance, place)
    place_orphans(state)
    return state


def _with_margin(instance: Instance, bound: float, cap: Ints) -> Ints:
    """Lower the caps by half a typical unit, so that rounding has room; never under the bound."""
    typical = int(np.median(instance.weight)) // 2
    floor = np.ceil(instance.capacity * bound * 1.002).astype(np.int64)
    return np.minimum(cap, np.maximum(cap - typical, floor))


def _moves_needed(instance: Instance, cap: Ints) -> int:
    """Count the fewest units that must leave members that are over: the heaviest of each."""
    if (instance.toll != instance.pieces).any():
        return 0
    home, weight = instance.home, instance.weight
    homed = np.flatnonzero(home >= 0)
    total = sticky_start(instance).weight_on
    homed = homed[(total > cap)[home[homed]]]
    if not len(homed):
        return 0
    order = gathered(homed[np.argsort(-weight[homed])], home)
    held = np.bincount(home[order], minlength=instance.members)
    start = np.cumsum(held) - held
    before = np.concatenate([[0], np.cumsum(weight[order])])[:-1]
    before -= before[np.minimum(start, len(order) - 1)][home[order]]
    return int((before < (total - cap)[home[order]]).sum())


def _best_effort(instance: Instance, bound: float, cap: Ints, state: State) -> State:
    """Where the band cannot be met: find from scratch how low one can go, then go there."""
    fresh = replace(
        instance,
        home=np.full(instance.units, NOBODY, dtype=np.int64),
        toll=np.zeros(instance.units, dtype=np.int64),
    )
    scratch = State(fresh, fresh.home)
    place_orphans(scratch)
    band_level = low = _level(cap, instance.capacity)
    high = scratch.utilisation_max()
    reached = scratch
    for _ in range(BISECTIONS if high > low else 0):
        middle = (low + high) / 2
        attempt = reached.copy()
        if restore_band(attempt, caps(fresh, middle)):
            reached, high = attempt, attempt.utilisation_max()
        else:
            low = middle
    high = max(high, band_level)
    level = caps(instance, high)
    best = _best_routed(instance, bound, level, greedy_plan(instance, level))
    best = _fewest(best, level, _moves_needed(instance, level))
    return min(best, state, State(instance, reached.place), key=lambda s: _effort(s, high))


def _effort(state: State, level: float) -> tuple[float, int]:
    """Utilisation above the level that is known to be possible, then moves."""
    over = state.utilisation_max() / level if level else 1.0
    return (over if over > 1 + 1e-6 else 1.0), state.moves()


def _level(cap: Ints, capacity: Floats) -> float:
    return float((cap / capacity).min(initial=np.inf)) if len(cap) else 0.0


def _rack_aware(instance: Instance, bound: float, cap: Ints, greedy: State) -> State:
    """Place with the least load across racks, at the best balance that can be shown possible."""
    if is_uniform(instance):
        placed = _by_flow(instance, bound, cap)
        if placed is not None:
            return placed
    least = cross_floor(instance, bound, cap)
    floor = _near(instance, least)
    kept = _mended(State(instance, greedy.place), cap, floor)
    if kept is not None:
        return kept
    best, reach = _beside_replicas(instance, bound, cap, least), cap
    if best is None or score(best, cap)[0]:
        blind = State(instance.blind(), greedy.place)
        _relieve(blind, cap)
        state = State(instance, _balanced(blind.instance, bound, cap, blind, thorough=False).place)
        reach = np.maximum(cap, caps(instance, state.utilisation_max()))
        uncross(state, reach)
        if (reach > cap).any():
            best = _beside_replicas(instance, bound, reach, least)
        best = state if best is None else min(state, best, key=lambda s: score(s, reach))
    enough, near = _moves_needed(instance, cap), max(cross_load(best), int(floor))
    if cross_load(best) > floor and instance.units * instance.members <= RACK_CELLS_MAX:
        best = _best_routed(instance, bound, reach, best)
        uncross(best, reach)
        enough, near = best.moves(), int(floor)
    work = _polish_work(instance) // 2
    return polish(best, reach, enough=enough, enough_cross=near, work=work)


def _mended(state: State, cap: Ints, floor: float) -> State | None:
    """Relieve and mend what is there, if owners are near replicas already: that moves least."""
    instance = state.instance
    homed = np.flatnonzero(instance.home >= 0)
    crossing = int(instance.cross_of(homed, instance.home[homed]).sum())
    orphans = cross_load(state) - crossing
    if crossing > floor or orphans > instance.weight.sum() * MENDED_MAX:
        return None
    if not restore_band(state, cap):
        return None
    uncross(state, cap)
    enough = _moves_needed(instance, cap)
    work = _polish_work(instance)
    state = polish(state, cap, enough=enough, enough_cross=int(floor), work=work)
    return state if cross_load(state) <= floor else None


def _beside_replicas(instance: Instance, bound: float, cap: Ints, least: float) -> State | None:
    """Place by flow over racks, relieve, mend: the best of a few, the first that is near enough."""
    best: State | None = None
    floor = _near(instance, least)
    ways = POURS if instance.units <= KINDS_MAX else POURS[:1]
    for poured in confined(instance, bound, cap, ways, least):
        restore_band(poured, cap)
        return_home(poured, cap)
        state = State(instance, poured.place)
        if not restore_band(state, cap):
            # Without the price of crossing more steps are open.
            freed = State(instance.blind(), state.place)
            restore_band(freed, cap)
            state = State(instance, freed.place)
        if cross_load(state) > floor:
            uncross(state, cap)
        best = state if best is None else min(state, best, key=lambda s: score(s, cap))
        over, crossing, *_ = score(best, cap)
        if not over and crossing <= floor:
            break
    return best
