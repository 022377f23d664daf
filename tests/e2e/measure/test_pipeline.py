"""From real brokers to loads: collector and Spark job as processes of their own."""

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from agent import topics, wire
from agent.clients import Cluster
from agent.collector.bounds import CLIENT_ID
from deploy.local.cluster import LocalCluster
from deploy.local.leash import Leash
from pipeline.batch import profiles, published_loads, recomputed_loads
from pipeline.schemas import LOADS
from pipeline.session import session
from pipeline.settings import Settings

PARTITIONS = 4
TRIGGER_S = 2.0
RECORDS_PER_S = (40, 20, 10, 5)
VALUE_BYTES = (100, 900, 300, 500)
SETTINGS = Settings("", "", window_s=20, slide_s=4)

pytestmark = [pytest.mark.spark]


class Traffic:
    """Produces at fixed rates per partition until it is stopped."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "linger.ms": 20, "log_level": 0}
        )
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush(10)

    def _run(self) -> None:
        begin_s = time.monotonic()
        sent = [0] * PARTITIONS
        while not self._stop.wait(0.02):
            for partition, rate in enumerate(RECORDS_PER_S):
                while sent[partition] < rate * (time.monotonic() - begin_s):
                    value = b"x" * VALUE_BYTES[partition]
                    self._producer.produce(self._topic, value, partition=partition)
                    sent[partition] += 1
            self._producer.poll(0)


@pytest.fixture
def topic(cluster: LocalCluster, fresh_name: Callable[[str], str]) -> str:
    """Give a topic to measure, with Plimsoll's own topics in place."""
    topics.create(Cluster(cluster.bootstrap_servers))
    name = fresh_name("measured")
    cluster.create_topic(name, PARTITIONS, replicas=2)
    return name


@pytest.fixture
def large_records(cluster: LocalCluster, topic: str) -> Iterator[None]:
    """Let the metrics topic take records of 30 MB for once."""
    assert topic, "Plimsoll's topics were created with it"
    for value, kind in (("30000000", AlterConfigOpType.SET), ("", AlterConfigOpType.DELETE)):
        entry = ConfigEntry("max.message.bytes", value, incremental_operation=kind)
        resource = ConfigResource(
            ResourceType.TOPIC, wire.BROKER_METRICS, incremental_configs=[entry]
        )
        for future in cluster.admin().incremental_alter_configs([resource]).values():
            future.result(20)
        if kind is AlterConfigOpType.SET:
            yield


