"""What a consumer-group problem and its plan are: columns of dense integers.

Promises: members are sorted by id and partitions by (topic, partition), so that the order in which
a caller lists them can reach no decision; every cross reference is an index that was checked here.
Does not: decide anything, or know JSON (`door.py` does).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from agent.errors import TheirFault
from agent.limits import (
    GROUP_LOAD_MAX,
    GROUP_MEMBERS_MAX,
    GROUP_PARTITIONS_MAX,
    INCOMPATIBLE_PAIRS_MAX,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

NOBODY: Final = -1
"""Owner of a partition that never had one (or, in a plan, that nobody subscribes to)."""

GONE: Final = -2
"""Owner of a partition whose owner is no longer a member."""

UNKNOWN: Final = -1
"""Rack of a member, or broker of a partition, that nobody told."""

Partition = tuple[str, int]


def any_of(table: Flags) -> Flags:
    """Tell, for each row of a table, whether any column is set."""
    return np.asarray(table.any(axis=1), dtype=np.bool_)


def all_of(table: Flags) -> Flags:
    """Tell, for each row of a table, whether all columns are set."""
    return np.asarray(table.all(axis=1), dtype=np.bool_)


def is_member(column: Ints) -> Flags:
    """Tell where a column of owners names a member: neither NOBODY nor GONE."""
    return np.asarray(column >= 0, dtype=np.bool_)


def total_by(index: Ints, values: Floats, length: int) -> Floats:
    """Sum `values` by `index`: what `bincount` does, typed."""
    return np.bincount(index, weights=values, minlength=length).astype(np.float64, copy=False)


def gathered(order: Ints, group: Ints) -> Ints:
    """Bring the rows of each group together, groups ascending, each in the order that rows had.

    `group` [rows] is not negative. Two sorts of one key each: `lexsort` takes five times as long.
    """
    keys = group[order]
    narrow = keys.astype(np.min_scalar_type(int(keys.max(initial=0))))  # few bits: a radix sort
    return np.asarray(order[np.argsort(narrow, kind="stable")])


@dataclass(frozen=True, slots=True)
class Options:
    """How to balance one group; the fields of `options` in the contract."""

    imbalance: float = 0.05
    incompatibility: Literal["none", "network-ingress", "astraea"] = "none"
    rack_aware: bool = True
    move_unit: Literal["count", "load"] = "count"
    max_moves: int | None = None
    max_moved_load: float | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One member at the door; `topics` is its subscription."""

    id: str
    topics: Collection[str]
    capacity: float = 1.0
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partitions at the door, as columns of one length N; an optional column may be absent.

    `load` and `load_stderr` are in any one unit; `owner` names a member, a member that is gone,
    or nobody (None); `racks` are the racks that hold a replica.
    """

    topic: Sequence[str]
    partition: Sequence[int]
    load: Sequence[float] | Floats
    owner: Sequence[str | None]
    load_stderr: Sequence[float | None] | None = None
    racks: Sequence[Sequence[str] | None] | None = None
    broker: Sequence[str | None] | None = None


@dataclass(frozen=True, slots=True)
class GroupProblem:
    """One group: M members, N partitions, all names replaced by indexes. Made by `build`."""

    id: str | int | None
    options: Options
    member_ids: tuple[str, ...]
    capacity: Floats  # [M] > 0
    member_rack: Ints  # [M] index in `racks`, or UNKNOWN
    subscription: Ints  # [M] index in `subscriptions`
    subscriptions: tuple[Ints, ...]  # distinct; sorted indexes in `topics`
    topics: tuple[str, ...]
    racks: tuple[str, ...]
    brokers: tuple[str, ...]
    topic: Ints  # [N] index in `topics`
    partition: Ints  # [N]
    load: Floats  # [N] >= 0
    load_stderr: Floats  # [N] >= 0; 0 where not told
    rack_set: Ints  # [N] index in `rack_sets`
    rack_sets: tuple[tuple[int, ...], ...]  # distinct; empty = unknown
    broker: Ints  # [N] index in `brokers`, or UNKNOWN
    owner: Ints  # [N] member, NOBODY or GONE
    incompatible: Ints  # [pairs, 2], first < second, distinct
    pinned: Ints  # [N] member or NOBODY
    copartition: tuple[tuple[int, ...], ...]  # topic indexes that stay together
    excluded: Flags  # [M] draining

    @staticmethod
    def build(
        members: Sequence[Member],
        partitions: Partitions,
        *,
        id: str | int | None = None,  # noqa: A002 -- the contract's own word
        incompatible: Sequence[tuple[Partition, Partition]] = (),
        pin: Sequence[tuple[str, int, str]] = (),
        copartition: Sequence[Sequence[str]] = (),
        exclude: Collection[str] = (),
        options: Options | None = None,
    ) -> "GroupProblem":
        """Check every value and turn names into indexes; raises TheirFault naming the path.

        A pin, exclusion or co-partitioned topic that names nobody here is ignored: configuration
        outlives members and topics. An incompatible pair must name partitions of this problem.
        """
        options = options or Options()
        _check_options(options)
        who = _Members(members)
        what = _Columns(partitions, {t for m in members for t in m.topics}, copartition)
        back = np.empty_like(what.order)
        back[what.order] = np.arange(len(back))
        row_of: Mapping[Partition, int] = {}
        if len(incompatible) or len(pin):
            row_of = {
                (t, int(p)): int(back[i])
                for i, (t, p) in enumerate(zip(partitions.topic, partitions.partition, strict=True))
            }
        rack_index = {
            r: i
            for i, r in enumerate(
                sorted({m.rack for m in members if m.rack is not None} | what.rack_names)
            )
        }
        subscriptions, subscription = who.subscriptions(what.topic_index)
        return GroupProblem(
            id=id,
            options=options,
            member_ids=who.ids,
            capacity=who.capacity,
            member_rack=np.array(
                [UNKNOWN if m.rack is None else rack_index[m.rack] for m in who.sorted],
                dtype=np.int64,
            ),
            subscription=subscription,
            subscriptions=subscriptions,
            topics=tuple(what.topic_index),
            racks=tuple(rack_index),
            brokers=what.brokers,
            topic=what.topic,
            partition=what.partition,
            load=what.load,
            load_stderr=what.load_stderr,
            rack_set=what.rack_set,
            rack_sets=tuple(
                tuple(sorted(rack_index[r] for r in names)) for names in what.rack_set_names
            ),
            broker=what.broker,
            owner=what.owner(who.index),
            incompatible=_pairs(incompatible, row_of),
            pinned=_pins(pin, row_of, who.index, len(back)),
            copartition=tuple(
                tuple(sorted({what.topic_index[t] for t in group if t in what.topic_index}))
                for group in copartition
            ),
            excluded=np.array([m in set(exclude) for m in who.ids], dtype=np.bool_),
        )

    def partition_name(self, row: int) -> list[str | int]:
        """Give `["topic", number]` of a row, as the contract writes a partition."""
        return [self.topics[int(self.topic[row])], int(self.partition[row])]


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a plan proves about itself; every field as the contract names it."""

    max_utilisation: float
    lower_bound: float
    ratio: float
    moves: int
    moves_lower_bound: int
    moved_load: float
    forced_moves: int
    cross_rack_load: float
    cross_rack_lower_bound: float
    conflicts: int


