"""How well a group did: delivered share, latency, lag, pauses, load per consumer. Pure.

Times are epoch milliseconds, loads payload bytes (keys and values) per second. The truth of the
load generator (`Truth`) says what was offered; nothing here is assumed from the assignment alone.
"""

import bisect
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deploy.local.history import History, Move, Partition, Run

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Truth:
    """What the load generator produced: cumulative payload bytes at moments."""

    partitions: tuple[Partition, ...]
    ms: Floats
    """The moments, [moment]."""
    produced_bytes: Floats
    """[moment, partition]."""
    produced_records: int
    """All records until the last moment."""

    def between(self, start_ms: float, end_ms: float) -> dict[Partition, float]:
        """Return the bytes produced to each partition in a window, interpolated."""
        columns = enumerate(self.partitions)
        return {
            partition: float(np.diff(np.interp([start_ms, end_ms], self.ms, self._column(i)))[0])
            for i, partition in columns
        }

    def total_at(self, ms: float) -> float:
        """Return the bytes produced until a time, all partitions together."""
        return float(np.interp(ms, self.ms, self.produced_bytes.sum(axis=1)))

    def _column(self, index: int) -> Floats:
        return self.produced_bytes[:, index]


def read_truth(lines: Iterable[str]) -> Truth:
    """Read the truth file of the load generator (an unfinished last line is left out)."""
    moments: list[float] = []
    rows: list[list[float]] = []
    partitions: tuple[Partition, ...] = ()
    records = 0
    for text in lines:
        if not text.endswith("\n"):
            continue
        line = json.loads(text)
        if line["event"] == "expected":
            topics = line["bytes_per_s"]
            partitions = tuple(Partition(t, n) for t in topics for n in range(len(topics[t])))
            moments.append(line["ms"])
            rows.append([0.0] * len(partitions))
        else:
            moments.append(line["ms"])
            rows.append([count for topic in line["payload_bytes"].values() for count in topic])
            records = sum(sum(topic) for topic in line["records"].values())
    return Truth(partitions, np.array(moments, float), np.array(rows, float), records)


# -- delivered and lag --------------------------------------------------------------------------


def delivered_bytes(history: History, start_ms: int, end_ms: int) -> float:
    """Return the bytes processed in a window, repeated records counted once."""
    return sum(
        fraction * run.payload_bytes * _share_of_time(run, start_ms, end_ms)
        for run, fraction in _first_time(history)
    )


def lag_bytes(history: History, truth: Truth, at_ms: Sequence[int]) -> list[float]:
    """Return produced minus processed bytes at each of the times (ascending)."""
    edges = np.array(at_ms, float)
    done = np.zeros(len(edges))
    for run, fraction in _first_time(history):
        span = max(1.0, float(run.last_ms - run.first_ms))
        done += fraction * run.payload_bytes * np.clip((edges - run.first_ms) / span, 0.0, 1.0)
    return [max(0.0, truth.total_at(ms) - float(d)) for ms, d in zip(at_ms, done, strict=True)]


def load_per_client(
    history: History, start_ms: int, end_ms: int, step_ms: int
) -> tuple[list[int], dict[str, Floats]]:
    """Return the steps' starts and each client's processed bytes per second in them."""
    edges = list(range(start_ms, end_ms + 1, step_ms))
    loads: dict[str, Floats] = defaultdict(lambda: np.zeros(len(edges) - 1))
    for run in history.runs:
        first = max(0, bisect.bisect_right(edges, run.first_ms) - 1)
        last = min(len(edges) - 2, bisect.bisect_right(edges, run.last_ms) - 1)
        for step in range(first, last + 1):
            share = _share_of_time(run, edges[step], edges[step + 1])
            loads[run.client][step] += run.payload_bytes * share * 1e3 / step_ms
    return edges[:-1], dict(sorted(loads.items()))


def _share_of_time(run: Run, start_ms: int, end_ms: int) -> float:
    """Return which share of a run falls into a window, as if it had gone on evenly."""
    if run.last_ms == run.first_ms:
        return float(start_ms <= run.first_ms < end_ms)
    inside = min(run.last_ms, end_ms) - max(run.first_ms, start_ms)
    return max(0, inside) / (run.last_ms - run.first_ms)


