"""Back into the band with few moves: a steepest descent on how much members are over their caps.

Each step looks at the member that is most over and at three ways to relieve it: one unit goes
elsewhere; one unit is exchanged for a lighter one; one unit goes where another first makes room.
The step that relieves most for each partition moved is taken. Ties relieve with the lightest unit.

Promises: never makes another member go over its cap; ends, because every step lowers the total
excess. Does not: undo what turned out to be needless (`polish.py`).

Pairs are not enumerated: with units sorted by (holder, weight) the best partner of a unit on each
member is one binary search away, so that a step costs (units of the member) x (members) x log.
"""

from dataclasses import dataclass

import numpy as np

from agent.assign.model import Flags, Floats, Ints
from agent.assign.state import State

CELLS = 20_000
"""(unit, member) cells looked at in one vectorised bite: a few tens of microseconds."""

SCAN_MAX = 50_000
"""Up to this many units x members each step weighs pairs even where a single unit would do."""

CROSS_MOVES = 50.0
"""Moves that one mean load across racks is worth while relieving."""

PAIR_CELLS_MAX = 40_000_000
"""(unit, member) cells that pair steps of one run may search: about two seconds."""


@dataclass(frozen=True, slots=True)
class _Step:
    """Units and where they go, in order; `worth` is weight relieved for each partition moved."""

    worth: float
    units: tuple[int, ...]
    targets: tuple[int, ...]


