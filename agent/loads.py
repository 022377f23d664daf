"""`plimsoll.broker-metrics` in, `plimsoll.partition-load` out: `cost`'s arithmetic on wire records.

The pipeline, its recomputation from the lake and `plimsoll replay` all call these functions, so
that one sequence of samples means one sequence of loads wherever it is looked at. Pure.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from agent import limits, wire
from cost.estimate import CONFIDENCE, REASON, Rates, estimate
from cost.rates import Block, History, Memory, block

MEMORY: Final = Memory(
    lateness_ms=limits.SAMPLE_LATENESS_MS_MAX,
    ttl_ms=limits.PARTITION_UNSEEN_MS_MAX,
    chunk=limits.PARTITION_LOAD_CHUNK,
)
"""The estimator's memory at the usual window of 60 s."""


def memory(window_s: float) -> Memory:
    """Return the estimator's memory for a window."""
    return Memory(
        window_ms=round(window_s * 1000),
        lateness_ms=MEMORY.lateness_ms,
        ttl_ms=MEMORY.ttl_ms,
        chunk=MEMORY.chunk,
    )


def blocks(record: wire.BrokerMetrics) -> list[Block]:
    """Give the samples of one record in the form that `cost.rates.fold` takes."""
    return [
        block(
            sample.topic,
            ms=record.ms,
            broker=record.broker,
            partition=sample.partition,
            end_offset=sample.end_offset,
            log_size_bytes=sample.log_size_bytes,
            topic_id=None if sample.topic_id is UNSET else sample.topic_id,
            leader_epoch=None if sample.leader_epoch is UNSET else sample.leader_epoch,
            log_start_offset=None if sample.log_start_offset is UNSET else sample.log_start_offset,
        )
        for sample in record.topics
    ]


def records(
    history: History, at_ms: int, window: Memory = MEMORY
) -> Iterator[tuple[str, wire.PartitionLoad]]:
    """Yield key and record of every chunk that has a rate at `at_ms`, sorted by topic and chunk."""
    yield from records_of(estimate(history, at_ms, window), window)


def records_of(rates: Rates, window: Memory = MEMORY) -> Iterator[tuple[str, wire.PartitionLoad]]:
    """Yield key and record of every chunk of an estimate.

    `ms` of a record is the time of the newest sample in its chunk.
    """
    bounds = np.flatnonzero(np.diff(rates.chunk, prepend=-1, append=-2))
    for begin, end in pairwise(bounds):
        yield _record(rates, slice(int(begin), int(end)), window)


def _record(rates: Rates, part: slice, window: Memory) -> tuple[str, wire.PartitionLoad]:
    topic = rates.topics[int(rates.topic[part.start])]
    partition: list[int] = rates.partition[part].tolist()
    load = wire.PartitionLoad(
        ms=int(rates.chunk_ms[rates.chunk[part.start]]),
        topic=topic,
        window_s=window.window_ms / 1000,
        partition=partition,
        bytes_per_s=_short(rates.bytes_per_s[part]),
        bytes_per_s_stderr=_short(rates.bytes_per_s_stderr[part]),
        records_per_s=_short(rates.records_per_s[part]),
        records_per_s_stderr=_short(rates.records_per_s_stderr[part]),
        samples=rates.samples[part].tolist(),
        samples_expected=int(rates.samples_expected[part].max()),
        confidence=[CONFIDENCE[code] for code in rates.confidence[part].tolist()],
        reason=[REASON[code] for code in rates.reason[part].tolist()],
    )
    return wire.partition_load_key(topic, partition[0]), load


def _short(column: NDArray[np.float64]) -> list[float]:
    """Round to a thousandth: rates per second need no more, and records stay small."""
    rounded: list[float] = np.round(column, 3).tolist()
    return rounded