@dataclass(frozen=True, slots=True)
class Move:
    """Row `partition` of the problem leaves member `source` for member `target`, and why."""

    partition: int
    source: int
    target: int
    why: str


@dataclass(frozen=True, slots=True)
class LimitedBy:
    """The one partition that no placement can hide, and what would help."""

    partition: int
    message: str


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """The answer: an owner for each row of the problem, and its proof."""

    owner: Ints  # [N] member, or NOBODY where nobody subscribes
    moves: tuple[Move, ...]
    certificate: Certificate
    limited_by: LimitedBy | None = None
    elapsed_ms: Mapping[str, float] = field(default_factory=dict)


def _check_options(options: Options) -> None:
    if not 0 <= options.imbalance <= 1:
        raise TheirFault("options.imbalance", "must be a share between 0 and 1")
    if options.max_moves is not None and options.max_moves < 0:
        raise TheirFault("options.max_moves", "must be 0 or more")
    if options.max_moved_load is not None and not options.max_moved_load >= 0:
        raise TheirFault("options.max_moved_load", "must be 0 or more")


class _Members:
    """The members in the order of their ids."""

    def __init__(self, members: Sequence[Member]) -> None:
        if len(members) > GROUP_MEMBERS_MAX:
            raise TheirFault("members", f"more than {GROUP_MEMBERS_MAX} members")
        seen: set[str] = set()
        for i, m in enumerate(members):
            if m.id in seen:
                raise TheirFault(f"members[{i}].id", f"member {m.id!r} is listed twice")
            seen.add(m.id)
            if not 0 < m.capacity <= GROUP_LOAD_MAX:
                raise TheirFault(
                    f"members[{i}].capacity",
                    "must be a finite number above 0 (to drain a member, exclude it)",
                )
            if m.capacity < 1 / GROUP_LOAD_MAX:
                raise TheirFault(f"members[{i}].capacity", "too small to compare with others")
        self.sorted = sorted(members, key=lambda m: m.id)
        self.ids = tuple(m.id for m in self.sorted)
        self.index = {m: i for i, m in enumerate(self.ids)}
        self.capacity = np.array([m.capacity for m in self.sorted], dtype=np.float64)

    def subscriptions(self, topic_index: Mapping[str, int]) -> tuple[tuple[Ints, ...], Ints]:
        """Give the distinct subscriptions (topic indexes) and each member's index in them."""
        by_names: dict[frozenset[str], int] = {}
        of_member = [by_names.setdefault(frozenset(m.topics), len(by_names)) for m in self.sorted]
        distinct = tuple(
            np.array(sorted(topic_index[t] for t in names), dtype=np.int64) for names in by_names
        )
        return distinct, np.array(of_member, dtype=np.int64)


