"""What the tests of dashboards, alerts and pages share: all metrics there are."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.metrics import MetricWrapperBase

from agent.collector.metrics import CollectorMetrics
from agent.telemetry import Metrics

SUFFIX = {"counter": "_total"}


@pytest.fixture(scope="session")
def metrics() -> frozenset[tuple[str, str, str]]:
    """Give each metric of agent and collector as (name, type, labels joined by commas)."""
    rows = {
        (wrapper._name, str(wrapper._type), tuple(wrapper._labelnames))
        for wrapper in vars(Metrics()).values()
        if isinstance(wrapper, MetricWrapperBase)
    }
    # A collector that has seen something of everything.
    parts: Any = SimpleNamespace(
        samples=1,
        ticks_missed=1,
        missing=Counter(reason=1),
        newest_ms={"1": 1},
        lost=Counter(topic=1),
        groups=1,
        failures=1,
    )
    for family in CollectorMetrics(parts, parts, parts).collect():
        rows.add((family.name, family.type, tuple(family.samples[0].labels)))
    return frozenset(
        (name + SUFFIX.get(kind, ""), kind, ", ".join(labels)) for name, kind, labels in rows
    )


@pytest.fixture(scope="session")
def series(metrics: frozenset[tuple[str, str, str]]) -> frozenset[str]:
    """Give the names under which the metrics can be queried."""
    parts = ("_bucket", "_count", "_sum")
    return frozenset(
        name + part
        for name, kind, _ in metrics
        for part in (parts if kind == "histogram" else ("",))
    )
