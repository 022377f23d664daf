"""Counter samples of partitions, kept for as long as an estimate looks back.

A broker is sampled now and then: end offset, log size and log start offset of each partition that
it leads. `History` holds these samples as columns, `fold` adds new ones, `estimate` (in
`cost.estimate`) turns them into rates.

A history is a *set*: folding the same samples in another order, twice, or in other portions gives
the same rows. What an estimate says at a time therefore depends only on the samples taken up to
that time, not on how they arrived; this is what makes a stream and its recomputation from a lake
agree row for row. Not here: wire formats, clocks, I/O.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

SAMPLE: Final = np.dtype(
    [
        ("topic", np.int32),
        ("partition", np.int32),
        ("ms", np.int64),
        ("broker", np.int64),
        ("life", np.int64),
        ("epoch", np.int32),
        ("start", np.int64),
        ("end", np.int64),
        ("size", np.int64),
    ]
)
"""One sample of one partition. `topic` indexes `History.topics`; `broker` and `life` are digests
of the broker's and the topic's id (0: not known); `epoch` is the leader epoch (-1: not known);
`start` (-1: not known) and `end` are offsets; `size` is the leader's log in bytes."""

Rows: TypeAlias = NDArray[Any]
"""One-dimensional array of SAMPLE."""


class Block(NamedTuple):
    """Samples of one topic; the column `topic` of `rows` is not read."""

    topic: str
    rows: Rows


@dataclass(frozen=True, slots=True)
class History:
    """Samples, sorted by topic, partition and time, at most one for each of these."""

    topics: tuple[str, ...]
    rows: Rows


EMPTY: Final = History((), np.empty(0, SAMPLE))


@dataclass(frozen=True, slots=True)
class Memory:
    """How far back an estimate looks, milliseconds, and how partitions form chunks.

    Rates are means over `window_ms`; mean record size, noise and the level that a jump is compared
    with are learned over `2 * window_ms`. Samples may arrive `lateness_ms` after newer ones and
    still change what was said about the time in between. A partition not sampled for `ttl_ms` is
    forgotten. Chunks of `chunk` partitions of a topic share a clock: the newest sample in them.
    """

    window_ms: int = 60_000
    lateness_ms: int = 30_000
    ttl_ms: int = 900_000
    chunk: int = 1_000

    @property
    def learn_ms(self) -> int:
        """Span over which record size and noise are learned."""
        return 2 * self.window_ms


def block(
    topic: str,
    *,
    ms: int,
    broker: str,
    partition: Sequence[int],
    end_offset: Sequence[int],
    log_size_bytes: Sequence[int],
    topic_id: str | None = None,
    leader_epoch: Sequence[int] | None = None,
    log_start_offset: Sequence[int] | None = None,
) -> Block:
    """Give one broker's sample of one topic as a block; columns of one length."""
    rows = np.empty(len(partition), SAMPLE)
    rows["topic"] = 0
    rows["partition"] = partition
    rows["ms"] = ms
    rows["broker"] = digest(broker)
    rows["life"] = 0 if topic_id is None else digest(topic_id)
    rows["epoch"] = -1 if leader_epoch is None else leader_epoch
    rows["start"] = -1 if log_start_offset is None else log_start_offset
    rows["end"] = end_offset
    rows["size"] = log_size_bytes
    return Block(topic, rows)


def digest(name: str) -> int:
    """Map a name to a number that is the same in every process; never 0."""
    number = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)
    return number or 1


def fold(history: History, blocks: Iterable[Block], memory: Memory) -> History:
    """Add samples and forget those that no estimate looks at any more."""
    found = [block for block in blocks if len(block.rows)]
    if not found:
        return history
    topics = tuple(sorted({*history.topics, *(block.topic for block in found)}))
    code = {topic: index for index, topic in enumerate(topics)}
    old = history.rows.copy()
    if topics != history.topics and len(old):
        recode = np.array([code[topic] for topic in history.topics], np.int32)
        old["topic"] = recode[old["topic"]]
    parts = [old]
    for block in found:
        rows = block.rows.copy()
        rows["topic"] = code[block.topic]
        parts.append(rows)
    rows = _sorted_set(np.concatenate(parts))
    return _without_unused_topics(topics, rows[_remembered(rows, memory)])


