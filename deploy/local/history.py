"""What a group of consumers did, read from their journals, and what it may never have done.

Pure: journals in (text lines), verdicts out. The journals are those of deploy/local/consumer; a
record is in them before it is committed. Checked are ownership (one owner of a partition in a
generation), overlap (two consumers processing one partition at the same time) and coverage (no
offset left out; repeated ones counted).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import msgspec

from agent.errors import TheirFault


class Partition(NamedTuple):
    """A partition by name."""

    topic: str
    number: int


@dataclass(frozen=True, slots=True)
class Assigned:
    """A rebalance left a consumer with `owned`, of which `added` are new to it."""

    ms: int
    client: str
    generation: int
    added: frozenset[Partition]
    owned: frozenset[Partition]


@dataclass(frozen=True, slots=True)
class Gone:
    """Partitions were taken from a consumer, with its consent (`revoked`) or not (`lost`)."""

    ms: int
    client: str
    generation: int
    kind: Literal["revoked", "lost"]
    partitions: frozenset[Partition]


@dataclass(frozen=True, slots=True)
class Run:
    """Records of one partition processed in order without a hole, within one report."""

    client: str
    partition: Partition
    first: int
    last: int
    payload_bytes: int
    first_ms: int
    last_ms: int
    first_produced_ms: int
    wait_ms_max: int
    """Longest time that a record was there, its predecessor done, and it was not processed."""

    @property
    def records(self) -> int:
        """How many records."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Latencies:
    """Latencies of the records of one report, counted in buckets (see `bucket_ms`)."""

    ms: int
    client: str
    counts: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class History:
    """All journals of a group together, each kind in the order of time."""

    assigned: tuple[Assigned, ...]
    gone: tuple[Gone, ...]
    runs: tuple[Run, ...]
    latencies: tuple[Latencies, ...]
    failures: tuple[str, ...]
    """What ended a consumer, as written."""
    refused_commits: tuple[str, ...]
    """Commits that a rebalance refused, as written; the commit at the revoke repeats them."""


class _Line(msgspec.Struct):
    """One journal line; which fields are there depends on the event."""

    event: str
    ms: int
    client: str
    generation: int = -1
    partitions: dict[str, list[int]] = {}
    owned: dict[str, list[int]] = {}
    runs: list[tuple[str, int, int, int, int, int, int, int, int]] = []
    latency: list[tuple[int, int]] = []
    error: str = ""


_DECODER: Final = msgspec.json.Decoder(_Line)


def read_history(journals: Iterable[Iterable[str]]) -> History:
    """Read journals; an unfinished last line (the consumer was killed) is left out."""
    assigned: list[Assigned] = []
    gone: list[Gone] = []
    runs: list[Run] = []
    latencies: list[Latencies] = []
    failures: list[str] = []
    refused_commits: list[str] = []
    for number, text in enumerate(line for journal in journals for line in journal):
        if not text.endswith("\n"):
            continue
        try:
            line = _DECODER.decode(text)
        except msgspec.MsgspecError as error:
            raise TheirFault(f"journal line {number}", str(error)) from error
        names = _partitions(line.partitions)
        if line.event == "assigned":
            owned = _partitions(line.owned)
            assigned.append(Assigned(line.ms, line.client, line.generation, names, owned))
        elif line.event in {"revoked", "lost"}:
            kind: Literal["revoked", "lost"] = "lost" if line.event == "lost" else "revoked"
            gone.append(Gone(line.ms, line.client, line.generation, kind, names))
        elif line.event == "processed":
            runs += [Run(line.client, Partition(row[0], row[1]), *row[2:]) for row in line.runs]
            latencies.append(Latencies(line.ms, line.client, tuple(line.latency)))
        elif line.event == "failed":
            failures.append(f"{line.client} at {line.ms}: {line.error}")
        elif line.event == "commit-failed":
            refused_commits.append(f"{line.client} at {line.ms}: {line.error}")
    unsorted = History(
        assigned=tuple(assigned),
        gone=tuple(gone),
        runs=tuple(runs),
        latencies=tuple(latencies),
        failures=tuple(failures),
        refused_commits=tuple(refused_commits),
    )
    return merge([unsorted])


def merge(parts: Sequence[History]) -> History:
    """Put histories of different consumers or times together, each kind in the order of time."""
    return History(
        assigned=tuple(sorted((e for p in parts for e in p.assigned), key=_by_time)),
        gone=tuple(sorted((e for p in parts for e in p.gone), key=_by_time)),
        runs=tuple(
            sorted(
                (run for part in parts for run in part.runs),
                key=lambda run: (run.first_ms, run.client, run.partition),
            )
        ),
        latencies=tuple(sorted((e for p in parts for e in p.latencies), key=_by_time)),
        failures=tuple(text for part in parts for text in part.failures),
        refused_commits=tuple(text for part in parts for text in part.refused_commits),
    )


def _by_time(event: Assigned | Gone | Latencies) -> tuple[int, str]:
    return event.ms, event.client


