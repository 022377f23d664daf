"""What the tests of dashboards, alerts and pages share."""

import pytest
from prometheus_client import CollectorRegistry

from agent.telemetry import Metrics


@pytest.fixture(scope="session")
def registry() -> CollectorRegistry:
    """Give the agent's metrics."""
    return Metrics().registry


@pytest.fixture(scope="session")
def series(registry: CollectorRegistry) -> frozenset[str]:
    """Give the names under which the agent's metrics can be queried."""
    suffixes = {
        "counter": ("_total",),
        "histogram": ("_bucket", "_count", "_sum"),
        "gauge": ("",),
    }
    return frozenset(
        metric.name + suffix for metric in registry.collect() for suffix in suffixes[metric.type]
    )
