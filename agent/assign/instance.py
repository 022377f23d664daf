"""The solver's own view of a problem: units to place, integers to compare.

A unit is what moves as one: a partition, or the equal-numbered partitions of co-partitioned topics.
Loads become integers once, here, so that every later comparison is exact and an instance whose
loads are all multiplied by one number gives the same integers, hence the same answer.

Scaling: `weight = round(load / largest load * 2^b)` with b as large as keeps the sum of N weights
below 2^60, and at most 44. For a million partitions b is 40: one part in 10^12 of the largest load.
"""

import sys
from dataclasses import dataclass, replace

import numpy as np

from agent.assign.model import (
    NOBODY,
    Flags,
    Floats,
    GroupProblem,
    Ints,
    all_of,
    any_of,
    is_member,
    total_by,
)
from agent.errors import OurFault, TheirFault
from cost.racks import crossing_share

WEIGHT_SUM_BITS = 60
WEIGHT_BITS_MAX = 44

TOLL_OF_MEAN = 256
"""Price of moving the mean load where moves are counted by load."""


@dataclass(frozen=True, slots=True)
class Instance:
    """U units over M members, of which unit u may go to those in `allowed[allowed_class[u]]`."""

    members: int
    capacity: Floats  # [M]
    weight: Ints  # [U] scaled load
    scale: float  # weight = load * scale
    home: Ints  # [U] present owner if it may stay there, else NOBODY
    pieces: Ints  # [U] partitions that move if the unit leaves home
    toll: Ints  # [U] price of leaving home: its pieces, or its load in 256ths of the mean
    allowed_class: Ints  # [U]
    allowed: tuple[Ints, ...]  # distinct sets of members, each sorted
    may: Flags  # [classes, M], the same as a table
    profile: Ints  # [U] row of `cross_share`
    cross_share: Floats  # [profiles, racks + 1] share of the load that crosses; last: rack unknown
    member_rack: Ints  # [M] column of `cross_share`
    conflict_start: Ints  # [U + 1] rows of `conflict_with`, as in a sparse matrix
    conflict_with: Ints  # [...] units
    conflict_count: Ints  # [...] incompatible pairs of partitions between the two units
    unit_of: Ints  # [N] unit of each row of the problem, NOBODY where nobody subscribes
    single: Flags  # [U] the unit is one partition

    @property
    def units(self) -> int:
        """Number of units."""
        return len(self.weight)

    def cross_of(self, unit: Ints, member: Ints) -> Ints:
        """Scaled load that crosses racks with these units on these members (broadcast)."""
        share = self.cross_share[self.profile[unit], self.member_rack[member]]
        return np.rint(self.weight[unit] * share).astype(np.int64)

    @property
    def has_racks(self) -> bool:
        """Whether any placement could cross a rack."""
        return bool(self.cross_share.any())

    def blind(self) -> "Instance":
        """Give the same instance with racks out of sight: nothing crosses."""
        return replace(self, cross_share=np.zeros_like(self.cross_share))

    @property
    def has_conflicts(self) -> bool:
        """Whether any two units should be kept apart."""
        return len(self.conflict_with) > 0


def build_instance(problem: GroupProblem) -> Instance:
    """Collapse a problem into units; raises TheirFault where co-partitioning cannot be kept."""
    wanted = np.isin(problem.topic, np.concatenate([*problem.subscriptions, _EMPTY]))
    unit_of = _units(problem, wanted)
    rows = np.flatnonzero(wanted)
    unit = unit_of[rows]
    units = int(unit.max()) + 1 if len(unit) else 0
    weights, scale = _scaled(problem.load)
    weight = np.zeros(units, dtype=np.int64)
    np.add.at(weight, unit, weights[rows])
    topic_sets = _topic_sets(problem, unit, rows, units)
    allowed_class, may = _allowed(problem, topic_sets, unit, rows, units)
    home, pieces = _homes(problem, unit, rows, units, allowed_class, may)
    profile, cross_share = _profiles(problem, unit, rows, units)
    member_rack = np.where(problem.member_rack < 0, len(problem.racks), problem.member_rack)
    start, other, count = _conflicts(problem, unit_of, units)
    return Instance(
        members=len(problem.member_ids),
        capacity=problem.capacity,
        weight=weight,
        scale=scale,
        home=home,
        pieces=pieces,
        toll=_tolls(problem, weight, pieces),
        allowed_class=allowed_class,
        allowed=tuple(np.flatnonzero(row) for row in may),
        may=may,
        profile=profile,
        cross_share=cross_share,
        member_rack=member_rack,
        conflict_start=start,
        conflict_with=other,
        conflict_count=count,
        unit_of=unit_of,
        single=np.bincount(unit, minlength=units) == 1,
    )


