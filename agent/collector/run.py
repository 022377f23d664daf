"""The collector's life: sample on the grid, publish, watch groups, until told to stop."""

import re
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from agent import wire
from agent.clients import Cluster
from agent.collector.clock import SteadyClock, ticks
from agent.collector.kafka_source import KafkaSource
from agent.collector.profiles import read_profiles
from agent.collector.prometheus_client import PrometheusClient
from agent.collector.prometheus_source import PrometheusSource
from agent.collector.publisher import Publisher
from agent.collector.sample import Sample, Source, records
from agent.errors import TheirFault

INTERNAL_TOPICS: Final = re.compile(r"__.*|plimsoll\..*")
"""Topics that no group of the user's consumes; sampling them would only cost."""


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """Which topics are sampled: all that `include` takes, internal ones never."""

    include: re.Pattern[str]

    def __call__(self, topic: str) -> bool:
        """Say whether a topic is sampled."""
        return INTERNAL_TOPICS.fullmatch(topic) is None and bool(self.include.fullmatch(topic))


class Collector:
    """One source, sampled on a steady clock."""

    def __init__(self, source: Source, publisher: Publisher, interval_s: float) -> None:
        self._source = source
        self._publisher = publisher
        self._interval_s = interval_s
        self._log = structlog.get_logger("collector").bind(source=source.name)
        self.samples = 0
        self.ticks_missed = 0
        self.missing: Counter[str] = Counter()
        self.newest_ms: dict[str, int] = {}
        """Time of the newest sample of each broker seen so far."""

    def run(self, stop: threading.Event) -> None:
        """Sample until `stop`. A source that fails costs its sample, never the collector."""
        for missed in ticks(self._interval_s, stop):
            self.ticks_missed += missed
            sample = self._source.sample()
            for broker in sample.brokers:
                for record in records(broker):
                    self._publisher.publish(wire.BROKER_METRICS, broker.broker, wire.encode(record))
                self.newest_ms[broker.broker] = broker.ms
            self.samples += 1
            self.missing.update(sample.missing)
            self._tell(sample, missed)

    def _tell(self, sample: Sample, missed: int) -> None:
        partitions = sum(len(broker.partitions) for broker in sample.brokers)
        tell = self._log.warning if sample.missing or missed else self._log.info
        tell(
            "sampled",
            brokers=len(sample.brokers),
            partitions=partitions,
            missing=sample.missing,
            ticks_missed=missed,
            records_lost=self._publisher.lost.total(),
        )


def kafka_source(cluster: Cluster, topics: str = ".*") -> KafkaSource:
    """Return the source that needs nothing but the cluster."""
    return KafkaSource(cluster, TopicFilter(re.compile(topics)), SteadyClock())


def prometheus_source(
    kafka: KafkaSource, url: str, profile: str, profiles_file: Path | None
) -> PrometheusSource:
    """Return the source that asks a Prometheus first. Raises TheirFault for a profile unknown."""
    profiles = read_profiles(profiles_file)
    if profile not in profiles:
        raise TheirFault("profile", f"{profile!r} is none of {', '.join(sorted(profiles))}")
    return PrometheusSource(PrometheusClient(url), profiles[profile], kafka)