def poison(bootstrap_servers: str) -> set[tuple[int | None, int | None]]:
    """Write records that must be refused; return partition and offset of each."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "message.max.bytes": 30_000_000})
    places: set[tuple[int | None, int | None]] = set()

    def place(_error: object, message: Message) -> None:
        places.add((message.partition(), message.offset()))

    for value in (
        b'{"v":1,',
        b'{"v":9,"ms":1}',
        b'{"v":1,"ms":NaN}',
        b'{"v":1,"ms":1,"broker":"2","chunk":0,"chunks":1,"topics":[]}',
        b"x" * 20_000_000,
    ):
        producer.produce(wire.BROKER_METRICS, value, key=b"1", on_delivery=place)
    assert producer.flush(30) == 0
    return places


def start_pipeline(
    leash: Leash, plimsoll: list[str], bootstrap_servers: str, folder: Path
) -> subprocess.Popen[bytes]:
    """Start the Spark job on its checkpoint."""
    return leash.spawn(
        [
            *(*plimsoll, "pipeline", "run", "--bootstrap-server", bootstrap_servers),
            *("--checkpoint", str(folder / "checkpoint"), "--lake", str(folder / "lake")),
            *("--trigger-s", str(TRIGGER_S), "--window-s", str(SETTINGS.window_s)),
            *("--slide-s", str(SETTINGS.slide_s)),
        ],
        output=folder / "pipeline.log",
    )


@pytest.mark.usefixtures("large_records")
def test_brokers_to_loads_through_poison_and_a_killed_driver(
    cluster: LocalCluster,
    topic: str,
    leash: Leash,
    plimsoll: list[str],
    loads: Callable[[], list[tuple[int, wire.PartitionLoad]]],
    wait_for: Callable[..., Any],
    read_table: Callable[..., list[dict[str, Any]]],
    tmp_path: Path,
) -> None:
    """Rates are right, poison is quarantined, a SIGKILL leaves neither gap nor double, and the
    lake's samples give the published loads again, row for row.
    """  # noqa: D205 -- one sentence
    servers = cluster.bootstrap_servers
    lake = tmp_path / "lake"

    def measured(since_ms: int = 0) -> wire.PartitionLoad | None:
        ours = [load for _, load in loads() if load.topic == topic and load.ms > since_ms]
        good = [load for load in ours if set(load.confidence) == {"measured"}]
        return good[-1] if good and len(good[-1].partition) == PARTITIONS else None

    with Traffic(servers, topic):
        collector = leash.spawn(
            [*plimsoll, "collect", "--bootstrap-server", servers, "--interval-s", "2"],
            output=tmp_path / "collector.log",
        )
        first = start_pipeline(leash, plimsoll, servers, tmp_path)
        load = wait_for("loads measured", measured, 120)
        assert load.records_per_s == pytest.approx(RECORDS_PER_S, rel=0.1)
        # What a broker stores of a record: value, some 10 bytes of framing, its part of a batch's
        # 61 bytes; at these rates a batch holds one record.
        stored = [n * (size + 70) for n, size in zip(RECORDS_PER_S, VALUE_BYTES, strict=True)]
        assert load.bytes_per_s == pytest.approx(stored, rel=0.1)

        places = poison(servers)
        wait_for(
            "poison in quarantine",
            lambda: (
                places
                <= {
                    (row["from_partition"], row["from_offset"])
                    for row in read_table(lake / "quarantine")
                    if row["from_topic"] == wire.BROKER_METRICS
                }
            ),
        )
        first.kill()
        first.wait()
        killed_ms = int(time.time() * 1000)
        second = start_pipeline(leash, plimsoll, servers, tmp_path)
        again = wait_for("loads after the kill", lambda: measured(killed_ms + 5_000), 120)
        assert again.records_per_s == pytest.approx(RECORDS_PER_S, rel=0.1)
    for process in (collector, second):
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0

    spark = session("local[1]", None, shuffle_partitions=1)
    settings = Settings("", str(lake), SETTINGS.window_s, SETTINGS.slide_s)
    try:
        published = published_loads(spark, str(lake)).orderBy("topic", "chunk", "tick_ms")
        again_table = recomputed_loads(spark, settings, 0, 2**62).select(*LOADS)
        streamed, recomputed = published.collect(), again_table.orderBy(*published.columns[:3])
        assert streamed == recomputed.collect()
        ticks = [row["tick_ms"] for row in streamed if row["topic"] == topic]
        assert ticks == list(range(ticks[0], ticks[-1] + 1, 4_000)), "a tick is missing"
        shapes = profiles(published).where(f"topic = '{topic}'").collect()
        assert {row["period"] for row in shapes} == {"day", "week"}
        assert {row["partition"] for row in shapes} == set(range(PARTITIONS))
    finally:
        spark.stop()


def test_membership_follows_a_group(
    cluster: LocalCluster,
    topic: str,
    leash: Leash,
    plimsoll: list[str],
    wait_for: Callable[..., Any],
    fresh_name: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """Classic and KIP-848 groups are described with their shares; a deleted one is buried."""
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415 -- readers of this test

    servers = cluster.bootstrap_servers
    leash.spawn(
        [*plimsoll, "collect", "--bootstrap-server", servers, "--membership-interval-s", "0.5"],
        output=tmp_path / "collector.log",
    )
    reader = Consumer({"bootstrap.servers": servers, "group.id": CLIENT_ID, "log_level": 0})
    reader.assign([TopicPartition(wire.MEMBERSHIP, 0, 0)])
    latest: dict[str, wire.Membership | None] = {}

    def look() -> dict[str, wire.Membership | None]:
        for message in reader.consume(100, timeout=0.3):
            value, key = message.value(), (message.key() or b"").decode()
            latest[key] = None if value is None else wire.decode(wire.Membership, value)
        return latest

    groups = {protocol: fresh_name(protocol) for protocol in ("classic", "consumer")}
    members = [
        Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "group.protocol": protocol,
                "client.id": f"{protocol}-1",
                "client.rack": "r2",
                "log_level": 0,
            }
        )
        for protocol, group in groups.items()
    ]
    for member in members:
        member.subscribe([topic])

    def settled() -> bool:
        for member in members:
            member.poll(0.1)
        found = [look().get(group) for group in groups.values()]
        return all(
            record is not None
            and record.state == "Stable"
            and [m.owned for m in record.members] == [{topic: list(range(PARTITIONS))}]
            for record in found
        )

    wait_for("both groups settled", settled)
    for protocol, group in groups.items():
        record = latest[group]
        assert record is not None
        assert (record.protocol, record.kind) == (protocol, "consumer")
        assert record.members[0].stable_id == f"{protocol}-1"
        assert record.members[0].topics == [topic]
        assert record.topics[topic].partitions == PARTITIONS
        assert all(len(racks) == 2 for racks in record.topics[topic].racks)
    assert latest[groups["consumer"]].members[0].rack == "r2"  # type: ignore[union-attr] # asserted above
    for member in members:
        member.close()

    def empty() -> bool:
        found = [look().get(group) for group in groups.values()]
        return all(record is not None and not record.members for record in found)

    wait_for("both groups empty", empty)
    for future in cluster.admin().delete_consumer_groups(list(groups.values())).values():
        future.result(20)
    wait_for("tombstones", lambda: all(look()[group] is None for group in groups.values()))
    reader.close()