_EMPTY = np.zeros(0, dtype=np.int64)


def _scaled(load: Floats) -> tuple[Ints, float]:
    largest = float(load.max()) if len(load) else 0.0
    if largest == 0:
        return np.zeros(len(load), dtype=np.int64), 1.0
    bits = min(WEIGHT_BITS_MAX, WEIGHT_SUM_BITS - len(load).bit_length())
    scale = min(2.0**bits / largest, sys.float_info.max)  # a load may be next to nothing
    return np.rint(load / largest * 2.0**bits).astype(np.int64), scale


def _units(problem: GroupProblem, wanted: Flags) -> Ints:
    """Give each row its unit; units are numbered in the order of their first row."""
    unit_of = np.full(len(problem.topic), NOBODY, dtype=np.int64)
    group_of = np.arange(len(problem.topics))
    for topics in problem.copartition:
        if len(topics) > 1:
            merged = np.isin(group_of, group_of[list(topics)])
            group_of[merged] = group_of[merged].min()
    bound = np.bincount(group_of, minlength=len(problem.topics))[group_of] > 1
    together = np.flatnonzero(wanted & bound[problem.topic])
    if not len(together):
        unit_of[wanted] = np.arange(np.count_nonzero(wanted))
        return unit_of
    key = np.stack([group_of[problem.topic[together]], problem.partition[together]], axis=1)
    _, first, inverse = np.unique(key, axis=0, return_index=True, return_inverse=True)
    label = np.arange(len(unit_of))
    label[together] = together[first][inverse.reshape(-1)]
    unit_of[wanted] = np.unique(label[wanted], return_inverse=True)[1]
    return unit_of


def _topic_sets(problem: GroupProblem, unit: Ints, rows: Ints, units: int) -> list[Ints]:
    """Give each distinct set of topics that one unit spans, and (last) each unit's index in it."""
    if units == len(rows):
        used = np.bincount(problem.topic[rows], minlength=len(problem.topics)) > 0
        index = np.empty(units, dtype=np.int64)
        index[unit] = (np.cumsum(used) - 1)[problem.topic[rows]]
        return [*(np.array([t]) for t in np.flatnonzero(used)), index]
    spans: dict[int, set[int]] = {}
    for u, t in zip(unit.tolist(), problem.topic[rows].tolist(), strict=True):
        spans.setdefault(u, set()).add(t)
    known: dict[tuple[int, ...], int] = {}
    index = np.array(
        [known.setdefault(tuple(sorted(spans[u])), len(known)) for u in range(units)],
        dtype=np.int64,
    )
    return [*(np.array(k, dtype=np.int64) for k in known), index]


def _allowed(
    problem: GroupProblem, topic_sets: list[Ints], unit: Ints, rows: Ints, units: int
) -> tuple[Ints, Flags]:
    """Give each unit's class of members: subscribed, not draining if another is there, pinned."""
    *sets, index = topic_sets
    subscribed = np.zeros((len(problem.subscriptions), len(problem.topics)), dtype=np.bool_)
    for i, topics in enumerate(problem.subscriptions):
        subscribed[i, topics] = True
    whole = np.zeros((len(sets), len(subscribed)), dtype=np.bool_)
    for i, topics in enumerate(sets):
        whole[i] = all_of(subscribed[:, topics])
        if not whole[i].any():
            names = ", ".join(problem.topics[t] for t in topics)
            raise TheirFault("copartition", f"no member subscribes to all of {names}")
    readers, reader = _distinct_rows(whole)  # few, where members are many
    may_topics = readers[:, problem.subscription]
    staying = may_topics & ~problem.excluded
    live = np.where(any_of(staying)[:, None], staying, may_topics)
    may, to_class = _distinct_rows(live)
    readers_of = reader[index]
    allowed_class = to_class[readers_of]
    pinned = problem.pinned[rows]
    if not (pinned != NOBODY).any():
        return allowed_class, may
    of_unit = np.full(units, NOBODY, dtype=np.int64)
    for row, u, member in zip(
        rows[pinned != NOBODY], unit[pinned != NOBODY], pinned[pinned != NOBODY], strict=True
    ):
        if not may_topics[readers_of[u], member]:
            continue  # a pin never makes a member read what it does not subscribe to
        if of_unit[u] not in {NOBODY, member}:
            topic, number = problem.partition_name(int(row))
            raise TheirFault("pin", f"{topic}-{number} is co-partitioned with one pinned elsewhere")
        of_unit[u] = member
    fixed = np.flatnonzero(of_unit != NOBODY)
    alone = np.zeros((len(fixed), may.shape[1]), dtype=np.bool_)
    alone[np.arange(len(fixed)), of_unit[fixed]] = True
    allowed_class = allowed_class.copy()
    allowed_class[fixed] = len(may) + np.arange(len(fixed))
    may, to_class = _distinct_rows(np.concatenate([may, alone]))
    return to_class[allowed_class], may