def _partitions(names: Mapping[str, Iterable[int]]) -> frozenset[Partition]:
    return frozenset(Partition(topic, n) for topic, numbers in names.items() for n in numbers)


# -- what must never be -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DoubleOwned:
    """A partition with several owners in one generation."""

    generation: int
    partition: Partition
    clients: tuple[str, ...]


def double_owned(history: History) -> list[DoubleOwned]:
    """Return every partition that two members held in the same generation."""
    owners: dict[tuple[int, Partition], set[str]] = defaultdict(set)
    for event in history.assigned:
        for partition in event.owned:
            owners[event.generation, partition].add(event.client)
    return [
        DoubleOwned(generation, partition, tuple(sorted(clients)))
        for (generation, partition), clients in sorted(owners.items())
        if len(clients) > 1
    ]


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two consumers processed one partition in the same stretch of time."""

    partition: Partition
    earlier: Run
    later: Run


def overlaps(history: History) -> list[Overlap]:
    """Return where a consumer processed a partition before another one had stopped doing so.

    Stricter than `double_owned`: a consumer that goes on with what it has already fetched after
    the group took the partition away is found too. Clocks must agree: one machine.
    """
    found = []
    latest: dict[Partition, Run] = {}
    for run in history.runs:
        before = latest.get(run.partition)
        if before is None or run.last_ms >= before.last_ms:
            latest[run.partition] = run
        if before is not None and before.client != run.client and run.first_ms < before.last_ms:
            found.append(Overlap(run.partition, before, run))
    return found


@dataclass(frozen=True, slots=True)
class Coverage:
    """How the processed offsets cover the produced ones."""

    processed: int
    """Records processed, repeated ones counted each time."""
    redelivered: int
    lost: tuple[tuple[Partition, int, int], ...]
    """Offsets below one that was processed, themselves never processed: [first, last]."""

    @property
    def lost_records(self) -> int:
        """How many records were passed over."""
        return sum(last - first + 1 for _, first, last in self.lost)


def coverage(history: History, starts: Mapping[Partition, int] | None = None) -> Coverage:
    """Compare what was processed with the offsets from `starts` (default 0) up to the highest.

    Records not reached yet are lag, not loss.
    """
    spans: dict[Partition, list[tuple[int, int]]] = defaultdict(list)
    processed = 0
    for run in history.runs:
        spans[run.partition].append((run.first, run.last))
        processed += run.records
    lost = []
    distinct = 0
    for partition in sorted(spans):
        start = (starts or {}).get(partition, 0)
        expected = start
        for first, last in sorted(spans[partition]):
            if first > expected:
                lost.append((partition, expected, first - 1))
            distinct += max(0, last - max(first, expected) + 1)
            expected = max(expected, last + 1)
    return Coverage(processed, processed - distinct, tuple(lost))


# -- who owned what when ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Move:
    """A partition went from one consumer to another."""

    partition: Partition
    source: str
    destination: str
    left_ms: int
    """When the source let go; if it never said so, when it last processed the partition."""
    arrived_ms: int


def moves(history: History) -> list[Move]:
    """Return every change of a partition's owner, in the order of arrival."""
    left: dict[tuple[Partition, str], list[int]] = defaultdict(list)
    for gone in history.gone:
        for partition in gone.partitions:
            left[partition, gone.client].append(gone.ms)
    processed: dict[tuple[Partition, str], list[int]] = defaultdict(list)
    for run in history.runs:
        processed[run.partition, run.client].append(run.last_ms)
    owner: dict[Partition, str] = {}
    found = []
    for event in history.assigned:
        for partition in sorted(event.added):
            source = owner.get(partition)
            owner[partition] = event.client
            if source is None or source == event.client:
                continue
            key = partition, source
            said = [ms for ms in left[key] if ms <= event.ms]
            seen = [ms for ms in processed[key] if ms <= event.ms]
            left_ms = max(said or seen or [event.ms])
            found.append(Move(partition, source, event.client, left_ms, event.ms))
    return found


def owners_at(history: History, ms: int) -> dict[Partition, str]:
    """Return the owner of every partition at a time; a killed one's stay its until taken over."""
    owner: dict[Partition, str] = {}
    for event in history.assigned:
        if event.ms > ms:
            break
        owner.update(dict.fromkeys(event.added, event.client))
    return owner


def applied_ms(
    history: History, target: Mapping[str, Mapping[str, Iterable[int]]], since_ms: int
) -> int | None:
    """Return when the last named member first held exactly what `target` gives it.

    None if one of them never did after `since_ms`.
    """
    wanted = {client: _partitions(topics) for client, topics in target.items()}
    held: dict[str, frozenset[Partition]] = {}
    for event in history.assigned:
        held[event.client] = event.owned
        reached = all(held.get(client, frozenset()) == want for client, want in wanted.items())
        if reached and event.ms >= since_ms:
            return event.ms
    return None
