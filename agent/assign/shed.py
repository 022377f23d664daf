"""Back into the band with few moves: a steepest descent on how much members are over their caps.

Each step looks at the member that is most over and at three ways to relieve it: one unit goes
elsewhere; one unit is exchanged for a lighter one; one unit goes where another first makes room.
The step that relieves most for each partition moved is taken. Ties relieve with the lightest unit.
Where none of them helps, one unit goes where several others then have to make room: it stays there,
and the descent goes on from that member. A few of these end a deadlock of heavy units, of which no
two fit together; the descent is taken back if it ends worse.

With racks, pairs are of units with the same replicas, so that little more crosses, and in place of
such an ejection a chain is sought in which each unit takes the next one's place (`chain.py`).

Promises: never ends with more excess in total than it began with; ends, because every step lowers
the total excess, but for those few. Does not: undo what turned out to be needless (`polish.py`).

Pairs are not enumerated: with units sorted by (at home, holder, kind, weight) the best partner of a
unit on each member is one binary search away, so that a step costs (units of the member) x
(members) x log.
"""

from dataclasses import dataclass

import numpy as np

from agent.assign.chain import cheapest_chain
from agent.assign.model import Flags, Floats, Ints, gathered
from agent.assign.state import State, backlogged

CELLS = 10_000
"""(unit, member) cells looked at in one vectorised bite: some ten microseconds."""

SCAN_MAX = 50_000
"""Up to this many units x members each step weighs pairs even where a single unit would do."""

BULK = 4
"""Heaviest units of excess above which a single unit that fits goes without weighing pairs."""

CROSS_MOVES = 50.0
"""Moves that one mean load across racks is worth while relieving."""

WAIT_MOVES = 0.5
"""Moves that it is worth not to arrive at a member with a backlog."""

PAIR_WORK = 4
"""Work of weighing pairs, in looks at single units; one is some 50 microseconds."""

CHAIN_CELLS_MAX = 200_000
"""Units x members up to which ejection chains are sought: 20 to 30 ms each at most."""

EJECTIONS_MAX = 4
"""Units of one run that may go where several others have to make room; more never helped."""

WORK_MAX = 10**12
"""No bound: descents end by themselves."""

PAIR_CELLS_MAX = 40_000_000
"""(unit, member) cells that pair steps of one run may search: about two seconds."""


@dataclass(frozen=True, slots=True)
class _Step:
    """Units and where they go, in order; `worth` is weight relieved for each partition moved."""

    worth: float
    units: tuple[int, ...]
    targets: tuple[int, ...]