def _distinct_rows(table: Flags) -> tuple[Flags, Ints]:
    """Give the distinct rows in a fixed order, and each row's index among them."""
    packed = np.packbits(table, axis=1)
    _, first, inverse = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return table[first], inverse.reshape(-1).astype(np.int64)


def _homes(
    problem: GroupProblem, unit: Ints, rows: Ints, units: int, allowed_class: Ints, may: Flags
) -> tuple[Ints, Ints]:
    """Give each unit's home (the owner of most of it) and what leaving costs, in partitions."""
    home = np.full(units, NOBODY, dtype=np.int64)
    toll = np.zeros(units, dtype=np.int64)
    owner = problem.owner[rows]
    owned = is_member(owner)
    owned[owned] = may[allowed_class[unit[owned]], owner[owned]]
    if not owned.any():
        return home, toll
    if units == len(rows):
        home[unit[owned]] = owner[owned]
        toll[unit[owned]] = 1
        return home, toll
    m = max(len(problem.member_ids), 1)
    key, count = np.unique(unit[owned] * m + owner[owned], return_counts=True)
    # Ascending by count, then descending by member: the last write wins.
    order = np.lexsort((-(key % m), count))
    home[key[order] // m] = key[order] % m
    toll[key[order] // m] = count[order]
    return home, toll


def _tolls(problem: GroupProblem, weight: Ints, pieces: Ints) -> Ints:
    """Price leaving home by what the group counts: partitions, or load."""
    if problem.options.move_unit == "count" or not weight.any():
        return pieces
    by_load = np.rint(weight * (TOLL_OF_MEAN / weight.mean())).astype(np.int64)
    return np.where(pieces > 0, np.maximum(by_load, 1), 0)


def _profiles(problem: GroupProblem, unit: Ints, rows: Ints, units: int) -> tuple[Ints, Floats]:
    """Give the share of each unit's load that crosses racks, by the rack of its owner."""
    racks = len(problem.racks)
    aware = problem.options.rack_aware
    by_set = crossing_share([names if aware else () for names in problem.rack_sets], racks)
    if units == len(rows):
        profile = np.zeros(units, dtype=np.int64)
        profile[unit] = problem.rack_set[rows]
        return profile, by_set
    load = total_by(unit, problem.load[rows], units)
    crossing = np.zeros((units, racks + 1))
    np.add.at(crossing, unit, by_set[problem.rack_set[rows]] * problem.load[rows][:, None])
    share = np.divide(crossing, load[:, None], out=np.zeros_like(crossing), where=load[:, None] > 0)
    distinct, index = np.unique(np.round(share, 9), axis=0, return_inverse=True)
    return index.reshape(-1).astype(np.int64), distinct.astype(np.float64)


def _conflicts(problem: GroupProblem, unit_of: Ints, units: int) -> tuple[Ints, Ints, Ints]:
    pairs = unit_of[problem.incompatible]
    pairs = pairs[(pairs >= 0).all(axis=1) & (pairs[:, 0] != pairs[:, 1])]
    both = np.concatenate([pairs, pairs[:, ::-1]])
    if not len(both):
        return np.zeros(units + 1, dtype=np.int64), _EMPTY, _EMPTY
    key, count = np.unique(both[:, 0] * units + both[:, 1], return_counts=True)
    start = np.searchsorted(key // units, np.arange(units + 1))
    return start.astype(np.int64), key % units, count.astype(np.int64)


def spread(problem: GroupProblem, instance: Instance, place: Ints) -> Ints:
    """Give every row of the problem the member of its unit; NOBODY where nobody subscribes."""
    if len(place) and int(place.min()) < 0:
        raise OurFault("a unit was left without an owner")
    owner = np.full(len(problem.topic), NOBODY, dtype=np.int64)
    known = instance.unit_of >= 0
    owner[known] = place[instance.unit_of[known]]
    return owner
