"""From samples of counters to rates with error bars, per partition.

Records per second are the growth of the end offset over the window: exact, and untouched by
retention and compaction. Bytes per second are that rate times the mean stored size of a record,
learned as bytes gained per record gained over the steps in which nothing was deleted. A *step* is
the pair of two samples of a partition that follow each other.

What is not measured is left out or said to be old; never zero, never a spike:

| reason       | what happened in the span                                | what is done          |
|--------------|----------------------------------------------------------|-----------------------|
| recreated    | the topic has a new id, or its offsets began again       | former life: as prior |
| truncated    | the end offset fell within one life (unclean election)   | step not used         |
| jump         | a step beyond `JUMP_FACTOR` times the usual              | held until confirmed  |
| leader-moved | another leader: sizes of two replicas do not compare     | sizes not used        |
| gap          | too few samples, or none lately                          | what there is         |
| compacted    | the log shrank with its start offset unmoved             | such steps left out   |
| retention    | segments were deleted                                    | such steps left out   |
| new          | seen for less than a window                              | what there is         |

`measured`: none of these. `partial`: an estimate of the window in spite of one. `prior`: nothing
in the window; the newest estimate before it, its error at least half of its value.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cost.noise import small_sample, stderr_of_sum
from cost.rates import Bools, History, Ints, Memory, Rows, chunk_of, newest, select, series_of

Floats = NDArray[np.float64]

CONFIDENCE: Final = ("measured", "partial", "prior")
REASON: Final = (
    None,
    "new",
    "retention",
    "compacted",
    "gap",
    "leader-moved",
    "jump",
    "truncated",
    "recreated",
)
"""Weakest first: of several the strongest is named."""

JUMP_FACTOR: Final = 100.0
"""A rate or record size this many times the usual is taken for a slip of units at first."""

JUMP_STEPS: Final = 3
"""Steps at the new level that confirm it."""

COMPLETE_SHARE: Final = 0.75
"""Share of the expected steps below which a window counts as having a gap."""

STALE_INTERVALS: Final = 2.5
"""A partition whose newest sample is this many intervals old has a gap."""

WHOLE_LOG_ERROR: Final = 0.1
"""Relative error of taking the whole log's mean record size for the recent one."""

ONE_STEP_ERROR: Final = 0.2
"""Relative error of a record size learned from one step: sizes and offsets are not read at once."""

CLEAN_SHARE: Final = 0.5
"""With fewer clean steps than this share, the whole log tells the record size if it holds more."""

SIZE_BAND: Final = 2.0
"""Where the log shrinks unseen, steps further than this from the median size are set aside."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Columns over partitions, sorted by topic and partition. Rates per second.

    `chunk` numbers the chunk of each row; `chunk_ms` is the newest sample of each chunk.
    """

    topics: tuple[str, ...]
    topic: Ints
    partition: Ints
    bytes_per_s: Floats
    bytes_per_s_stderr: Floats
    records_per_s: Floats
    records_per_s_stderr: Floats
    samples: Ints
    samples_expected: Ints
    confidence: Ints
    reason: Ints
    chunk: Ints
    chunk_ms: Ints


@dataclass(frozen=True, slots=True)
class _Steps:
    """Columns over the steps inside the learning span; `group` numbers the partition."""

    group: Ints
    seconds: Floats
    records: Floats
    bytes: Floats
    in_window: Bools
    usable: Bools
    reborn: Bools
    moved: Bools
    truncated: Bools
    deleted: Bools
    """The log start moved in this step or the next: bytes gained are not known."""


