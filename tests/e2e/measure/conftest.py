"""Processes of the measuring part, and readers of what they wrote."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from confluent_kafka import Consumer, TopicPartition

from agent import wire
from deploy.local.cluster import LocalCluster
from deploy.local.leash import Leash


@pytest.fixture
def leash() -> Iterator[Leash]:
    """Give a leash: whatever is started on it ends with the test."""
    with Leash() as held:
        yield held


@pytest.fixture(scope="session")
def plimsoll() -> list[str]:
    """Give the command, as a list to append verbs to."""
    return [sys.executable, "-c", "from agent.cli import main; main()"]


@pytest.fixture(scope="session")
def wait_for() -> Callable[..., Any]:
    """Wait until a condition gives something true, and return that."""

    def wait(what: str, condition: Callable[[], Any], timeout_s: float = 60.0) -> Any:
        deadline_s = time.monotonic() + timeout_s
        while not (found := condition()):
            assert time.monotonic() < deadline_s, f"not within {timeout_s:.0f} s: {what}"
            time.sleep(0.2)
        return found

    return wait


@pytest.fixture(scope="session")
def read_table() -> Callable[..., list[dict[str, Any]]]:
    """Read a table of the lake; none while there is no folder."""

    def read(folder: Path) -> list[dict[str, Any]]:
        if not folder.exists():
            return []
        files = [str(path) for path in folder.rglob("*.parquet") if "_temporary" not in str(path)]
        if not files:
            return []
        table = pyarrow.dataset.dataset(
            files, partitioning="hive", partition_base_dir=str(folder)
        ).to_table()
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    return read


@pytest.fixture
def loads(cluster: LocalCluster) -> Iterator[Callable[[], list[tuple[int, wire.PartitionLoad]]]]:
    """Give a reader of the load records written since: Kafka's timestamp (ms) and record."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "measure", "log_level": 0}
    )
    place = TopicPartition(wire.PARTITION_LOAD, 0)
    _, end = consumer.get_watermark_offsets(place, timeout=10)
    consumer.assign([TopicPartition(wire.PARTITION_LOAD, 0, end)])
    found: list[tuple[int, wire.PartitionLoad]] = []

    def read() -> list[tuple[int, wire.PartitionLoad]]:
        for message in consumer.consume(1000, timeout=0.5):
            value = message.value()
            if message.error() is None and value is not None:
                found.append((message.timestamp()[1], wire.decode(wire.PartitionLoad, value)))
        return found

    yield read
    consumer.close()