class _Columns:
    """The partitions in the order of (topic, number), values checked."""

    def __init__(
        self, rows: Partitions, subscribed: set[str], copartition: Sequence[Sequence[str]]
    ) -> None:
        n = len(rows.topic)
        if n > GROUP_PARTITIONS_MAX:
            raise TheirFault("partitions", f"more than {GROUP_PARTITIONS_MAX} partitions")
        names = sorted({*rows.topic, *subscribed, *(t for g in copartition for t in g)})
        self.topic_index = {t: i for i, t in enumerate(names)}
        topic = np.fromiter((self.topic_index[t] for t in rows.topic), np.int64, n)
        partition = _numbers(rows.partition)
        self.order = np.lexsort((partition, topic))
        self.topic, self.partition = topic[self.order], partition[self.order]
        same = (np.diff(self.topic) == 0) & (np.diff(self.partition) == 0)
        if same.any():
            row = int(self.order[1:][same].min())
            raise TheirFault(f"partitions[{row}]", "this partition is listed twice")
        self.load = _measured(rows.load, "load")[self.order]
        self.load_stderr = np.zeros(n)
        if rows.load_stderr is not None:
            told = [0.0 if x is None else x for x in rows.load_stderr]
            self.load_stderr = _measured(told, "load_stderr")[self.order]
        self._owner_names = rows.owner
        self._racks(rows, n)
        self._brokers(rows, n)

    def _racks(self, rows: Partitions, n: int) -> None:
        by_names: dict[frozenset[str], int] = {frozenset(): 0}
        column = np.zeros(n, dtype=np.int64)
        if rows.racks is not None:
            sets = (frozenset(r) if r else frozenset() for r in rows.racks)
            column = np.fromiter((by_names.setdefault(s, len(by_names)) for s in sets), np.int64, n)
        ranked = sorted(by_names, key=sorted)
        rank = np.empty(len(ranked), dtype=np.int64)
        for i, names in enumerate(ranked):
            rank[by_names[names]] = i
        self.rack_set = rank[column][self.order]
        self.rack_set_names = ranked
        self.rack_names = {r for names in ranked for r in names}

    def _brokers(self, rows: Partitions, n: int) -> None:
        told = rows.broker if rows.broker is not None else ()
        self.brokers = tuple(sorted({b for b in told if b is not None}))
        index = {b: i for i, b in enumerate(self.brokers)}
        self.broker = np.full(n, UNKNOWN, dtype=np.int64)
        if rows.broker is not None:
            column = np.fromiter(
                (UNKNOWN if b is None else index[b] for b in rows.broker), np.int64, n
            )
            self.broker = column[self.order]

    def owner(self, member_index: Mapping[str, int]) -> Ints:
        column = np.fromiter(
            (NOBODY if o is None else member_index.get(o, GONE) for o in self._owner_names),
            np.int64,
            len(self.order),
        )
        return column[self.order]