class Relief:
    """Relieves the members of one state; `tight` sends units where they leave the least room.

    `work` counts what was looked at: 1 for a single unit, PAIR_WORK for pairs.
    """

    def __init__(
        self,
        state: State,
        cap: Ints,
        *,
        tight: bool = False,
        frozen: Flags | None = None,
        work_max: int = WORK_MAX,
    ) -> None:
        instance = state.instance
        self._state, self._cap, self._tight = state, cap, tight
        self._weight, self._may = instance.weight, instance.may
        self._class, self._home, self._toll = instance.allowed_class, instance.home, instance.toll
        elsewhere = instance.may.sum(axis=1) > 1
        self._movable = (instance.weight > 0) & elsewhere[instance.allowed_class]
        if frozen is not None:
            self._movable &= ~frozen
        self._equal = not np.ptp(instance.capacity) if instance.members else True
        self._thorough = instance.units * instance.members <= SCAN_MAX
        self._racks = instance.has_racks
        # Pairs are of one kind: where racks count, of one profile, so that little more crosses.
        self._kind = instance.profile if self._racks else np.zeros_like(instance.profile)
        self._kinds = int(self._kind.max(initial=0)) + 1
        self._wait = np.where(backlogged(instance, cap), WAIT_MOVES, 0.0)
        mean = instance.weight.sum() / max(instance.units, 1)
        self._cross_price = CROSS_MOVES / max(mean, 1.0)
        self._cells_left = PAIR_CELLS_MAX
        self._held = _Held(state)
        # Distinct weights and the rank of each unit; made where a pair is first sought.
        self._ladder = self._rank = instance.weight[:0]
        self.work, self._work_max = 0, work_max
        # Weighing an ejection looks at all units of all members; with racks chains take its place.
        self._ejections = EJECTIONS_MAX if self._thorough and not self._racks else 0
        self._deadlock: State | None = None  # what the first ejection began with

    def run(self) -> bool:
        """Relieve until no member is over; False when some are left that nothing helps."""
        done = self._descend()
        start = self._deadlock
        if not done and start and self._state.excess(self._cap) > start.excess(self._cap):
            self._state.become(start)
        return done

    def _descend(self) -> bool:
        if not len(self._cap):
            return True
        room = self._cap - self._state.weight_on
        stuck: set[int] = set()
        least = room.copy()  # what is left of the members that something may still help
        while self.work <= self._work_max:
            source = int(least.argmin())
            if least[source] >= 0:
                return not stuck
            excess = -int(room[source])
            step = self._best_step(source, excess, room) or self._ejection(source, excess, room)
            step = step or self._chain(source)
            if step is None:
                stuck.add(source)
                least[source] = 0
                continue
            for member in self._take(step):
                room[member] = self._cap[member] - self._state.weight_on[member]
                least[member] = 0 if member in stuck else room[member]
        return False

    def _take(self, step: _Step) -> set[int]:
        """Send the units of a step where they go; give the members that this changed."""
        changed: set[int] = set()
        for unit, target in zip(step.units, step.targets, strict=True):
            changed |= {int(self._state.place[unit]), target}
            self._state.put(unit, target)
            self._held.arrived(unit, target)
        return changed

    def _best_step(self, source: int, excess: int, room: Ints) -> _Step | None:
        self.work += 1
        units = self._held.by(source)
        units = units[self._movable[units]]
        if not len(units):
            return None
        single = self._single(units, source, excess, room)
        if single is not None and (single.worth >= excess or not self._thorough):
            return single
        if single is not None and excess > BULK * int(self._weight[units].max()):
            return single
        # No pair relieves more for a move than the heaviest unit alone, where that one may go.
        if single is not None and not self._racks:
            heavier = units[self._weight[units] > single.worth]
            if not len(heavier) or not self._reaches(heavier, source, room):
                return single
        self._cells_left -= len(units) * len(room)
        if self._cells_left < 0:
            return single
        self.work += PAIR_WORK
        pair = self._pair(units, source, excess, room)
        if single is None or (pair is not None and pair.worth > single.worth * (1 + 1e-9)):
            return pair
        return single

    def _reaches(self, units: Ints, source: int, room: Ints) -> bool:
        """Tell whether any of the units would fit elsewhere if one unit there made room."""
        others = np.flatnonzero(self._movable & (self._state.place >= 0))
        heaviest = np.zeros_like(room)
        np.maximum.at(heaviest, self._state.place[others], self._weight[others])
        most = room + heaviest
        most[source] = 0
        return bool((self._may[self._class[units]] & (most >= self._weight[units][:, None])).any())

    def _price(self, units: Ints, targets: Ints) -> Floats:
        """Partitions moved by sending units to targets (broadcast); below 0 when they return.

        Load that starts to cross racks is priced as that of many moves, arriving where a backlog
        has to be worked off as that of a part of one.
        """
        place = self._state.place[units]
        price = self._dues(units, targets) - self._dues(units, place)
        if not self._racks:
            return price
        instance = self._state.instance
        more = instance.cross_of(units, targets) - instance.cross_of(units, place)
        return np.asarray(price + more * self._cross_price)

    def _dues(self, units: Ints, members: Ints) -> Floats:
        """Give what units with members count as moved: nothing at home or where there is none."""
        home = self._home[units]
        away = (members != home) & (home >= 0)
        return np.asarray(away * (self._toll[units] + self._wait[members]))

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
                target = self._target(unit, fits[first], room)
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
        worth, (i, j) = found
        return _Step(worth, (int(units[i]),), (j,))

    def _target(self, unit: int, fits: Flags, room: Ints) -> int:
        """Choose among members where a unit fits: its home, else tight or least utilised."""
        home = int(self._home[unit])
        if home >= 0 and fits[home]:
            return home
        calm = fits & (self._wait == 0)
        fits = calm if calm.any() else fits
        if self._tight:
            return int(np.where(fits, room, np.iinfo(np.int64).max).argmin())
        after = self._state.weight_on
        if not self._equal:  # else the order is that of the weights
            after = (after + self._weight[unit]) / self._state.instance.capacity
        least = int(after.argmin())
        return least if fits[least] else int(np.where(fits, after, np.iinfo(np.int64).max).argmin())

    def _pair(self, units: Ints, source: int, excess: int, room: Ints) -> _Step | None:
        """Exchange a unit for a lighter one, or let another make room for it."""
        place = self._state.place
        may_go = self._may[self._class[units]]
        may_go[:, source] = False
        near = np.asarray(may_go.any(axis=0))
        others, key = self._ranked(np.flatnonzero(near[place] & (place >= 0) & self._movable))
        back = self._may[self._class[others], source]
        onward, has_room = self._roomiest(others, source, room)
        comes = self._partners(others, key, np.full(len(others), source), back)
        goes = self._partners(others, key, onward, has_room)
        wanted = self._wanted(units, np.flatnonzero(near), may_go[:, near], excess, room)
        exchange, make_room = self._exchange(wanted, comes), self._make_room(wanted, goes)
        if exchange is None or make_room is None:
            return exchange or make_room
        return make_room if make_room.worth > exchange.worth * (1 + 1e-9) else exchange

    def _chain(self, source: int) -> _Step | None:
        """Send units along an ejection chain, where racks close all shorter ways."""
        instance = self._state.instance
        if not self._racks or instance.units * instance.members > CHAIN_CELLS_MAX:
            return None
        self.work += PAIR_WORK
        found = cheapest_chain(self._state, self._cap, source, self._movable)
        if found is None:
            return None
        return _Step(0.0, tuple(found[0].tolist()), tuple(found[1].tolist()))

    def _ejection(self, source: int, excess: int, room: Ints) -> _Step | None:
        """Send one unit where several others then have to make room, each of which fits somewhere.

        Worth is relief for each unit that then moves, the heaviest first. The unit stays there.
        """
        units = self._held.by(source)
        units = units[self._movable[units]]
        if not len(units) or not self._ejections:
            return None
        self.work += PAIR_WORK
        weight = self._weight[units]
        may_go = self._may[self._class[units]]
        best: _Step | None = None
        for member in np.flatnonzero(room >= 0).tolist():
            others = np.maximum(room, 0)
            others[member], others[source] = 0, max(0, int(weight.max()) - excess)
            give = self._held.by(member)
            give = self._weight[give[self._movable[give]]]
            given = np.cumsum(-np.sort(-give[give <= others.max()]))
            need = weight - room[member]
            enough = min(int(given[-1]) if len(given) else 0, int(others.sum()))
            some = np.flatnonzero(may_go[:, member] & (need <= enough))
            if not len(some):
                continue
            worth = np.minimum(weight[some], excess) / (2 + np.searchsorted(given, need[some]))
            at = int(worth.argmax())
            if best is None or worth[at] > best.worth:
                best = _Step(float(worth[at]), (int(units[some[at]]),), (member,))
        if best is not None:
            self._ejections -= 1
            self._movable[best.units[0]] = False
            self._deadlock = self._deadlock or self._state.copy()
        return best

    def _ranked(self, others: Ints) -> tuple[Ints, Ints]:
        """Sort units by (at home, holder, kind, weight); give them and their keys."""
        if not len(self._ladder):
            self._ladder, rank = np.unique(self._weight, return_inverse=True)
            self._rank = rank.reshape(-1)
        holder = self._state.place[others]
        shelf = (holder == self._home[others]) * len(self._cap) + holder
        shelf = shelf * self._kinds + self._kind[others]
        key = shelf * (len(self._ladder) + 1) + self._rank[others]
        order = np.argsort(key, kind="stable")
        return others[order], key[order]

    def _partners(self, others: Ints, key: Ints, target: Ints, chosen: Flags) -> "_Partners | None":
        """Pick some of the ranked units, where any are, and put a sentinel at either end."""
        picked = np.flatnonzero(chosen)
        if not len(picked):
            return None
        at = np.zeros(len(picked) + 2, dtype=np.int64)
        at[1:-1] = picked
        unit, target, ranked = others[at], target[at], key[at]
        ranked[0], ranked[-1] = -1, np.iinfo(np.int64).max
        return _Partners(unit, self._weight[unit], ranked, target, self._price(unit, target))

    def _wanted(
        self, units: Ints, members: Ints, may_go: Flags, excess: int, room: Ints
    ) -> "_Wanted":
        """Lay out what all partners of `units` on `members` are sought by, once for a step."""
        weight = self._weight[units][:, None]
        least = weight - room[None, members]
        width = len(self._ladder) + 1
        shelf = np.array([[[0]], [[len(self._cap)]]]) + members
        base = (shelf * self._kinds + self._kind[units][:, None]) * width
        return _Wanted(
            excess=excess,
            units=units,
            members=members,
            weight=weight,
            may_go=may_go,
            price=self._price(units[:, None], members[None, :]),
            least=least,
            base=base,
            width=width,
            least_key=base + np.searchsorted(self._ladder, least, side="left"),
            full_key=base + np.searchsorted(self._ladder, weight - excess, side="right"),
        )

    def _exchange(self, wanted: "_Wanted", comes: "_Partners | None") -> _Step | None:
        if comes is None:
            return None
        # The heaviest partner that still leaves full relief; else the lightest that fits.
        heaviest, full = comes.below(wanted.full_key, wanted.base)
        full &= comes.weight[heaviest] >= wanted.least
        lightest, found = comes.from_on(wanted.least_key, wanted.base + wanted.width)
        partner = np.where(full, heaviest, lightest)
        shift = wanted.weight - comes.weight[partner]
        relief = np.where((full | found) & wanted.may_go, np.minimum(shift, wanted.excess), 0)
        best = _best_cell(relief, wanted.price + comes.price[partner], shift)
        if best is None:
            return None
        worth, (group, i, j) = best
        other = partner[group, i, j]
        units = (int(wanted.units[i]), int(comes.unit[other]))
        return _Step(worth, units, (int(wanted.members[j]), int(comes.target[other])))

    def _make_room(self, wanted: "_Wanted", goes: "_Partners | None") -> _Step | None:
        if goes is None:
            return None
        partner, found = goes.from_on(wanted.least_key, wanted.base + wanted.width)
        relief = np.where(found & wanted.may_go, np.minimum(wanted.weight, wanted.excess), 0)
        price = wanted.price + goes.price[partner]
        best = _best_cell(relief, price, wanted.weight + goes.weight[partner])
        if best is None:
            return None
        worth, (group, i, j) = best
        other = partner[group, i, j]
        units = (int(goes.unit[other]), int(wanted.units[i]))
        return _Step(worth, units, (int(goes.target[other]), int(wanted.members[j])))

    def _roomiest(self, others: Ints, source: int, room: Ints) -> tuple[Ints, Flags]:
        """Give, for each unit, the roomiest member it may go on to, and whether it fits there."""
        at = self._state.place[others]
        masked = np.where(self._may, room[None, :], -1)
        masked[:, source] = -1
        rows = np.arange(len(masked))
        first = masked.argmax(axis=1)
        first_room = masked[rows, first]
        masked[rows, first] = -1
        second = masked.argmax(axis=1)
        klass = self._class[others]
        is_first = first[klass] != at
        onward = np.where(is_first, first[klass], second[klass])
        left = np.where(is_first, first_room[klass], masked[rows, second][klass])
        return onward, np.asarray((left >= self._weight[others]) & (onward != at))


