"""What the load generator offers: keys, partitions, sizes and shape over time. Pure arithmetic.

Keys are drawn from a Zipf law over a table of keys; a key's partition is what Kafka's default
partitioner (murmur2) says, so the same seed gives the same skew as any Java producer with these
keys. All topics share one table unless `key_tables` says otherwise: then hot keys of different
topics fall on different partition numbers.

Shapes: `steady`; `step`, at `shape_s` another key table and `step_factor` times the rate at once;
`drift`, the traffic goes over to another key table linearly within `shape_s`; `diurnal`, the rate
is a sine of period `shape_s` and half-amplitude `diurnal_amplitude`.
"""

import math
import random
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Shape = Literal["steady", "step", "drift", "diurnal"]
SHAPES: Final[tuple[Shape, ...]] = ("steady", "step", "drift", "diurnal")
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STAMP_BYTES: Final = 8
"""A value starts with its time of production: big-endian signed microseconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """All that decides what is offered; the defaults are the headline experiment."""

    seed: int
    topics: int = 10
    partitions: int = 16
    rate_mb_s: float = 3.0
    """Offered payload (keys and values) at the start, in 10^6 bytes per second."""
    keys: int = 1_000
    key_exponent: float = 1.25
    key_tables: int = 1
    value_bytes: int = 1_024
    """Size of a value; with `size_spread`, the geometric mean over partition numbers."""
    size_spread: float = 1.0
    """Largest value size of a partition number over the smallest."""
    shape: Shape = "steady"
    shape_s: float = 60.0
    step_factor: float = 1.0
    diurnal_amplitude: float = 0.5

    def topic_names(self, prefix: str = "load") -> list[str]:
        """Return the topics' names, in the order of the columns."""
        return [f"{prefix}-{number:02d}" for number in range(self.topics)]


@dataclass(frozen=True, slots=True)
class KeyTable:
    """Keys by falling weight, and where each one goes."""

    names: list[bytes]
    partition_of: Ints
    cumulative: Floats
    """Cumulative weights; the last is 1."""

    def shares(self, partitions: int) -> Floats:
        """Return the share of the records that each partition number receives."""
        weights = np.diff(self.cumulative, prepend=0.0)
        return _weighted_counts(self.partition_of, weights, partitions)


def key_table(traffic: Traffic, table: int, later: bool) -> KeyTable:
    """Make a table of keys; `later` is the one that `step` and `drift` go over to."""
    name = f"k{traffic.seed}" + (f".{table}" if table else "") + ("b" if later else "")
    names = [f"{name}-{rank}".encode() for rank in range(traffic.keys)]
    weights = 1.0 / np.arange(1, traffic.keys + 1) ** traffic.key_exponent
    cumulative = np.cumsum(weights / weights.sum())
    cumulative[-1] = 1.0
    partition_of = [murmur2(key) % traffic.partitions for key in names]
    return KeyTable(names, np.array(partition_of), cumulative)


def _weighted_counts(of: Ints, weights: Floats, count: int) -> Floats:
    """Sum the weights of each number below `count`."""
    return np.asarray(np.bincount(of, weights=weights, minlength=count), np.float64)


def murmur2(data: bytes) -> int:
    """Hash a key as Kafka's default partitioner does, sign bit cleared."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(data)) & mask
    whole = len(data) // 4 * 4
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = h * m & mask ^ k
    if len(data) > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return (h ^ h >> 15) & 0x7FFFFFFF


def value_sizes(traffic: Traffic) -> Ints:
    """Return the value size of each partition number, bytes; the order is drawn from the seed."""
    if traffic.partitions == 1:
        return np.array([traffic.value_bytes])
    steps = np.linspace(-0.5, 0.5, traffic.partitions)
    sizes = np.rint(traffic.value_bytes * traffic.size_spread**steps).astype(np.int64)
    order = list(range(traffic.partitions))
    random.Random(traffic.seed).shuffle(order)
    return np.maximum(sizes[order], STAMP_BYTES)


def later_share(traffic: Traffic, elapsed_s: float) -> float:
    """Return the share of records drawn from the later key tables at a time."""
    if traffic.shape == "step":
        return float(elapsed_s >= traffic.shape_s)
    if traffic.shape == "drift":
        return min(1.0, elapsed_s / traffic.shape_s)
    return 0.0


def rate_factor(traffic: Traffic, elapsed_s: float) -> float:
    """Return the record rate at a time, relative to that at the start."""
    if traffic.shape == "step" and elapsed_s >= traffic.shape_s:
        return traffic.step_factor
    if traffic.shape == "diurnal":
        phase = 2 * math.pi * elapsed_s / traffic.shape_s
        return 1.0 + traffic.diurnal_amplitude * math.sin(phase)
    return 1.0


class Draw:
    """Draws records: topic, key and partition of each. The same seed draws the same ones."""

    def __init__(self, traffic: Traffic) -> None:
        self.traffic = traffic
        self.sizes = value_sizes(traffic)
        self.tables = [
            [key_table(traffic, table, later) for table in range(traffic.key_tables)]
            for later in (False, True)
        ]
        self._rng = np.random.default_rng(traffic.seed)
        self.records_per_s = traffic.rate_mb_s * 1e6 / self._mean_payload_bytes()

    def records(self, count: int, elapsed_s: float) -> list[tuple[int, bytes, int]]:
        """Return `count` records as (topic number, key, partition)."""
        topics = self._rng.integers(0, self.traffic.topics, count)
        uniform = self._rng.random(count)
        later = self._rng.random(count) < later_share(self.traffic, elapsed_s)
        drawn = []
        for topic, at, is_later in zip(topics.tolist(), uniform, later.tolist(), strict=True):
            table = self.tables[is_later][topic % self.traffic.key_tables]
            rank = int(np.searchsorted(table.cumulative, at, side="right"))
            drawn.append((topic, table.names[rank], int(table.partition_of[rank])))
        return drawn

    def expected_bytes_per_s(self, elapsed_s: float) -> Floats:
        """Return the expected payload rate of every partition at a time, [topic, partition]."""
        return self._expected(elapsed_s) * rate_factor(self.traffic, elapsed_s)

    def _expected(self, elapsed_s: float) -> Floats:
        """Return bytes per second of every partition at the starting record rate."""
        later = later_share(self.traffic, elapsed_s)
        per_topic = self.records_per_s / self.traffic.topics
        rows = []
        for topic in range(self.traffic.topics):
            row = np.zeros(self.traffic.partitions)
            for weight, tables in ((1 - later, self.tables[0]), (later, self.tables[1])):
                row += weight * self._payload_rate(tables[topic % self.traffic.key_tables])
            rows.append(row * per_topic)
        return np.array(rows)

    def _payload_rate(self, table: KeyTable) -> Floats:
        """Return mean bytes per record of a topic, split by the partition they go to."""
        weights = np.diff(table.cumulative, prepend=0.0)
        key_bytes = np.array([len(name) for name in table.names])
        payload = key_bytes + self.sizes[table.partition_of]
        return _weighted_counts(table.partition_of, weights * payload, self.traffic.partitions)

    def _mean_payload_bytes(self) -> float:
        """Return the mean bytes of a record over all topics at the start."""
        uses = [topic % self.traffic.key_tables for topic in range(self.traffic.topics)]
        return float(np.mean([self._payload_rate(self.tables[0][use]).sum() for use in uses]))
