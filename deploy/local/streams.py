"""Instances of a real Kafka Streams application, each a process of its own.

The application counts the records of each key, exactly once (`io.plimsoll.streams.WordCount`). It
knows nothing of Plimsoll: the plugin's jars are on the class path and its class is named as
`task.assignor.class`.
"""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.local.artifacts import fetch
from deploy.local.consumers import CLIENT_JARS
from deploy.local.leash import Leash
from deploy.local.paths import HERE

STATE_JARS: Final = (
    "jackson-annotations-2.21.jar",
    "jackson-core-2.21.2.jar",
    "jackson-databind-2.21.2.jar",
)
"""Streams keeps its process id as JSON in the state folder."""

JVM_FLAGS: Final = (
    "-Xms32m",
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Xss512k",
)

DEFAULTS: Final[Mapping[str, str]] = {
    # The dead are missed after this long, and a rebalance reaches everyone within a heartbeat.
    "heartbeat.interval.ms": "500",
    "session.timeout.ms": "6000",
    # The open transaction of a killed instance holds back readers and restores for this long.
    "producer.transaction.timeout.ms": "5000",
    # One output record for each input record: what was counted can be audited record by record.
    "statestore.cache.max.bytes": "0",
    "enable.metrics.push": "false",
}


@dataclass(frozen=True, slots=True)
class Instance:
    """One running instance."""

    name: str
    log: Path
    process: subprocess.Popen[bytes]


def start_instance(
    leash: Leash,
    folder: Path,
    name: str,
    *,
    bootstrap_servers: str,
    application: str,
    topics: tuple[str, str],
    jars: Sequence[Path],
    settings: Mapping[str, str],
) -> Instance:
    """Start one instance that reads the first topic and writes the second; `name` is its id."""
    libraries = [fetch("kafka") / jar for jar in (*CLIENT_JARS, *STATE_JARS)]
    class_path = [*jars, *sorted(fetch("streams").glob("*.jar")), *libraries]
    command = [
        "java",
        *JVM_FLAGS,
        f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}",
        "-Dplimsoll.log.level=INFO",
        *("-cp", ":".join(str(jar) for jar in class_path), "io.plimsoll.streams.WordCount"),
        *(bootstrap_servers, application, name, str(folder / name), *topics),
        *(f"{key}={value}" for key, value in {**DEFAULTS, **settings}.items()),
    ]
    log = folder / f"{name}.log"
    return Instance(name, log, leash.spawn(command, output=log))
