"""Fewer bytes across racks: confine units to racks by flow, then mend what rounding left.

`confined` places by minimum-cost flows over pools (members alike in rack and subscription), the
heaviest units first and the rest around them, and confines each unit to the rack that it got: what
is left is balance inside racks, which makes nothing more cross. `uncross` is the local mend: a unit
that crosses goes to a member beside a replica, alone or in exchange for another.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from agent.assign.flow import CROSS, build_network, solve_network
from agent.assign.greedy import place_orphans, sticky_start
from agent.assign.instance import Instance
from agent.assign.model import NOBODY, Flags, Ints
from agent.assign.route import pools_by_flow
from agent.assign.state import State

GIANTS_MAX = 3
"""Units for which pools are tried, if they fill more than half of any member."""

SAME = 1e-6
"""Share of all load by which two loads across racks differ for them to be different."""

MEND_UNITS_MAX = 2_000
"""Crossing units that one pass of the mend looks at, heaviest first; the flow does the bulk."""

MEND_CELLS = 50_000_000
"""Crossing units x all units that one pass may look at: an exchange looks at every unit."""

MEND_PASSES_MAX = 4

APART = 0.65
"""Share of the load, heaviest units first, that a flow tells apart where it is the only one."""

KINDS_MAX = 2_000
"""Units above which the flow over pools puts loads in classes: the mend evens out the rest."""


def cross_load(state: State) -> int:
    """Give the weight that crosses racks."""
    instance = state.instance
    if not instance.has_racks:
        return 0
    placed = np.flatnonzero(state.place >= 0)
    return int(instance.cross_of(placed, state.place[placed]).sum())


def alike(instance: Instance) -> Ints:
    """Give each member its pool: those of one rack that may hold the same units."""
    readers = np.unique(np.packbits(instance.may, axis=0), axis=1, return_inverse=True)[1]
    keys = instance.member_rack * (int(readers.max()) + 1) + readers.reshape(-1)
    return np.asarray(np.unique(keys, return_inverse=True)[1].reshape(-1), dtype=np.int64)


def cross_floor(instance: Instance, bound: float, cap: Ints) -> float:
    """Give the least weight that crosses racks if units could be split."""
    least = _least_crossing(instance, bound, cap, alike(instance))
    return least if least is not None else 0.0


def _least_crossing(instance: Instance, bound: float, cap: Ints, pool_of: Ints) -> float | None:
    """Give what `cross_floor` does; None if the caps hold too little."""
    homeless = np.full(instance.units, NOBODY, dtype=np.int64)
    free = replace(instance, home=homeless, toll=np.zeros(instance.units, dtype=np.int64))
    share = np.floor(instance.capacity * bound).astype(np.int64)
    # One kind for each class and profile is enough: nobody asks which units they are.
    lightest = int(instance.weight.max(initial=0)) + 1
    network = build_network(free, cap, share, pool_of, lightest=lightest)
    routes = solve_network(network)
    if routes is None:
        return None
    return routes.cost / CROSS * float(instance.weight.sum()) / max(int(network.supply.sum()), 1)


def confined(
    instance: Instance, bound: float, cap: Ints, ways: Sequence[Sequence[float]], least: float
) -> Iterator[State]:
    """Place by optimal flows, each unit confined to its rack; nothing if the caps hold too little.

    Each of the `ways` names shares of the load, heaviest units first, that stay where one flow puts
    them before the next places the rest. Rounding may leave members over their caps; inside racks
    they can be relieved without more load across racks. No placement lets less cross than `least`.
    """
    pool_of = alike(instance)
    pools, racks = int(pool_of.max()) + 1, instance.cross_share.shape[1]
    rack_of_pool = np.zeros(pools, dtype=np.int64)
    rack_of_pool[pool_of] = instance.member_rack
    in_rack = np.arange(racks)[:, None] == instance.member_rack[None, :]
    in_pool = np.arange(pools)[:, None] == pool_of[None, :]
    giants = _giants(instance, bound, cap, pool_of, least)
    for parts in ways:
        pool = _poured(instance, bound, cap, pool_of, giants, parts)
        if pool is None:
            return
        rack = np.where(pool == NOBODY, racks, rack_of_pool[pool])
        inside = _among(instance, rack, in_rack).blind()
        poured = sticky_start(_among(inside, np.where(pool == NOBODY, pools, pool), in_pool))
        place_orphans(poured)
        yield State(inside, poured.place)


def _poured(
    instance: Instance,
    bound: float,
    cap: Ints,
    pool_of: Ints,
    pool: Ints,
    parts: Sequence[float],
) -> Ints | None:
    """Give each unit a pool, by optimal flows; None if the caps hold too little.

    Those that have a pool keep it.
    """
    weight = instance.weight
    heaviest = np.argsort(-weight, kind="stable")
    before = np.cumsum(weight[heaviest])
    fair = instance.capacity * bound / np.maximum(cap, 1)
    found: Ints | None = None
    for part in (*parts, 1.0):
        rest, left = _without(instance, cap, pool_of, pool)
        stays = np.searchsorted(before, part * before[-1]) + 1
        apart = np.searchsorted(before, (part if parts else APART) * before[-1]) + 1
        network = build_network(
            rest,
            left,
            np.floor(left * fair).astype(np.int64),
            pool_of,
            kinds_max=KINDS_MAX,
            lightest=int(weight[heaviest[min(apart, len(heaviest)) - 1]]),
        )
        placed = pools_by_flow(rest, network)
        if placed is None:
            break
        found = np.where(pool >= 0, pool, placed)
        pool = pool.copy()
        pool[heaviest[:stays]] = found[heaviest[:stays]]
    return found


def _without(instance: Instance, cap: Ints, pool_of: Ints, pool: Ints) -> tuple[Instance, Ints]:
    """Give an instance in which placed units weigh nothing, and the caps that they leave [M]."""
    placed = pool >= 0
    held = np.bincount(pool[placed], weights=instance.weight[placed], minlength=pool_of.max() + 1)
    room = np.bincount(pool_of, weights=cap, minlength=len(held))
    share = np.maximum(room - held, 0) / np.maximum(room, 1)
    rest = replace(instance, weight=np.where(placed, 0, instance.weight))
    return rest, np.floor(cap * share[pool_of]).astype(np.int64)


def _giants(instance: Instance, bound: float, cap: Ints, pool_of: Ints, least: float) -> Ints:
    """Give pools to units that fill more than half of any member, NOBODY to the others.

    A flow would split them, and whose they are decides what else fits: so pools are tried, that of
    the home first, until no more crosses than `least`.
    """
    pool = np.full(instance.units, NOBODY, dtype=np.int64)
    if instance.units > KINDS_MAX:
        return pool
    weight, total = instance.weight, float(instance.weight.sum())
    heaviest = np.argsort(-weight, kind="stable")[:GIANTS_MAX]
    for unit in heaviest[2 * weight[heaviest] > cap.max(initial=0)].tolist():
        members = instance.allowed[int(instance.allowed_class[unit])]
        room = np.bincount(pool_of, weights=_without(instance, cap, pool_of, pool)[1])
        members = members[np.minimum(cap, room[pool_of])[members] >= weight[unit]]
        members = members[np.unique(pool_of[members], return_index=True)[1]]
        own = instance.cross_of(np.full(len(members), unit), members)
        home = int(instance.home[unit])
        leaves = pool_of[members] != (pool_of[home] if home >= 0 else NOBODY)
        best = np.inf
        for i in np.lexsort((pool_of[members], leaves, own)).tolist():
            if own[i] >= best:
                break
            trial = pool.copy()
            trial[unit] = pool_of[members[i]]
            rest, left = _without(instance, cap, pool_of, trial)
            others = _least_crossing(rest, bound, left, pool_of)
            if others is not None and own[i] + others < best - SAME * total:
                best, found = own[i] + others, trial
            if best <= least + SAME * total:
                break
        pool = found if best < np.inf else pool
    return pool


def _among(instance: Instance, label: Ints, members_of: Flags) -> Instance:
    """Let each unit be held by the members of its label alone; a home outside them is lost.

    `label` [units]; `members_of` [labels, members]. Idle units carry one label more, for everybody.
    """
    labels = len(members_of) + 1
    inside = np.concatenate([members_of, np.ones((1, instance.members), dtype=np.bool_)])
    keys_used, allowed_class = np.unique(
        instance.allowed_class * labels + label, return_inverse=True
    )
    may = instance.may[keys_used // labels] & inside[keys_used % labels]
    home = instance.home.copy()
    owned = np.flatnonzero(home >= 0)
    home[owned[~may[allowed_class[owned], home[owned]]]] = NOBODY
    return replace(
        instance,
        home=home,
        allowed_class=allowed_class,
        may=may,
        allowed=tuple(np.flatnonzero(row) for row in may),
    )


def uncross(state: State, cap: Ints) -> None:
    """Send crossing units beside a replica, alone or in exchange, while less crosses."""
    instance = state.instance
    most = min(MEND_UNITS_MAX, MEND_CELLS // max(instance.units, 1))
    for _ in range(MEND_PASSES_MAX):
        crossing = instance.cross_of(np.arange(instance.units), state.place)
        heavy = np.flatnonzero(crossing > 0)
        heavy = heavy[np.lexsort((heavy, -crossing[heavy]))][:most]
        changed = False
        for unit in heavy.tolist():
            changed |= _mend(state, cap, unit)
        if not changed:
            return


def _mend(state: State, cap: Ints, unit: int) -> bool:
    instance = state.instance
    source, weight = int(state.place[unit]), int(instance.weight[unit])
    members = instance.allowed[int(instance.allowed_class[unit])]
    one = np.full(len(members), unit)
    gain = int(instance.cross_of(np.array([unit]), np.array([source]))[0]) - instance.cross_of(
        one, members
    )
    members, gain = members[gain > 0], gain[gain > 0]
    if not len(members):
        return False
    room = cap - state.weight_on
    fits = room[members] >= weight
    if fits.any():
        home = int(instance.home[unit])
        order = np.lexsort(
            (members[fits], -room[members[fits]], members[fits] != home, -gain[fits])
        )
        state.put(unit, int(members[fits][order[0]]))
        return True
    # In exchange for one that fits in its place: by weight first, which leaves few.
    room_at = np.full(instance.members, np.iinfo(np.int64).min)
    room_at[members] = room[members]
    shift = weight - instance.weight
    others = np.flatnonzero((shift <= room_at[state.place]) & (-shift <= max(int(room[source]), 0)))
    others = others[instance.may[instance.allowed_class[others], source]]
    if not len(others):
        return False
    at, shift = state.place[others], shift[others]
    gain_at = np.zeros(instance.members, dtype=np.int64)
    gain_at[members] = gain
    worse = instance.cross_of(others, np.full(len(others), source)) - instance.cross_of(others, at)
    saved = gain_at[at] - worse
    best = np.flatnonzero(saved > 0)
    if not len(best):
        return False
    other = int(others[best[np.lexsort((others[best], np.abs(shift[best]), -saved[best]))[0]]])
    member = int(state.place[other])
    state.put(other, source)
    state.put(unit, member)
    return True
