"""The local cluster itself, on real brokers."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer

from deploy.local.cluster import LocalCluster
from deploy.local.leash import holders


def test_brokers_stand_in_racks_of_their_own(cluster: LocalCluster) -> None:
    """Every broker answers, lists all three, and each is in the rack of its number."""
    described = cluster.admin().describe_cluster().result(10)
    assert {(node.id, node.rack) for node in described.nodes} == {(1, "r1"), (2, "r2"), (3, "r3")}


def test_a_killed_broker_loses_its_leaders_and_returns(
    cluster: LocalCluster, fresh_name: Callable[[str], str]
) -> None:
    """Partitions of a killed broker get other leaders, keep records, and it comes back alone."""
    topic = fresh_name("kill")
    cluster.create_topic(topic, 3, assignment=[[1, 2], [2, 3], [3, 1]])
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    producer.produce(topic, b"kept", partition=1)
    assert producer.flush(10) == 0
    cluster.kill_broker(2)
    try:
        leaders = cluster.wait_leaders(topic, lambda seen: 2 not in seen.values())
        assert leaders[1] == 3
    finally:
        cluster.start_broker(2)
    assert cluster.running() == [1, 2, 3]


def test_leadership_moves_without_a_stop(
    cluster: LocalCluster, fresh_name: Callable[[str], str]
) -> None:
    """A leader is moved to the second replica while all brokers run."""
    topic = fresh_name("move")
    cluster.create_topic(topic, 2, assignment=[[1, 2], [1, 3]])
    assert cluster.move_leader(topic, 1) == 3
    assert cluster.wait_leaders(topic, lambda seen: seen[1] == 3) == {0: 1, 1: 3}


def test_a_killed_owner_leaves_nothing_behind(tmp_path: Path) -> None:
    """After SIGKILL of the process that started a cluster no broker and no data is left."""
    said = tmp_path / "said"
    program = (
        "import sys, pathlib, signal\n"
        "from deploy.local.cluster import LocalCluster\n"
        "cluster = LocalCluster().start()\n"
        "text = f'{cluster._leash.token} {cluster.node(1).folder.parent}'\n"
        "pathlib.Path(sys.argv[1] + '.part').write_text(text)\n"
        "pathlib.Path(sys.argv[1] + '.part').rename(sys.argv[1])\n"
        "signal.pause()\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", program, str(said)])
    try:
        _wait(said.exists, 120.0)
        token, folder = said.read_text().split()
        assert len(holders(token)) == 3
    finally:
        os.kill(owner.pid, signal.SIGKILL)
        owner.wait()
    _wait(lambda: not holders(token) and not Path(folder).exists(), 20.0)


def _wait(condition: Callable[[], bool], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "condition not met in time"
        time.sleep(0.05)
