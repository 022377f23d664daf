"""What one node of the local cluster runs with: ports, settings, Java command."""

import random
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.local.artifacts import fetch
from deploy.local.paths import HERE

PORTS: Final = range(20_000, 32_000)
"""Below the ephemeral range, so that no outgoing connection takes a stopped broker's port."""

JVM_FLAGS: Final = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:-UsePerfData")

BROKER_DEFAULTS: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    # Retention must bite within a test, not within minutes.
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
}


@dataclass(frozen=True, slots=True)
class Node:
    """One combined broker and controller of the local cluster."""

    id: int
    client_port: int
    controller_port: int
    extra_port: int
    folder: Path
    options: tuple[str, ...]
    """Additional Java options, for instance an agent."""

    @property
    def address(self) -> str:
        """Where clients reach it."""
        return f"127.0.0.1:{self.client_port}"

    @property
    def rack(self) -> str:
        """The rack it says it stands in."""
        return f"r{self.id}"

    @property
    def properties(self) -> Path:
        """Its configuration file."""
        return self.folder / "server.properties"

    def write_properties(self, voters: Sequence["Node"], overrides: Mapping[str, str]) -> None:
        """Write the configuration file; `voters` are all nodes of the cluster."""
        client = f"PLAINTEXT://{self.address}"
        settings = {
            **BROKER_DEFAULTS,
            "node.id": str(self.id),
            "broker.rack": self.rack,
            "controller.quorum.voters": ",".join(
                f"{node.id}@127.0.0.1:{node.controller_port}" for node in voters
            ),
            "listeners": f"{client},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": client,
            "log.dirs": str(self.folder / "data"),
            **overrides,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = (f"{key}={self._filled(value)}\n" for key, value in settings.items())
        self.properties.write_text("".join(lines))

    def broker_command(self, log_level: str) -> list[str]:
        """Return the command that runs the broker."""
        options = [self._filled(option) for option in self.options]
        return [*_java(log_level), *options, "kafka.Kafka", str(self.properties)]

    def format_command(self, storage_id: str) -> list[str]:
        """Return the command that formats the storage; formatted storage is left as it is."""
        arguments = ("format", "--ignore-formatted", "-t", storage_id, "-c", str(self.properties))
        return [*_java("WARN"), "-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", *arguments]

    def _filled(self, text: str) -> str:
        """Put the node's id and ports where a value asks for them."""
        known = {
            "{broker}": self.id,
            "{port}": self.extra_port,
            "{client_port}": self.client_port,
            "{controller_port}": self.controller_port,
        }
        for name, value in known.items():
            text = text.replace(name, str(value))
        return text


def _java(log_level: str) -> list[str]:
    """Return the start of a command that runs a class of Kafka."""
    return [
        "java",
        *JVM_FLAGS,
        f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}",
        f"-Dplimsoll.log.level={log_level}",
        "-cp",
        f"{fetch('kafka')}/*",
    ]


def free_ports(count: int) -> list[int]:
    """Return distinct ports on loopback that nobody listens on now."""
    ports: list[int] = []
    candidates = random.sample(PORTS, len(PORTS))
    while len(ports) < count:
        port = candidates.pop()
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            ports.append(port)
    return ports