class _Held:
    """Units held by each member: a sorted snapshot, and what has come since."""

    def __init__(self, state: State) -> None:
        self._state = state
        placed = np.flatnonzero(state.place >= 0)
        self._order = gathered(placed, state.place)
        held = np.bincount(state.place[placed], minlength=state.instance.members)
        self._start = np.concatenate([[0], np.cumsum(held)])
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


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What partners are sought by, for the units of one overfull member: [units, members].

    Keys have one more axis in front: partners that are not at home, and those that are.
    """

    excess: int
    units: Ints  # [units]
    members: Ints  # [members] that any of them may go to
    weight: Ints  # [units, 1]
    may_go: Flags
    price: Floats  # of the unit going to the member
    least: Ints  # weight that a partner must have for the unit to fit
    base: Ints  # lowest key of the unit's kind on the member
    width: int  # keys of one kind on one member
    least_key: Ints
    full_key: Ints  # lowest key of partners too heavy for full relief


@dataclass(frozen=True, slots=True)
class _Partners:
    """Units sorted by key (at home, holder, kind, rank of weight); first and last are sentinels."""

    unit: Ints
    weight: Ints
    key: Ints
    target: Ints  # where each one goes
    price: Floats  # of going there

    def below(self, key: Ints, base: Ints) -> tuple[Ints, Flags]:
        """Give the position of the last unit with a lower key, and whether the member holds it."""
        found = np.searchsorted(self.key, key, side="left") - 1
        return found, np.asarray(self.key[found] >= base)

    def from_on(self, key: Ints, end: Ints) -> tuple[Ints, Flags]:
        """Give the position of the first unit with such a key or a higher, and the same."""
        found = np.searchsorted(self.key, key, side="left")
        return found, np.asarray(self.key[found] < end)


def _worth(relief: Ints, price: Floats) -> Floats:
    """Relief for each partition moved; what moves nothing is worth more than anything else."""
    return np.asarray(relief / np.where(price <= 0, 1e-6, np.maximum(price, 1e-3)))


def _best_cell(relief: Ints, price: Floats, shifted: Ints) -> tuple[float, tuple[int, ...]] | None:
    """Give the cell worth most; among equals the one that shifts least weight."""
    worth = _worth(relief, price)
    top = float(worth.max(initial=0.0))
    if top <= 0:
        return None
    cells = np.nonzero(worth >= top * (1 - 1e-12))
    pick = int(np.broadcast_to(shifted, worth.shape)[cells].argmin())
    return top, tuple(int(axis[pick]) for axis in cells)


def restore_band(state: State, cap: Ints) -> bool:
    """Move units off members over their cap; True when none is left over."""
    return Relief(state, cap).run()
