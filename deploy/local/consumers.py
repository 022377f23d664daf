"""Ordinary Java consumers, each a process of its own, and where their journals are.

The application knows nothing of Plimsoll (deploy/local/consumer). Its strategy and the plugin's
settings stand in a properties file, the plugin's jar is on the class path: that is all an adopter
changes.
"""

import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, cast

import msgspec

from deploy.local.artifacts import consumer_jar, fetch
from deploy.local.leash import Leash
from deploy.local.paths import HERE

CLIENT_JARS: Final = (
    "kafka-clients-4.3.1.jar",
    "lz4-java-1.10.2.jar",
    "snappy-java-1.1.10.7.jar",
    "zstd-jni-1.5.6-10.jar",
    "slf4j-api-1.7.36.jar",
    "log4j-slf4j-impl-2.25.4.jar",
    "log4j-api-2.25.4.jar",
    "log4j-core-2.25.4.jar",
)
"""What a consumer needs of the broker's class path; a short one starts faster."""

JVM_FLAGS: Final = (
    "-Xms24m",
    "-Xmx64m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Xss512k",
)
"""A dozen of them share two cores: the quick compiler, one collector thread, a small heap."""

DEFAULTS: Final[Mapping[str, str]] = {
    "auto.offset.reset": "earliest",
    # A moved partition pauses for about one heartbeat interval.
    "heartbeat.interval.ms": "500",
    "session.timeout.ms": "6000",
    # A rebalance takes a busy consumer three or four polls: one at its limit polls every 32 ms.
    "max.poll.records": "10",
    # Little prefetch: what a capped consumer has fetched already is latency, and what it has
    # fetched of one partition the others have to wait for.
    "max.partition.fetch.bytes": "8192",
    "fetch.max.bytes": "16384",
    "fetch.min.bytes": "8192",
    "fetch.max.wait.ms": "100",
    "enable.metrics.push": "false",
}


@dataclass(frozen=True, slots=True)
class ConsumerProcess:
    """One running consumer."""

    client_id: str
    journal: Path
    log: Path
    process: subprocess.Popen[bytes]

    def set_cap(self, bytes_per_s: float) -> None:
        """Limit what it can process from now on; 0 lifts the limit."""
        pipe = cast("IO[bytes]", self.process.stdin)
        with suppress(BrokenPipeError):  # it may have been killed
            pipe.write(f"cap {bytes_per_s:.0f}\n".encode())
            pipe.flush()


def start_consumer(
    leash: Leash,
    folder: Path,
    client_id: str,
    *,
    bootstrap_servers: str,
    group: str,
    topics: Sequence[str],
    settings: Mapping[str, str] | None = None,
    plugin: Path | None = None,
) -> ConsumerProcess:
    """Start one consumer; `settings` are Kafka's, the plugin's or the application's (`app.…`)."""
    folder.mkdir(parents=True, exist_ok=True)
    journal = folder / f"{client_id}.jsonl"
    properties = {
        **DEFAULTS,
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "client.id": client_id,
        "app.topics": ",".join(topics),
        "app.journal": str(journal),
        **(settings or {}),
    }
    path = folder / f"{client_id}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    command = java_command(plugin, "io.plimsoll.local.OrdinaryConsumer", str(path))
    log = folder / f"{client_id}.log"
    process = leash.spawn(command, output=log, stdin=subprocess.PIPE)
    return ConsumerProcess(client_id, journal, log, process)


def java_command(plugin: Path | None, main: str, *arguments: str) -> list[str]:
    """Return the command that runs a class of deploy/local/consumer, with the plugin or without."""
    jars = [str(fetch("kafka") / name) for name in CLIENT_JARS]
    class_path = [str(consumer_jar()), *([str(plugin)] if plugin else []), *jars]
    logging = f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"
    return ["java", *JVM_FLAGS, logging, "-cp", ":".join(class_path), main, *arguments]


def stock_assignments(
    members: Sequence[str], topics: Sequence[str], partitions: int
) -> dict[str, dict[str, dict[str, list[int]]]]:
    """Ask Kafka's own assignors: strategy to member to topic to partitions.

    `cooperative-sticky` is what members come to that join one by one in the given order.
    """
    names = (",".join(members), ",".join(topics), str(partitions))
    command = java_command(None, "io.plimsoll.local.StockAssignments", *names)
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return msgspec.json.decode(answer.stdout, type=dict[str, dict[str, dict[str, list[int]]]])
