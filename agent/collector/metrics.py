"""What the collector shows of itself to a Prometheus."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector as Exporter

if TYPE_CHECKING:
    from agent.collector.groups import GroupWatcher
    from agent.collector.publisher import Publisher
    from agent.collector.run import Collector


class CollectorMetrics(Exporter):
    """Reads the counters of the running parts when it is scraped."""

    def __init__(
        self, collector: "Collector", watcher: "GroupWatcher", publisher: "Publisher"
    ) -> None:
        self._collector = collector
        self._watcher = watcher
        self._publisher = publisher

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        yield _counter("samples", "Rounds of sampling.", self._collector.samples)
        yield _counter("ticks_missed", "Rounds that came too late.", self._collector.ticks_missed)
        missing = CounterMetricFamily(
            "plimsoll_collector_missing_partitions", "Partitions not sampled.", labels=["reason"]
        )
        for reason, count in sorted(self._collector.missing.items()):
            missing.add_metric([reason], count)
        yield missing
        newest = GaugeMetricFamily(
            "plimsoll_collector_newest_sample_timestamp_seconds",
            "Time of the newest sample.",
            labels=["broker"],
        )
        for broker, ms in sorted(self._collector.newest_ms.items()):
            newest.add_metric([broker], ms / 1000)
        yield newest
        lost = CounterMetricFamily(
            "plimsoll_collector_records_lost", "Records not delivered.", labels=["topic"]
        )
        for topic, count in sorted(self._publisher.lost.items()):
            lost.add_metric([topic], count)
        yield lost
        yield GaugeMetricFamily(
            "plimsoll_collector_groups", "Groups described.", value=self._watcher.groups
        )
        failures = self._watcher.failures
        yield _counter("group_failures", "Brokers that told no groups.", failures)


def serve(host: str, port: int, metrics: CollectorMetrics) -> None:
    """Serve `/metrics` in a thread of its own."""
    registry = CollectorRegistry()
    registry.register(metrics)
    start_http_server(port, addr=host, registry=registry)


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"plimsoll_collector_{name}", text, value=value)