def estimate(history: History, at_ms: int, memory: Memory) -> Rates:
    """Estimate every partition from the samples taken until `at_ms`."""
    history = select(history, history.rows["ms"] <= at_ms)
    rows = _without_fenced_leaders(history.rows)
    series = series_of(rows)
    first = np.flatnonzero(np.diff(series, prepend=-1))
    groups = len(first)
    topic, partition = rows["topic"][first], rows["partition"][first]
    chunk = chunk_of(topic, partition, memory.chunk)
    chunks = int(chunk[-1]) + 1 if groups else 0
    chunk_ms = newest(chunk[series], rows["ms"], chunks)
    anchor = newest(series, rows["ms"], groups)

    interval_ms = _intervals(rows, series, anchor, chunk, chunks, memory)[chunk]
    steps = _steps(rows, series, anchor, interval_ms, memory)
    jumped = _unconfirmed_jumps(steps, groups)
    measured, used, usable = _window(steps, steps.usable & ~jumped, groups)

    seconds = _sum(steps, steps.seconds, used, groups)
    records = _sum(steps, steps.records, used, groups)
    rate = _ratio(records, seconds)
    rate_error = _rate_error(steps, usable, rate, seconds, _count(steps, used, groups))
    whole_log = _whole_log(rows, series, anchor, groups, memory)
    size, size_error, shrank = _record_size(steps, usable, whole_log, groups)

    expected = np.maximum(np.rint(memory.window_ms / interval_ms), 1).astype(np.int64)
    samples = _count(steps, used & measured[steps.group], groups).astype(np.int64)
    age_ms = chunk_ms[chunk] - anchor
    reason = _reasons(
        groups,
        steps,
        jumped=jumped,
        shrank=shrank,
        incomplete=(samples < COMPLETE_SHARE * expected) | (age_ms > STALE_INTERVALS * interval_ms),
        new=rows["ms"][first] > anchor - memory.window_ms + interval_ms,
    )
    prior = ~measured | (age_ms > memory.window_ms)
    reason = np.where(prior & (reason == 0), REASON.index("gap"), reason)
    rate_error = np.where(prior, np.maximum(rate_error, 0.5 * rate), rate_error)
    bytes_error = np.hypot(size * rate_error, rate * size_error)
    known = (seconds > 0) & (np.isfinite(size) | (rate == 0)) & (age_ms <= memory.ttl_ms)
    present = np.flatnonzero(known)
    return Rates(
        topics=history.topics,
        topic=topic[present].astype(np.int64),
        partition=partition[present].astype(np.int64),
        bytes_per_s=np.where(rate > 0, rate * size, 0.0)[present],
        bytes_per_s_stderr=np.where(np.isfinite(bytes_error), bytes_error, 0.0)[present],
        records_per_s=rate[present],
        records_per_s_stderr=rate_error[present],
        samples=samples[present],
        samples_expected=expected[present],
        confidence=np.where(prior, 2, np.where(reason > 0, 1, 0))[present],
        reason=reason[present],
        chunk=chunk[present],
        chunk_ms=chunk_ms,
    )


def _without_fenced_leaders(rows: Rows) -> Rows:
    """Drop samples of a leader that another had already replaced (a lower epoch, later in time)."""
    if not len(rows):
        return rows
    series = series_of(rows)
    life = np.cumsum((np.diff(series, prepend=-1) != 0) | (np.diff(rows["life"], prepend=0) != 0))
    rank = (life.astype(np.int64) << 32) + np.maximum(rows["epoch"], 0)
    kept: Rows = rows[(rows["epoch"] < 0) | (rank >= np.maximum.accumulate(rank))]
    return kept