def select(history: History, keep: Bools) -> History:
    """Keep some rows of a history."""
    return History(history.topics, history.rows[keep])


def series_of(rows: Rows) -> Ints:
    """Return a number 0, 1, … for the partition of each sorted row."""
    if not len(rows):
        return np.empty(0, np.int64)
    key = _series_key(rows)
    return np.concatenate(([0], np.cumsum(key[1:] != key[:-1]))).astype(np.int64)


def chunk_of(topic: NDArray[Any], partition: NDArray[Any], chunk: int) -> Ints:
    """Return a number 0, 1, … for the chunk of each row; rows sorted by topic and partition."""
    if not len(topic):
        return np.empty(0, np.int64)
    key = (topic.astype(np.int64) << 32) | (partition // chunk)
    return np.concatenate(([0], np.cumsum(key[1:] != key[:-1]))).astype(np.int64)


def newest(group: Ints, ms: Ints, count: int) -> Ints:
    """Return the newest time of each of `count` groups; groups are numbered in row order."""
    last = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(last, group, ms)
    return last


def _series_key(rows: Rows) -> Ints:
    key: Ints = (rows["topic"].astype(np.int64) << 32) | rows["partition"]
    return key


def _sorted_set(rows: Rows) -> Rows:
    """Sort and drop duplicates; of two samples at one time the later leader's stays."""
    key = _series_key(rows)
    order = np.lexsort((rows["ms"], key))
    rows, key = rows[order], key[order]
    again = (key[1:] == key[:-1]) & (rows["ms"][1:] == rows["ms"][:-1])
    if not again.any():
        return rows
    columns = ("broker", "size", "start", "life", "end", "epoch", "ms")
    rows = rows[np.lexsort((*(rows[name] for name in columns), key))]
    key = _series_key(rows)
    again = (key[1:] == key[:-1]) & (rows["ms"][1:] == rows["ms"][:-1])
    return rows[np.concatenate((~again, [True]))]


def _remembered(rows: Rows, memory: Memory) -> Bools:
    """Mark the rows that an estimate for a time not yet final can look at.

    Estimates are still made for every time after the chunk's newest sample minus the lateness. The
    earliest of these looks at the partition's newest sample at that time, at the learning span
    before it, and at the one sample before that, where the first step of the span begins.
    """
    series = series_of(rows)
    count = int(series[-1]) + 1 if len(rows) else 0
    chunk = chunk_of(rows["topic"], rows["partition"], memory.chunk)
    now = newest(chunk, rows["ms"], int(chunk[-1]) + 1 if len(rows) else 0)[chunk]
    settled = rows["ms"] <= now - memory.lateness_ms
    anchor = newest(series[settled], rows["ms"][settled], count)
    has_anchor = anchor > np.iinfo(np.int64).min
    horizon = np.where(has_anchor, anchor - memory.learn_ms, anchor)
    fresh = rows["ms"] > horizon[series]
    opens = np.concatenate((fresh[1:] & (series[1:] == series[:-1]), [False]))
    last = newest(series, rows["ms"], count)[series]
    return (fresh | opens) & (last >= now - memory.ttl_ms - memory.lateness_ms)


def _without_unused_topics(topics: tuple[str, ...], rows: Rows) -> History:
    used = np.zeros(len(topics), bool)
    used[rows["topic"]] = True
    if used.all():
        return History(topics, rows)
    rows["topic"] = (np.cumsum(used) - 1)[rows["topic"]]
    return History(tuple(t for t, u in zip(topics, used, strict=True) if u), rows)
