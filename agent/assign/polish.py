"""Fewer moves: take some moves back, relieve again in another way, keep what is no worse.

Promises: never returns a state that is more over its caps, or moves more, than the one it got; the
same state gives the same result (the sequence of trials is fixed, not random).
Does not: prove that no better placement exists.
"""

import numpy as np

from agent.assign.model import Flags, Ints
from agent.assign.racks import cross_load
from agent.assign.shed import Relief
from agent.assign.state import State, backlogged

SEQUENCE = 20_261_121
"""Start of the fixed sequence of trials; any number does, changing it changes plans."""

TRIAL_WORK = 2
"""Work of one trial beside its relief, in the units of `Relief.work`."""

FEW_MOVES = 4
"""Moves up to which one too many weighs so much that twice the work pays; as it does outside the
band, where all that is left is a placement from scratch."""


def polish(state: State, cap: Ints, *, enough: int, enough_cross: int = 0, work: int) -> State:
    """Search for fewer moves, and less across racks, until enough or out of work.

    Between loads across racks of at most `enough_cross` there is no difference.
    """

    def rank(state: State) -> tuple[int, int, int, int]:
        over, cross, moves, waits = score(state, cap)
        return over, max(cross, enough_cross), moves, waits

    return_home(state, cap)
    best, best_score = state, rank(state)
    sequence = np.random.Generator(np.random.PCG64(SEQUENCE))
    trial = spent = 0
    while True:
        over, cross, moves, waits = best_score
        if not over and cross <= enough_cross and moves <= enough and not waits:
            break
        if spent >= work * (2 if over or moves <= FEW_MOVES else 1):
            break
        trial += 1
        candidate = best.copy()
        frozen = _disturb(candidate, cap, sequence)
        if frozen is None:
            break
        relief = Relief(candidate, cap, tight=trial % 3 != 1, frozen=frozen, work_max=work)
        relief.run()
        spent += relief.work + TRIAL_WORK
        return_home(candidate, cap)
        found = rank(candidate)
        if found <= best_score:
            best, best_score = candidate, found
    return best


def score(state: State, cap: Ints) -> tuple[int, int, int, int]:
    """Weight over the caps, across racks; partitions away from home, units behind a backlog.

    Less is better, in this order.
    """
    waits = state.arrivals_at(backlogged(state.instance, cap))
    return state.excess(cap), cross_load(state), state.moves(), waits


def return_home(state: State, cap: Ints) -> None:
    """Return units whose home has room for them and crosses no more, lightest first."""
    instance = state.instance
    away = np.flatnonzero((instance.home >= 0) & (state.place != instance.home))
    if instance.has_racks:
        here = instance.cross_of(away, state.place[away])
        away = away[instance.cross_of(away, instance.home[away]) <= here]
    for unit in away[np.argsort(instance.weight[away], kind="stable")].tolist():
        home = int(instance.home[unit])
        if state.weight_on[home] + instance.weight[unit] <= cap[home]:
            state.put(unit, home)


def _disturb(state: State, cap: Ints, sequence: np.random.Generator) -> Flags | None:
    """Change a little in one of several ways; give the units that this trial leaves where they are.

    Units that left a few members, or came to them, return home; or a few units that cross racks, or
    have no home, go elsewhere and stay there. None where nothing can be changed.
    """
    instance = state.instance
    away = np.flatnonzero((instance.home >= 0) & (state.place != instance.home))
    over = state.over(cap)
    homeless = np.flatnonzero((instance.home < 0) & (instance.weight > 0))
    crossing = away[:0]
    if instance.has_racks:
        crossing = np.flatnonzero(instance.cross_of(np.arange(instance.units), state.place) > 0)
    ways = [0, 1, 2] if len(away) or len(over) else []
    ways += [3] if len(crossing) else []
    ways += [4] if len(homeless) else []
    if not ways:
        return None
    way = ways[int(sequence.integers(len(ways)))]
    frozen = np.zeros(instance.units, dtype=np.bool_)
    if way >= 3:
        pool = crossing if way == 3 else homeless
        units = sequence.choice(pool, size=min(len(pool), 1 + int(sequence.integers(3))))
        for unit in units.tolist():
            state.put(unit, _elsewhere(state, unit, sequence))
        frozen[units] = True
        return frozen
    touched = np.concatenate([instance.home[away], state.place[away], over])
    members = np.unique(touched)
    size = min(len(members), 1 + int(sequence.integers(3)))
    few = sequence.choice(members, size=size, replace=False)
    back = np.zeros(len(away), dtype=np.bool_)
    if way != 1:
        back |= np.isin(instance.home[away], few)
    if way != 0:
        back |= np.isin(state.place[away], few)
    for unit in away[back].tolist():
        state.put(unit, int(instance.home[unit]))
    return frozen


def _elsewhere(state: State, unit: int, sequence: np.random.Generator) -> int:
    """Choose another member for a unit, beside a replica where there is one."""
    instance = state.instance
    members = instance.allowed[int(instance.allowed_class[unit])]
    crossing = instance.cross_of(np.full(len(members), unit), members)
    best = members[(crossing == crossing.min()) & (members != state.place[unit])]
    return int(best[int(sequence.integers(len(best)))]) if len(best) else int(state.place[unit])


def hand_over_giants(state: State, cap: Ints) -> None:
    """Give away a unit that fills its member, where that moves less than its company leaving.

    A giant fits nowhere as things stand; on some member, though, fewer units may have to make room
    for it than would have to leave the giant's home.
    """
    instance = state.instance
    if instance.units * instance.members > GIANT_CELLS_MAX:
        return
    for source in state.over(cap).tolist():
        units = np.flatnonzero(state.place == source)
        giant = int(units[int(instance.weight[units].argmax())])
        weight = int(instance.weight[giant])
        excess = int(state.weight_on[source] - cap[source])
        rest = instance.weight[units[units != giant]]
        staying = _fewest(rest, excess)
        if staying < 2:
            continue
        leaving = int(instance.toll[giant]) + _fewest(rest, excess - weight)
        best, target = staying, source
        for member in instance.allowed[int(instance.allowed_class[giant])].tolist():
            if member != source and weight <= cap[member]:
                over = int(state.weight_on[member]) + weight - int(cap[member])
                cost = leaving + _fewest(instance.weight[state.place == member], over)
                if cost < best:
                    best, target = cost, member
        if target != source:
            state.put(giant, target)


GIANT_CELLS_MAX = 100_000
"""Units x members up to which giants are sought: one look at every member for each overfull one."""


def _fewest(weights: Ints, excess: int) -> int:
    """Count how many of the heaviest units cover an excess; a thousand more if none can."""
    if excess <= 0:
        return 0
    covered = np.cumsum(-np.sort(-weights))
    return (
        int(np.searchsorted(covered, excess))
        + 1
        + (1000 if not len(covered) or covered[-1] < excess else 0)
    )
