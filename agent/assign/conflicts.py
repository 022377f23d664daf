"""Incompatible pairs apart: a tabu search over single moves and exchanges inside the caps.

Promises: never more conflicts than it was given, never over the caps it was given; the same state
gives the same result. Where no placement is free of conflicts it ends with the fewest it has met.
Does not: prove that fewer are impossible.
"""

import numpy as np

from agent.assign.instance import Instance
from agent.assign.model import NOBODY, Flags, Ints
from agent.assign.state import State

ITERATIONS_MAX = 4_000
"""Steps of one search; each costs some 200 microseconds on 160 partitions."""

CELLS_TOTAL = 600_000_000
"""(unit, unit) cells that one search may look at: a few seconds at any size."""

SUSPECTS_MAX = 64
"""Conflicting units whose steps are weighed in one iteration, those in most conflicts first."""

TENURE = 12
"""Iterations for which a unit does not go back to the member that it left."""


def count_conflicts(state: State) -> int:
    """Count incompatible pairs of partitions that share a member."""
    instance = state.instance
    if not instance.has_conflicts:
        return 0
    rows = np.repeat(np.arange(instance.units), np.diff(instance.conflict_start))
    same = (state.place[rows] == state.place[instance.conflict_with]) & (state.place[rows] >= 0)
    return int(instance.conflict_count[same].sum()) // 2


def conflicts_of(state: State, unit: int, member: int | None = None) -> int:
    """Count the conflicts that one unit has on its member, or would have on another."""
    instance = state.instance
    place = int(state.place[unit]) if member is None else member
    near = slice(int(instance.conflict_start[unit]), int(instance.conflict_start[unit + 1]))
    same = state.place[instance.conflict_with[near]] == place
    return int(instance.conflict_count[near][same].sum())


def separate(state: State, cap: Ints) -> State:
    """Give the state with the fewest conflicts that the search meets."""
    starts = [state]
    if (state.instance.home == NOBODY).all():
        starts.append(_build_apart(state.instance, cap))
    best = min(starts, key=lambda s: (s.excess(cap), count_conflicts(s)))
    found = _Search(best, cap).run()
    _return_apart(found, cap)
    return found


def _build_apart(instance: Instance, cap: Ints) -> State:
    """Place heaviest first where conflicts are fewest, then utilisation, inside the caps."""
    state = State(instance, np.full(instance.units, NOBODY, dtype=np.int64))
    against = np.zeros((instance.units, instance.members), dtype=np.int64)
    order = np.lexsort((np.arange(instance.units), -instance.weight))
    for unit in order.tolist():
        members = instance.allowed[int(instance.allowed_class[unit])]
        after = state.weight_on[members] + instance.weight[unit]
        keys = (after / instance.capacity[members], against[unit, members], after > cap[members])
        member = int(members[np.lexsort(keys)[0]])
        state.put(unit, member)
        near = slice(int(instance.conflict_start[unit]), int(instance.conflict_start[unit + 1]))
        against[instance.conflict_with[near], member] += instance.conflict_count[near]
    return state


def _return_apart(state: State, cap: Ints) -> None:
    """Return units home where that adds no conflict and breaks no cap."""
    instance = state.instance
    away = np.flatnonzero((instance.home >= 0) & (state.place != instance.home))
    for unit in away[np.argsort(instance.weight[away], kind="stable")].tolist():
        home, place = int(instance.home[unit]), int(state.place[unit])
        if state.weight_on[home] + instance.weight[unit] > cap[home]:
            continue
        there, here = np.array([home]), np.array([place])
        one = np.array([unit])
        if instance.cross_of(one, there)[0] > instance.cross_of(one, here)[0]:
            continue
        before = conflicts_of(state, unit)
        state.put(unit, home)
        if conflicts_of(state, unit) > before:
            state.put(unit, place)