class Relief:
    """Relieves the members of one state; `tight` sends units where they leave the least room."""

    def __init__(
        self, state: State, cap: Ints, *, tight: bool = False, frozen: Flags | None = None
    ) -> None:
        instance = state.instance
        self._state, self._cap, self._tight = state, cap, tight
        self._weight, self._may = instance.weight, instance.may
        self._class, self._home, self._toll = instance.allowed_class, instance.home, instance.toll
        self._movable = instance.weight > 0
        if frozen is not None:
            self._movable &= ~frozen
        self._thorough = instance.units * instance.members <= SCAN_MAX
        self._racks = instance.has_racks
        mean = instance.weight.sum() / max(instance.units, 1)
        self._cross_price = CROSS_MOVES / max(mean, 1.0)
        self._cells_left = PAIR_CELLS_MAX
        self._held = _Held(state)
        self.steps = 0

    def run(self) -> bool:
        """Relieve until no member is over; False when some are left that nothing helps."""
        state, cap = self._state, self._cap
        if not len(cap):
            return True
        stuck = np.zeros(len(cap), dtype=np.bool_)
        while True:
            excess = np.where(stuck, 0, state.weight_on - cap)
            source = int(excess.argmax())
            if excess[source] <= 0:
                return not stuck.any()
            step = self._best_step(source, int(excess[source]))
            self.steps += 1
            if step is None:
                stuck[source] = True
                continue
            for unit, target in zip(step.units, step.targets, strict=True):
                state.put(unit, target)
                self._held.arrived(unit, target)

    def _best_step(self, source: int, excess: int) -> _Step | None:
        units = self._held.by(source)
        units = units[self._movable[units]]
        if not len(units):
            return None
        room = self._cap - self._state.weight_on
        single = self._single(units, source, excess, room)
        if single is not None and (single.worth >= excess or not self._thorough):
            return single
        # No pair relieves more for a move than the heaviest unit alone, where that one may go.
        if single is not None and single.worth >= self._weight[units].max() and not self._racks:
            return single
        self._cells_left -= len(units) * len(room)
        if self._cells_left < 0:
            return single
        pair = self._pair(units, source, excess, room)
        if single is None or (pair is not None and pair.worth > single.worth * (1 + 1e-9)):
            return pair
        return single

    def _price(self, units: Ints, targets: Ints) -> Floats:
        """Partitions moved by sending units to targets (broadcast); below 0 when they return.

        Load that starts to cross racks is priced as that of many moves.
        """
        home, toll = self._home[units], self._toll[units]
        leaves = (self._state.place[units] == home) & (home >= 0)
        returns = (targets == home) & ~leaves
        price = np.where(leaves, toll, 0) - np.where(returns, toll, 0)
        if not self._racks:
            return price.astype(np.float64)
        instance, here = self._state.instance, self._state.place[units]
        more = instance.cross_of(units, targets) - instance.cross_of(units, here)
        return np.asarray(price + more * self._cross_price)

    def _single(self, units: Ints, source: int, excess: int, room: Ints) -> _Step | None:
        """Send one unit elsewhere: look at units from the worthiest on, until one fits."""
        if self._racks:
            return self._single_by_price(units, source, excess, room)
        weight = self._weight[units]
        settled = (self._home[units] == source) & (self._toll[units] > 0)
        price = np.where(settled, self._toll[units], 0).astype(np.float64)
        worth = _worth(np.minimum(weight, excess), price)
        order = np.lexsort((units, weight, -worth))
        bite = max(1, CELLS // len(room))
        for begin in range(0, len(order), bite):
            some = order[begin : begin + bite]
            fits = self._may[self._class[units[some]]] & (room[None, :] >= weight[some, None])
            fits[:, source] = False
            helpful = np.flatnonzero(fits.any(axis=1))
            if len(helpful):
                first = int(helpful[0])
                unit = int(units[some[first]])
                target = self._target(unit, np.flatnonzero(fits[first]), room)
                return _Step(float(worth[some[first]]), (unit,), (target,))
        return None

    def _single_by_price(self, units: Ints, source: int, excess: int, room: Ints) -> _Step | None:
        """Send one unit elsewhere where each target has a price of its own."""
        weight = self._weight[units][:, None]
        fits = self._may[self._class[units]] & (room[None, :] >= weight)
        fits[:, source] = False
        price = self._price(units[:, None], np.arange(len(room))[None, :])
        relief = np.where(fits, np.minimum(weight, excess), 0)
        left = np.where(fits, room[None, :] - weight, 0)
        found = _best_cell(relief, price, weight if self._tight else weight - left)
        if found is None:
            return None
        worth, i, j = found
        return _Step(worth, (int(units[i]),), (j,))

    def _target(self, unit: int, targets: Ints, room: Ints) -> int:
        """Choose among members where a unit fits: its home, else tight or least utilised."""
        home = int(self._home[unit])
        if home >= 0 and (targets == home).any():
            return home
        if self._tight:
            return int(targets[int(room[targets].argmin())])
        after = self._state.weight_on[targets] + self._weight[unit]
        return int(targets[int((after / self._state.instance.capacity[targets]).argmin())])

    def _pair(self, units: Ints, source: int, excess: int, room: Ints) -> _Step | None:
        """Exchange a unit for a lighter one, or let another make room for it."""
        state, place = self._state, self._state.place
        others = np.flatnonzero((place != source) & (place >= 0) & self._movable)
        settled = place[others] == self._home[others]
        back = self._may[self._class[others], source]
        onward, has_room = self._roomiest(others, source, room)
        best: _Step | None = None
        for group in (~settled, settled):
            comes = _Sorted(state, others[group & back])
            goes = _Sorted(state, others[group & has_room])
            for step in (
                self._exchange(units, source, excess, room, comes),
                self._make_room(units, source, excess, room, goes, onward[group & has_room]),
            ):
                if step is not None and (best is None or step.worth > best.worth * (1 + 1e-9)):
                    best = step
        return best

    def _exchange(
        self, units: Ints, source: int, excess: int, room: Ints, comes: "_Sorted"
    ) -> _Step | None:
        weight = self._weight[units][:, None]
        may_go = self._may[self._class[units]]
        members = np.arange(len(room))[None, :]
        # The heaviest partner that still leaves full relief; else the lightest that fits.
        partner = comes.at_most(weight - excess, members)
        full = (partner >= 0) & (comes.weight_at(partner) >= weight - room[None, :])
        partner = np.where(full, partner, comes.at_least(weight - room[None, :], members))
        back_weight = comes.weight_at(partner)
        relief = np.where((partner >= 0) & may_go, np.minimum(weight - back_weight, excess), 0)
        relief[:, source] = 0
        other = comes.unit_at(partner)
        price = self._price(units[:, None], members)
        price += self._price(other, np.full(other.shape, source))
        found = _best_cell(relief, price, weight - back_weight)
        if found is None:
            return None
        worth, i, j = found
        return _Step(worth, (int(units[i]), int(other[i, j])), (j, source))

    def _make_room(
        self, units: Ints, source: int, excess: int, room: Ints, goes: "_Sorted", onward: Ints
    ) -> _Step | None:
        weight = self._weight[units][:, None]
        may_go = self._may[self._class[units]]
        members = np.arange(len(room))[None, :]
        partner = goes.at_least(weight - room[None, :], members)
        relief = np.where((partner >= 0) & may_go, np.minimum(weight, excess), 0)
        relief[:, source] = 0
        other = goes.unit_at(partner)
        next_member = goes.along(onward, partner)
        price = self._price(units[:, None], members) + self._price(other, next_member)
        found = _best_cell(relief, price, weight + goes.weight_at(partner))
        if found is None:
            return None
        worth, i, j = found
        return _Step(worth, (int(other[i, j]), int(units[i])), (int(next_member[i, j]), j))

    def _roomiest(self, others: Ints, source: int, room: Ints) -> tuple[Ints, Flags]:
        """Give, for each unit, the roomiest member it may go on to, and whether it fits there."""
        at = self._state.place[others]
        masked = np.where(self._may, room[None, :], -1)
        masked[:, source] = -1
        first = masked.argmax(axis=1)
        rows = np.arange(len(masked))
        second_best = masked.copy()
        second_best[rows, first] = -1
        second = second_best.argmax(axis=1)
        klass = self._class[others]
        onward = np.where(first[klass] == at, second[klass], first[klass])
        fits = (masked[klass, onward] >= self._weight[others]) & (onward != at)
        return onward, np.asarray(fits)


class _Held:
    """Units held by each member: a sorted snapshot, and what has come since."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._order = np.argsort(state.place, kind="stable")
        self._start = np.searchsorted(
            state.place[self._order], np.arange(state.instance.members + 1)
        )
        self._come: dict[int, list[int]] = {}

    def arrived(self, unit: int, member: int) -> None:
        """Note that a unit came to a member."""
        self._come.setdefault(member, []).append(unit)

    def by(self, member: int) -> Ints:
        """Give the units of a member, ascending."""
        units = self._order[self._start[member] : self._start[member + 1]]
        come = self._come.get(member)
        if come:
            units = np.unique(np.concatenate([units, np.array(come, dtype=np.int64)]))
        return np.asarray(units[self._state.place[units] == member])


class _Sorted:
    """Some units sorted by (holder, weight), searched for the nearest weight on each member."""

    def __init__(self, state: State, units: Ints) -> None:
        instance = state.instance
        order = np.lexsort((units, instance.weight[units], state.place[units]))
        self._order = order
        self._units = units[order]
        self._weights = instance.weight[self._units]
        self._ladder = np.unique(self._weights)
        width = len(self._ladder) + 1
        self._width = width
        self._member = state.place[self._units]
        self._key = self._member * width + np.searchsorted(self._ladder, self._weights)

    def at_most(self, weight: Ints, member: Ints) -> Ints:
        """Give the position of the heaviest unit of `member` up to `weight`, or -1."""
        rung = np.searchsorted(self._ladder, weight, side="right")
        found = np.searchsorted(self._key, member * self._width + rung, side="left") - 1
        return self._on(found, member)

    def at_least(self, weight: Ints, member: Ints) -> Ints:
        """Give the position of the lightest unit of `member` from `weight` up, or -1."""
        rung = np.searchsorted(self._ladder, weight, side="left")
        found = np.searchsorted(self._key, member * self._width + rung, side="left")
        return self._on(found, member)

    def _on(self, found: Ints, member: Ints) -> Ints:
        if not len(self._units):
            return np.full(np.broadcast_shapes(found.shape, member.shape), -1)
        inside = (found >= 0) & (found < len(self._units))
        at = self._member[np.where(inside, found, 0)]
        return np.where(inside & (at == member), found, -1)

    def weight_at(self, position: Ints) -> Ints:
        """Give the weight at a position; 0 where there is none."""
        if not len(self._units):
            return np.zeros(position.shape, dtype=np.int64)
        return np.where(position >= 0, self._weights[position], 0)

    def unit_at(self, position: Ints) -> Ints:
        """Give the unit at a position; any where there is none."""
        if not len(self._units):
            return np.zeros(position.shape, dtype=np.int64)
        return np.asarray(self._units[position])

    def along(self, column: Ints, position: Ints) -> Ints:
        """Read at positions a column that stands beside the units as they were given."""
        if not len(self._units):
            return np.zeros(position.shape, dtype=np.int64)
        return np.asarray(column[self._order][position])


def _worth(relief: Ints, price: Floats) -> Floats:
    """Relief for each partition moved; what moves nothing is worth more than anything else."""
    return np.where(price <= 0, relief * 1e6, relief / np.maximum(price, 1e-3))


def _best_cell(relief: Ints, price: Floats, shifted: Ints) -> tuple[float, int, int] | None:
    """Give the cell worth most; among equals the one that shifts least weight."""
    worth = np.where(relief > 0, _worth(relief, price), 0.0)
    top = float(worth.max(initial=0.0))
    if top <= 0:
        return None
    rows, columns = np.nonzero(worth >= top * (1 - 1e-12))
    pick = int(np.broadcast_to(shifted, worth.shape)[rows, columns].argmin())
    return top, int(rows[pick]), int(columns[pick])


def restore_band(state: State, cap: Ints) -> bool:
    """Move units off members over their cap; True when none is left over."""
    return Relief(state, cap).run()