def _numbers(column: Sequence[int]) -> Ints:
    """Give the partition numbers; each must be one that Kafka can have."""
    for i, number in enumerate(column):
        if not 0 <= number < 1 << 31:
            raise TheirFault(f"partitions[{i}].partition", "must be between 0 and 2^31 - 1")
    return np.asarray(column, dtype=np.int64).reshape(-1)


def _measured(column: Sequence[float] | Floats, name: str) -> Floats:
    """Give a column of loads; each must be finite, not negative and below the limit."""
    values = np.asarray(column, dtype=np.float64).reshape(-1)
    good = (values >= 0) & (values <= GROUP_LOAD_MAX)
    if not good.all():
        row = int(np.argmin(good))
        raise TheirFault(
            f"partitions[{row}].{name}",
            f"must be a finite number from 0 to {GROUP_LOAD_MAX:.0e}",
        )
    return values


def _pairs(
    incompatible: Sequence[tuple[Partition, Partition]], row_of: Mapping[Partition, int]
) -> Ints:
    if len(incompatible) > INCOMPATIBLE_PAIRS_MAX:
        raise TheirFault("incompatible", f"more than {INCOMPATIBLE_PAIRS_MAX} pairs")
    rows: list[tuple[int, int]] = []
    for i, (a, b) in enumerate(incompatible):
        for side, name in enumerate((a, b)):
            if name not in row_of:
                raise TheirFault(f"incompatible[{i}][{side}]", "no such partition here")
        rows.append((row_of[a], row_of[b]))
    return distinct_pairs(np.array(rows, dtype=np.int64).reshape(-1, 2))


def distinct_pairs(pairs: Ints) -> Ints:
    """Give unordered pairs once each, lower row first, sorted; a row is no pair with itself."""
    ordered = np.sort(pairs, axis=1)
    return np.unique(ordered[ordered[:, 0] != ordered[:, 1]], axis=0)


def _pins(
    pin: Sequence[tuple[str, int, str]],
    row_of: Mapping[Partition, int],
    member_index: Mapping[str, int],
    n: int,
) -> Ints:
    pinned = np.full(n, NOBODY, dtype=np.int64)
    for i, (topic, number, member) in enumerate(pin):
        row = row_of.get((topic, number))
        if row is None or member not in member_index:
            continue
        if pinned[row] not in {NOBODY, member_index[member]}:
            raise TheirFault(f"pin[{i}]", f"{topic}-{number} is pinned to two members")
        pinned[row] = member_index[member]
    return pinned
