"""The Prometheus source and the doctor on a real Prometheus that scrapes real brokers."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer
from confluent_kafka import Producer
from typer.testing import CliRunner

from agent.clients import Cluster
from agent.collector.profiles import read_profiles
from agent.collector.prometheus_client import PrometheusClient, PrometheusUnreachableError
from agent.collector.run import kafka_source, prometheus_source
from agent.collector.sample import PartitionSample, Sample
from agent.commands.doctor import doctor
from deploy.local.cluster import LocalCluster
from deploy.prometheus.native import LocalPrometheus, jmx_agent, target, targets

TOPIC = "orders"
PARTITIONS = 6
RECORDS = 300


@pytest.fixture(scope="module")
def scraped() -> Iterator[tuple[LocalCluster, LocalPrometheus]]:
    """Give brokers with the JMX agent, a topic with data, and the Prometheus that scrapes them."""
    with LocalCluster(jvm=[jmx_agent()]) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, replicas=2)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        for number in range(RECORDS):
            producer.produce(TOPIC, value=b"x" * 100, partition=number % PARTITIONS)
        producer.flush(30)
        with LocalPrometheus(targets(cluster)) as server:
            yield cluster, server


def partitions_of(sample: Sample) -> dict[int, tuple[str, PartitionSample]]:
    """Give broker and counters by partition."""
    return {row.partition: (b.broker, row) for b in sample.brokers for row in b.partitions}


def wait_for(what: str, condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    """Wait for a condition."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {timeout_s} s: {what}"
        time.sleep(0.2)


def test_prometheus_and_kafka_say_the_same(
    scraped: tuple[LocalCluster, LocalPrometheus],
) -> None:
    """Both sources give the same leaders, offsets, sizes, epochs and topic ids."""
    cluster, server = scraped
    kafka = kafka_source(Cluster(cluster.bootstrap_servers))
    source = prometheus_source(kafka, server.url, "jmx-default", None)
    try:
        wait_for("all is scraped", lambda: len(partitions_of(source.sample())) == PARTITIONS)
        ours, theirs = partitions_of(source.sample()), partitions_of(kafka.sample())
        assert ours == theirs
        assert sum(row.end_offset for _, row in ours.values()) == RECORDS
        # The time is that of the scrape: asked twice between two scrapes, it is the same sample,
        # not a step in which nothing was produced.
        wait_for("twice the same", lambda: source.sample().brokers == source.sample().brokers)
    finally:
        source.close()


def test_doctor_says_which_profile_matches(
    scraped: tuple[LocalCluster, LocalPrometheus],
) -> None:
    """`plimsoll doctor` tells the matching profile from the others and what those miss."""
    cluster, server = scraped
    wait_for("scraped", lambda: _covered(server) == PARTITIONS)
    app = typer.Typer()
    app.command()(doctor)
    answer = CliRunner().invoke(
        app,
        [
            *("--bootstrap-server", cluster.bootstrap_servers),
            *("--prometheus-url", server.url),
            "--json",
        ],
    )
    assert answer.exit_code == 0, answer.output
    found = {line["name"]: line for line in map(json.loads, answer.stdout.splitlines())}
    assert found["kafka"]["works"]
    assert found["kafka"]["partitions"] == PARTITIONS
    assert found["jmx-default"]["works"]
    assert not found["jmx-raw"]["works"]
    assert "kafka_log_Log_Value" in found["jmx-raw"]["missing"][0]
    assert set(read_profiles()) <= found.keys()


def _covered(server: LocalPrometheus) -> int:
    client = PrometheusClient(server.url)
    series = client.query('kafka_log_log_size{topic="orders"}', time.time())
    return len({row.labels["partition"] for row in series})


RULES = Path(__file__).parents[2] / "data" / "measure"
EXPORTED = {
    1: ("strimzi", {"strimzi_io_cluster": "ours"}),
    2: ("confluent", {"env": "test"}),
    3: ("jmx-raw", dict[str, str]()),
}
"""Each broker's exporter names series as another profile expects them."""


@pytest.fixture(scope="module")
def variously_scraped() -> Iterator[tuple[LocalCluster, LocalPrometheus]]:
    """Give brokers of which each exports by rules of its own, and a topic led by all of them."""
    rules = {1: "jmx-strimzi.yml", 2: "jmx-confluent.yml", 3: "jmx-raw.yml"}
    agents = {broker: [jmx_agent(RULES / name)] for broker, name in rules.items()}
    with LocalCluster(broker_jvm=agents) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, replicas=2)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        for number in range(RECORDS):
            producer.produce(TOPIC, value=b"x" * 100, partition=number % PARTITIONS)
        producer.flush(30)
        labels = {target(cluster, broker): own for broker, (_, own) in EXPORTED.items()}
        with LocalPrometheus(labels, interval_s=3.0) as server:
            yield cluster, server


@pytest.mark.parametrize("broker", EXPORTED)
def test_each_profile_reads_the_exporter_that_it_is_made_for(
    variously_scraped: tuple[LocalCluster, LocalPrometheus], broker: int
) -> None:
    """What a broker exports by a profile's rules reads as the broker itself tells."""
    cluster, server = variously_scraped
    kafka = kafka_source(Cluster(cluster.bootstrap_servers))
    source = prometheus_source(kafka, server.url, EXPORTED[broker][0], None)
    led = {n: row for n, row in partitions_of(kafka.sample()).items() if row[0] == str(broker)}
    assert led
    try:
        wait_for("all is scraped", lambda: partitions_of(source.sample()).keys() >= led.keys())
        seen = partitions_of(source.sample())
        assert {number: seen[number] for number in led} == led
    finally:
        source.close()


@pytest.mark.parametrize("hung", [False, True])
def test_a_dead_or_hung_prometheus_costs_seconds_and_no_sample(hung: bool) -> None:
    """A closed port and a server that never answers both end in a few seconds, with an error."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if hung:
            listener.listen()
        client = PrometheusClient(f"http://127.0.0.1:{listener.getsockname()[1]}")
        begin_s = time.monotonic()
        with pytest.raises(PrometheusUnreachableError):
            client.query("up", time.time())
        assert time.monotonic() - begin_s < 8
