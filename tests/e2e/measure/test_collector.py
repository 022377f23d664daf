"""The collector when brokers do not answer."""

import os
import signal
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent import topics
from agent.clients import Cluster
from agent.collector.run import kafka_source
from deploy.local.cluster import LocalCluster
from deploy.local.leash import Leash
from deploy.local.node import free_ports


def test_a_hung_broker_costs_its_own_samples_only(
    cluster: LocalCluster, wait_for: Callable[..., Any], fresh_name: Callable[[str], str]
) -> None:
    """While one broker is frozen the others are sampled within bounded time; nothing is zero."""
    topic = fresh_name("hung")
    cluster.create_topic(topic, 3, assignment=[[1], [2], [3]])
    source = kafka_source(Cluster(cluster.bootstrap_servers), topic)
    longest_s = 0.0

    def sampled() -> set[int]:
        nonlocal longest_s
        begin_s = time.monotonic()
        sample = source.sample()
        longest_s = max(longest_s, time.monotonic() - begin_s)
        return {row.partition for broker in sample.brokers for row in broker.partitions}

    try:
        wait_for("all sampled", lambda: sampled() == {0, 1, 2})
        os.kill(cluster.pid(3), signal.SIGSTOP)
        wait_for("the others sampled", lambda: sampled() == {0, 1}, 120)
        os.kill(cluster.pid(3), signal.SIGCONT)
        wait_for("all sampled again", lambda: sampled() == {0, 1, 2}, 120)
    finally:
        os.kill(cluster.pid(3), signal.SIGCONT)
        source.close()
    assert longest_s < 30


def test_nobody_there_is_a_sample_without_brokers() -> None:
    """An unreachable cluster is counted, in bounded time, and raises nothing."""
    (port,) = free_ports(1)
    source = kafka_source(Cluster(f"127.0.0.1:{port}"))
    begin_s = time.monotonic()
    sample = source.sample()
    source.close()
    assert time.monotonic() - begin_s < 30
    assert (sample.brokers, sample.missing) == ([], {"cluster-unreachable": 1})


def test_the_collector_shows_its_counters(
    cluster: LocalCluster,
    leash: Leash,
    plimsoll: list[str],
    wait_for: Callable[..., Any],
    tmp_path: Path,
) -> None:
    """`--metrics-port` serves samples, missing partitions and the newest sample per broker."""
    topics.create(Cluster(cluster.bootstrap_servers))
    (port,) = free_ports(1)
    leash.spawn(
        [
            *(*plimsoll, "collect", "--bootstrap-server", cluster.bootstrap_servers),
            *("--interval-s", "1", "--metrics-port", str(port)),
        ],
        output=tmp_path / "collector.log",
    )

    def metrics() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    wait_for("two samples", lambda: "plimsoll_collector_samples_total 2" in metrics())
    assert "plimsoll_collector_groups" in metrics()