def _intervals(
    rows: Rows, series: Ints, anchor: Ints, chunk: Ints, chunks: int, memory: Memory
) -> Floats:
    """Return the usual time between samples of each chunk, ms: the lower quartile of the steps.

    A quartile, because missed samples only lengthen steps; steps with one leader, because clocks
    of two collectors may differ. A chunk without steps gets the window.
    """
    inside = (np.diff(series) == 0) & (np.diff(rows["broker"]) == 0)
    inside &= rows["ms"][1:] > (anchor[series] - memory.learn_ms)[1:]
    step_ms = np.diff(rows["ms"])[inside].astype(np.float64)
    owner = chunk[series[1:][inside]]
    order = np.lexsort((step_ms, owner))
    count = np.bincount(owner, minlength=chunks)
    begin = np.cumsum(count) - count
    interval_ms = np.full(chunks, float(memory.window_ms))
    some = count > 0
    interval_ms[some] = step_ms[order][(begin + (count - 1) // 4)[some]]
    return interval_ms


def _steps(rows: Rows, series: Ints, anchor: Ints, interval_ms: Floats, memory: Memory) -> _Steps:
    before, after, group = rows[:-1], rows[1:], series[1:]
    inside = (np.diff(series) == 0) & (after["ms"] > (anchor - memory.learn_ms)[group])
    before, after, group = before[inside], after[inside], group[inside]
    step_ms = after["ms"] - before["ms"]
    records = after["end"] - before["end"]
    named = (before["life"] != 0) & (after["life"] != 0)
    reborn = (named & (before["life"] != after["life"])) | (~named & (records < 0))
    moved = ~reborn & (
        (before["broker"] != after["broker"])
        | ((before["epoch"] != after["epoch"]) & (before["epoch"] >= 0) & (after["epoch"] >= 0))
    )
    truncated = ~reborn & (records < 0)
    # Two collectors' clocks may differ: a step to another leader that looks too short is no step.
    too_short = moved & (step_ms < 0.5 * interval_ms[group])
    start_moved = before["start"] != after["start"]
    next_moved = np.append(start_moved[1:] & (group[1:] == group[:-1]), False) & ~reborn
    middle_ms = (after["ms"] + before["ms"]) / 2
    return _Steps(
        group=group,
        seconds=step_ms / 1000,
        records=records.astype(np.float64),
        bytes=(after["size"] - before["size"]).astype(np.float64),
        in_window=middle_ms > anchor[group] - memory.window_ms,
        usable=(step_ms > 0) & ~reborn & ~truncated & ~too_short,
        reborn=reborn,
        moved=moved,
        truncated=truncated,
        deleted=start_moved | next_moved,
    )


def _unconfirmed_jumps(steps: _Steps, groups: int) -> Bools:
    """Mark steps whose rate is beyond belief, unless `JUMP_STEPS` of them agree."""
    speed = np.divide(
        steps.records, steps.seconds, out=np.zeros(len(steps.group)), where=steps.seconds > 0
    )
    usual = _weighted_median(speed, steps.usable.astype(np.float64), steps.group, groups)
    jumped = steps.usable & (speed > JUMP_FACTOR * usual[steps.group]) & (usual > 0)[steps.group]
    count = np.bincount(steps.group[jumped], minlength=groups)
    return jumped & (count < JUMP_STEPS)[steps.group]


def _since_birth(steps: _Steps, groups: int) -> Bools:
    """Mark the steps of each partition's present life."""
    index = np.arange(len(steps.group))
    birth = np.full(groups, -1)
    np.maximum.at(birth, steps.group[steps.reborn], index[steps.reborn])
    return index > birth[steps.group]


def _window(steps: _Steps, usable: Bools, groups: int) -> tuple[Bools, Bools, Bools]:
    """Choose what to average: the window, or as prior all that is known.

    Returns, per partition, whether the window holds a step of its present life; the steps to
    average; the steps to learn from: of the present life, as soon as it has any.
    """
    present = usable & _since_birth(steps, groups)
    begun = _any(steps, present, groups)[steps.group]
    learned = np.where(begun, present, usable)
    measured = _any(steps, present & steps.in_window, groups)
    averaged = np.where(measured[steps.group], present & steps.in_window, learned)
    return measured, averaged, learned


def _rate_error(
    steps: _Steps, usable: Bools, rate: Floats, seconds: Floats, terms: Floats
) -> Floats:
    """Return the standard error of records/s; half the rate where the spread is not known."""
    groups = len(rate)
    usual = _ratio(
        _sum(steps, steps.records, usable, groups), _sum(steps, steps.seconds, usable, groups)
    )
    group = steps.group[usable]
    residual = steps.records[usable] - usual[group] * steps.seconds[usable]
    error = _ratio(stderr_of_sum(residual, group, groups, terms), seconds)
    # One record more or less always could have been: a silent partition is not known to be idle.
    floor = _ratio(np.ones(groups), seconds)
    return np.maximum(np.where(np.isfinite(error), error, 0.5 * rate), floor)


@dataclass(frozen=True, slots=True)
class _WholeLog:
    """The log as a whole: bytes per record, records held; 0 where the start is not known.

    Medians over the samples of the learning span: one taken while a segment was being deleted, when
    start and size do not fit each other, does not count.
    """

    size: Floats
    records: Floats
    start_known: Bools


def _whole_log(rows: Rows, series: Ints, anchor: Ints, groups: int, memory: Memory) -> _WholeLog:
    held = (rows["end"] - rows["start"]).astype(np.float64)
    recent = rows["ms"] > anchor[series] - memory.learn_ms
    tells = (recent & (rows["start"] >= 0) & (held > 0) & (rows["size"] > 0)).astype(np.float64)
    each = np.divide(rows["size"], held, out=np.zeros(len(rows)), where=tells > 0)
    known = np.bincount(series[recent & (rows["start"] >= 0)], minlength=groups) > 0
    return _WholeLog(
        _weighted_median(each, tells, series, groups),
        _weighted_median(held, tells, series, groups),
        known,
    )


def _record_size(
    steps: _Steps, usable: Bools, whole: _WholeLog, groups: int
) -> tuple[Floats, Floats, Ints]:
    """Return mean stored bytes per record, its standard error, and the reason of shrinking.

    NaN where neither a clean step nor the log as a whole tells.
    """
    shrank = steps.usable & ~steps.moved & (steps.bytes < 0)
    unseen = _any(steps, shrank & ~steps.deleted, groups)
    retention = _any(steps, steps.usable & ~steps.moved & steps.deleted, groups)
    compacted = unseen & whole.start_known & ~retention

    clean = usable & ~steps.moved & ~steps.deleted & (steps.bytes >= 0) & (steps.records > 0)
    each = np.divide(steps.bytes, steps.records, out=np.zeros(len(clean)), where=steps.records > 0)
    median = _weighted_median(each, np.where(clean, steps.records, 0.0), steps.group, groups)
    middle = median[steps.group]
    clean &= each <= JUMP_FACTOR * middle
    clean &= ~unseen[steps.group] | ((each * SIZE_BAND >= middle) & (each <= SIZE_BAND * middle))

    gained = _sum(steps, steps.records, clean, groups)
    learned = _ratio(_sum(steps, steps.bytes, clean, groups), gained)
    count = _count(steps, clean, groups)
    residual = (steps.bytes - learned[steps.group] * steps.records)[clean]
    power = np.bincount(steps.group[clean], residual * residual, groups)
    spread = np.sqrt(power * _ratio(count, count - 1))
    widen = np.where(count > 1, small_sample(count.astype(np.int64)), 0.0)
    error = np.where(count > 1, _ratio(spread * widen, gained), ONE_STEP_ERROR * learned)

    few = retention & (count < CLEAN_SHARE * _count(steps, usable, groups))
    from_whole = (whole.size > 0) & ~compacted
    from_whole &= (gained == 0) | (few & (whole.records > gained))
    size = np.where(from_whole, whole.size, np.where(gained > 0, learned, np.nan))
    error = np.where(from_whole, WHOLE_LOG_ERROR * size, error)
    reason = np.where(retention | unseen, REASON.index("retention"), 0)
    return size, error, np.where(compacted, REASON.index("compacted"), reason)


def _reasons(
    groups: int, steps: _Steps, *, jumped: Bools, shrank: Ints, incomplete: Bools, new: Bools
) -> Ints:
    """Return the strongest reason of each partition, as index into REASON."""
    reason = np.maximum(np.where(incomplete & new, REASON.index("new"), 0), shrank)
    reason = np.maximum(reason, np.where(incomplete & ~new, REASON.index("gap"), 0))
    for name, mask in (
        ("leader-moved", steps.moved & steps.in_window),
        ("jump", jumped & steps.in_window),
        ("truncated", steps.truncated & steps.in_window),
        ("recreated", steps.reborn & steps.in_window),
    ):
        some = _any(steps, mask, groups)
        reason = np.maximum(reason, np.where(some, REASON.index(name), 0))
    return reason.astype(np.int64)


def _weighted_median(value: Floats, weight: Floats, group: Ints, groups: int) -> Floats:
    """Return the lower weighted median of each group; 0 where all weights are 0."""
    order = np.lexsort((value, group))
    value, weight, group = value[order], weight[order], group[order]
    total = np.bincount(group, weight, groups)
    before = np.cumsum(total) - total
    running = np.cumsum(weight) - before[group]
    reached = (running >= 0.5 * total[group]) & (weight > 0)
    at = np.flatnonzero(reached)
    median = np.zeros(groups)
    owner, first = np.unique(group[at], return_index=True)
    median[owner] = value[at[first]]
    return median


def _sum(steps: _Steps, value: Floats, mask: Bools, groups: int) -> Floats:
    return np.bincount(steps.group[mask], value[mask], groups).astype(np.float64)


def _count(steps: _Steps, mask: Bools, groups: int) -> Floats:
    return np.bincount(steps.group[mask], minlength=groups).astype(np.float64)


def _any(steps: _Steps, mask: Bools, groups: int) -> Bools:
    return np.bincount(steps.group[mask], minlength=groups) > 0


def _ratio(over: Floats, under: Floats) -> Floats:
    return np.divide(over, under, out=np.zeros(len(over)), where=under > 0)