class _Search:
    """Tabu search: the best step that is not tabu, even if it makes things worse for a while."""

    def __init__(self, state: State, cap: Ints) -> None:
        instance = self._instance = state.instance
        self._state, self._cap = state.copy(), cap
        self._tabu = np.zeros((instance.units, instance.members), dtype=np.int64)
        # against[u, m]: conflicts that unit u has, or would have, on member m.
        self._against = np.zeros((instance.units, instance.members), dtype=np.int64)
        rows = np.repeat(np.arange(instance.units), np.diff(instance.conflict_start))
        placed = state.place[instance.conflict_with] >= 0
        np.add.at(
            self._against,
            (rows[placed], state.place[instance.conflict_with[placed]]),
            instance.conflict_count[placed],
        )
        self._units = np.arange(instance.units)

    def run(self) -> State:
        best, fewest = self._state.copy(), count_conflicts(self._state)
        current = fewest
        iterations = min(
            ITERATIONS_MAX, CELLS_TOTAL // (SUSPECTS_MAX * max(self._instance.units, 1))
        )
        for now in range(1, iterations + 1):
            if fewest == 0:
                break
            step = self._best_step(now, current, fewest)
            if step is None:
                break
            delta, unit, target, other = step
            source = int(self._state.place[unit])
            self._put(unit, target, now)
            if other >= 0:
                self._put(other, source, now)
            current += delta
            if current < fewest:
                best, fewest = self._state.copy(), current
        return best

    def _put(self, unit: int, member: int, now: int) -> None:
        instance, state = self._instance, self._state
        source = int(state.place[unit])
        near = slice(int(instance.conflict_start[unit]), int(instance.conflict_start[unit + 1]))
        units, count = instance.conflict_with[near], instance.conflict_count[near]
        self._against[units, source] -= count
        self._against[units, member] += count
        self._tabu[unit, source] = now + TENURE + (unit * 7 + now) % 5
        state.put(unit, member)

    def _best_step(self, now: int, current: int, fewest: int) -> tuple[int, int, int, int] | None:
        """Give (change of conflicts, unit, target, unit that comes back or -1)."""
        state, instance = self._state, self._instance
        mine = self._against[self._units, state.place]
        suspects = np.flatnonzero(mine > 0)
        if not len(suspects):
            return None
        if len(suspects) > SUSPECTS_MAX:
            suspects = suspects[np.argsort(-mine[suspects], kind="stable")[:SUSPECTS_MAX]]
        room = self._cap - state.weight_on
        weight = instance.weight[suspects]
        here = state.place[suspects]
        change = self._against[suspects] - mine[suspects, None]
        allowed = instance.may[instance.allowed_class[suspects]]
        single_ok = allowed & (room[None, :] >= weight[:, None])
        single_ok[np.arange(len(suspects)), here] = False
        single_ok &= (self._tabu[suspects] < now) | (current + change < fewest)
        single = self._pick(change, single_ok, self._away(suspects[:, None], None))
        # Exchanges with every unit elsewhere; pairs that conflict with each other count double.
        place = state.place
        swap = change[:, place] + (self._against[:, here].T - mine[None, :])
        for i, unit in enumerate(suspects.tolist()):
            near = slice(int(instance.conflict_start[unit]), int(instance.conflict_start[unit + 1]))
            swap[i, instance.conflict_with[near]] -= 2 * instance.conflict_count[near]
        shift = weight[:, None] - instance.weight[None, :]
        swap_ok = (shift <= room[place][None, :]) & (-shift <= room[here][:, None])
        swap_ok &= allowed[:, place] & instance.may[instance.allowed_class][:, here].T
        swap_ok &= place[None, :] != here[:, None]
        tabu = (self._tabu[suspects][:, place] >= now) | (now <= self._tabu[:, here].T)
        swap_ok &= ~tabu | (current + swap < fewest)
        pair = self._pick(swap, swap_ok, self._away(suspects[:, None], self._units[None, :]))
        options = [
            (
                delta,
                int(suspects[i]),
                int(j) if kind == 0 else int(place[j]),
                -1 if kind == 0 else j,
            )
            for kind, found in enumerate((single, pair))
            if found is not None
            for delta, i, j in [found]
        ]
        return min(options, key=lambda o: o[0]) if options else None

    def _away(self, units: Ints, others: Ints | None) -> Ints:
        """Give the partitions newly away from home after each step (for ties)."""
        instance, place = self._instance, self._state.place
        leaves = np.where(place[units] == instance.home[units], instance.toll[units], 0)
        if others is None:
            return np.broadcast_to(leaves, (len(units), instance.members))
        return leaves + np.where(place[others] == instance.home[others], instance.toll[others], 0)

    @staticmethod
    def _pick(change: Ints, ok: Flags, away: Ints) -> tuple[int, int, int] | None:
        if not ok.any():
            return None
        score = np.where(ok, change * (1 << 20) + away, np.iinfo(np.int64).max)
        i, j = np.unravel_index(int(score.argmin()), score.shape)
        return int(change[i, j]), int(i), int(j)
