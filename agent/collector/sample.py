"""What a source returns, and how it becomes `plimsoll.broker-metrics` records. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import UNSET

from agent import limits, wire


@dataclass(frozen=True, slots=True)
class PartitionSample:
    """Counters of one partition as its leader reports them."""

    topic: str
    partition: int
    end_offset: int
    log_size_bytes: int
    log_start_offset: int | None = None
    leader_epoch: int | None = None
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class BrokerSample:
    """What one broker leads, at one time."""

    broker: str
    ms: int
    rack: str | None
    partitions: list[PartitionSample]


@dataclass(slots=True)
class Sample:
    """One round of sampling. What could not be had is counted by its reason, never made up."""

    brokers: list[BrokerSample] = field(default_factory=list)
    missing: dict[str, int] = field(default_factory=dict)

    def miss(self, reason: str, partitions: int = 1) -> None:
        """Count partitions that this round says nothing about."""
        if partitions:
            self.missing[reason] = self.missing.get(reason, 0) + partitions


class Source(Protocol):
    """A way to sample all brokers once."""

    name: str

    def sample(self) -> Sample:
        """Sample what can be reached now; bounded in time; raises only for an unusable set-up."""

    def close(self) -> None:
        """Let connections go."""


def records(sample: BrokerSample) -> Iterator[wire.BrokerMetrics]:
    """Yield the records of one broker's sample, each within the partition limit."""
    rows = sorted(sample.partitions, key=lambda row: (row.topic, row.partition))
    size = limits.BROKER_METRICS_PARTITIONS_MAX
    chunks = [rows[begin : begin + size] for begin in range(0, len(rows), size)]
    for number, chunk in enumerate(chunks):
        by_topic: dict[str, list[PartitionSample]] = {}
        for row in chunk:
            by_topic.setdefault(row.topic, []).append(row)
        yield wire.BrokerMetrics(
            ms=sample.ms,
            broker=sample.broker,
            rack=UNSET if sample.rack is None else sample.rack,
            chunk=number,
            chunks=len(chunks),
            topics=[_columns(topic, part) for topic, part in by_topic.items()],
        )


def _columns(topic: str, rows: list[PartitionSample]) -> wire.TopicSample:
    epochs = [row.leader_epoch for row in rows if row.leader_epoch is not None]
    starts = [row.log_start_offset for row in rows if row.log_start_offset is not None]
    topic_id = rows[0].topic_id
    return wire.TopicSample(
        topic=topic,
        partition=[row.partition for row in rows],
        end_offset=[row.end_offset for row in rows],
        log_size_bytes=[row.log_size_bytes for row in rows],
        topic_id=UNSET if topic_id is None else topic_id,
        leader_epoch=epochs if len(epochs) == len(rows) else UNSET,
        log_start_offset=starts if len(starts) == len(rows) else UNSET,
    )


def by_broker(
    rows: Mapping[str, list[PartitionSample]], ms: int, racks: Mapping[str, str | None]
) -> list[BrokerSample]:
    """Give the samples of brokers that have any, sorted by broker."""
    return [
        BrokerSample(broker, ms, racks.get(broker), rows[broker])
        for broker in sorted(rows)
        if rows[broker]
    ]