def _first_time(history: History) -> list[tuple[Run, float]]:
    """Return each run with the share of its records that nobody had processed before."""
    reached: dict[Partition, int] = defaultdict(lambda: -1)
    result = []
    for run in history.runs:
        fresh = max(0, run.last - max(run.first, reached[run.partition] + 1) + 1)
        reached[run.partition] = max(reached[run.partition], run.last)
        result.append((run, fresh / run.records))
    return result


# -- latency ------------------------------------------------------------------------------------


def bucket_ms(bucket: int) -> float:
    """Return the middle of a latency bucket (deploy/local/consumer, Latencies.java), ms."""
    if bucket < 16:
        return float(bucket)
    exponent, mantissa = bucket // 16 - 1, bucket % 16
    return float((16.5 + mantissa) * 2**exponent)


def latency_quantile_ms(history: History, start_ms: int, end_ms: int, q: float) -> float:
    """Return a quantile of produce-to-process latency of records reported in a window.

    Within 3 % of the exact one; NaN when nothing was delivered. It says nothing of records that
    still wait.
    """
    counts: dict[int, int] = defaultdict(int)
    for report in history.latencies:
        if start_ms < report.ms <= end_ms:
            for bucket, count in report.counts:
                counts[bucket] += count
    rank = q * sum(counts.values())
    seen = 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= rank:
            return bucket_ms(bucket)
    return float("nan")


# -- pauses -------------------------------------------------------------------------------------


def moved_pauses_ms(history: History, moved: Iterable[Move]) -> list[int]:
    """Return how long each moved partition had records that nobody processed.

    From the moment its old owner let go, or its next record was produced if that was later, to the
    first record that the new owner processed. A partition without such a record is left out.
    """
    by_owner: dict[tuple[Partition, str], list[Run]] = defaultdict(list)
    for run in history.runs:
        by_owner[run.partition, run.client].append(run)
    pauses = []
    for move in moved:
        runs = by_owner[move.partition, move.destination]
        first = next((run for run in runs if run.first_ms >= move.arrived_ms), None)
        if first is not None:
            pauses.append(max(0, first.first_ms - max(move.left_ms, first.first_produced_ms)))
    return pauses


def unmoved_pauses_ms(
    history: History, moved: Iterable[Move], start_ms: int, end_ms: int
) -> list[int]:
    """Return the longest wait in a window of each partition that did not move.

    A wait is the time that a record was there, its predecessor done, and it was not processed: in
    quiet times it is the time of a fetch and of the consumer's other partitions.
    """
    skip = {move.partition for move in moved}
    longest: dict[Partition, int] = {}
    for run in history.runs:
        if run.partition not in skip and run.first_ms < end_ms and run.last_ms >= start_ms:
            longest[run.partition] = max(longest.get(run.partition, 0), run.wait_ms_max)
    return [longest[partition] for partition in sorted(longest)]


# -- balance ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Balance:
    """How even the offered load is over consumers."""

    max_over_mean: float
    spread_mb_s: float
    """Largest minus smallest, 10^6 bytes per second."""
    predicted_delivered_share: float
    """Σ min(load, cap) ÷ total: what consumers with that cap can keep up with."""


def balance(
    loads: Mapping[Partition, float],
    owners: Mapping[Partition, str],
    clients: Sequence[str],
    cap: float,
) -> Balance:
    """Judge an assignment by the load (bytes per second) of each partition."""
    per_client = dict.fromkeys(clients, 0.0)
    for partition, load in loads.items():
        per_client[owners[partition]] += load
    values = np.array(list(per_client.values()))
    return Balance(
        max_over_mean=float(values.max() / values.mean()),
        spread_mb_s=float(values.max() - values.min()) / 1e6,
        predicted_delivered_share=float(np.minimum(values, cap).sum() / values.sum()),
    )


def quantile(values: Sequence[float], q: float) -> float:
    """Return a quantile of plain numbers; NaN of none."""
    return float(np.quantile(np.array(values, float), q)) if len(values) else float("nan")
