"""The same job, unchanged, on a standalone cluster and through Spark Connect.

On local cores it runs in `test_pipeline.py`.
"""

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from confluent_kafka import Producer

from agent import topics, wire
from agent.clients import Cluster
from deploy.local.artifacts import fetch
from deploy.local.cluster import LocalCluster
from deploy.local.leash import Leash
from deploy.local.node import free_ports
from deploy.local.paths import ROOT
from pipeline.session import SETTINGS

pytestmark = [pytest.mark.spark]

SPARK_BIN = Path(pyspark.__file__).parent / "bin"
ENVIRONMENT = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_NO_DAEMONIZE": "1",
    "PYTHONPATH": str(ROOT),
    "TZ": "UTC",
}


def spark_env(python: str) -> dict[str, str]:
    """Give the environment of Spark's own processes: their workers import our packages."""
    return {**os.environ, **ENVIRONMENT, "PYSPARK_PYTHON": python}


def listening(port: int) -> bool:
    """Say whether somebody accepts connections."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def standalone(leash: Leash, wait_for: Callable[..., Any], folder: Path, python: str) -> str:
    """Start a master and two workers; return the master's address."""
    port, ui_port = free_ports(2)
    env = spark_env(python)
    master = f"spark://127.0.0.1:{port}"
    spark_class, package = str(SPARK_BIN / "spark-class"), "org.apache.spark.deploy"
    leash.spawn(
        [
            *(spark_class, f"{package}.master.Master", "--host", "127.0.0.1"),
            *("--port", str(port), "--webui-port", str(ui_port)),
        ],
        env=env,
        output=folder / "master.log",
    )
    wait_for("the master listens", lambda: listening(port))
    for number in (1, 2):
        work = folder / f"worker-{number}"
        leash.spawn(
            [
                *(spark_class, f"{package}.worker.Worker", "--cores", "1", "--memory", "1g"),
                *("--webui-port", "0", "--host", "127.0.0.1", "--work-dir", str(work), master),
            ],
            env=env,
            output=folder / f"worker-{number}.log",
        )
    log = folder / "master.log"
    wait_for("two workers", lambda: log.read_text().count("Registering worker") == 2)
    return master


def connect_server(leash: Leash, wait_for: Callable[..., Any], folder: Path, python: str) -> str:
    """Start a Spark Connect server; return its address."""
    (port,) = free_ports(1)
    settings = {
        **SETTINGS,
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
    }
    jars = ",".join(sorted(str(jar) for jar in fetch("spark").glob("*.jar")))
    leash.spawn(
        [
            str(SPARK_BIN / "spark-submit"),
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
            *("--master", "local[1]", "--jars", jars),
            *(f"--conf={name}={value}" for name, value in settings.items()),
            "spark-internal",
        ],
        env=spark_env(python),
        output=folder / "connect.log",
    )
    wait_for("the Connect server listens", lambda: listening(port))
    return f"sc://127.0.0.1:{port}"


def run_once(command: list[str], log: Path) -> None:
    """Run a command to its end.

    A Connect server gives the Python process of `foreachBatch` 10 s to start, which cannot be set;
    on a machine busy with other things that is tried again.
    """
    for _ in range(3):
        with Leash() as leash:
            ended = leash.spawn(command, env=spark_env(command[0]), output=log).wait(180)
        if ended == 0 or "worker failed to connect back" not in log.read_text():
            break
        log.unlink()
    assert ended == 0, log.read_text()[-3000:]


def metrics(bootstrap_servers: str, topic: str) -> None:
    """Write two minutes of samples of three brokers."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    now_ms = int(time.time() * 1000) - 130_000
    for step in range(13):
        for broker in (1, 2, 3):
            record = wire.BrokerMetrics(
                ms=now_ms + 10_000 * step,
                broker=str(broker),
                chunk=0,
                chunks=1,
                topics=[
                    wire.TopicSample(
                        topic=f"{topic}-{number}",
                        partition=[broker],
                        end_offset=[100 * broker * step],
                        log_size_bytes=[10_000 * broker * step],
                    )
                    for number in range(5)
                ],
            )
            producer.produce(wire.BROKER_METRICS, wire.encode(record), key=str(broker))
    assert producer.flush(30) == 0


def test_one_job_everywhere(
    cluster: LocalCluster,
    plimsoll: list[str],
    wait_for: Callable[..., Any],
    read_table: Callable[..., list[dict[str, Any]]],
    fresh_name: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """`--master` alone changes, and every way gives the same loads."""
    topics.create(Cluster(cluster.bootstrap_servers))
    topic = fresh_name("ways")
    metrics(cluster.bootstrap_servers, topic)
    masters = {
        "connect": connect_server,
        "standalone": standalone,
    }
    found = {}
    for way, start in masters.items():
        with Leash() as servers:
            run_once(
                [
                    *(*plimsoll, "pipeline", "run", "--once", "--shuffle-partitions", "1"),
                    *("--master", start(servers, wait_for, tmp_path, plimsoll[0])),
                    *("--bootstrap-server", cluster.bootstrap_servers),
                    *("--checkpoint", str(tmp_path / way / "state")),
                    *("--lake", str(tmp_path / way / "lake")),
                ],
                tmp_path / f"{way}.log",
            )
        rows = read_table(tmp_path / way / "lake" / "loads")
        ours = [row for row in rows if row["topic"].startswith(topic)]
        for row in ours:
            del row["stream"]
        found[way] = sorted(ours, key=lambda row: (row["topic"], row["tick_ms"]))
    assert len(found["connect"]) >= 60
    assert found["connect"][-1]["records_per_s"] == [10, 20, 30]
    assert found["standalone"] == found["connect"]
