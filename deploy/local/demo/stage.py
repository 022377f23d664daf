"""The processes of the demo: cluster, load, consumers, and Plimsoll itself by its command."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deploy.local.cluster import LocalCluster
from deploy.local.consumers import ConsumerProcess, start_consumer
from deploy.local.demo.watch import Watch
from deploy.local.leash import Leash
from deploy.local.load import create_topics
from deploy.local.node import free_ports
from deploy.local.traffic import Traffic

GROUP: Final = "harbour"
CONSUMERS: Final = 12
CAPACITY: Final = 1.25
"""What one consumer can process, as a multiple of the mean load."""

APPLICATIONS_NICENESS: Final = 5
"""Producer and consumers yield to brokers and agent; in production they share no cores."""

SPARK_NICENESS: Final = 10
"""Spark yields to all: its batches would take both cores just when the agent decides."""

SETTINGS: Final = {
    "partition.assignment.strategy": "io.plimsoll.PlimsollAssignor",
    "plimsoll.fallback": "org.apache.kafka.clients.consumer.RangeAssignor",
}
"""All that an adopter changes, and the plugin's jar on the class path."""


@dataclass
class Stage:
    """Everything that runs, on one leash."""

    folder: Path
    traffic: Traffic
    cluster: LocalCluster
    leash: Leash
    plugin: Path
    """The jar that consumers have on their class path; built once, so that all run the same."""
    watch: Watch = field(init=False)
    consumers: dict[str, ConsumerProcess] = field(default_factory=dict)
    services: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    """Load, collector, pipeline and agent: what has to live until it is stopped."""
    http_port: int = field(default_factory=lambda: free_ports(1)[0])

    def __post_init__(self) -> None:
        self.watch = Watch(self.folder / "truth.jsonl")

    @property
    def topics(self) -> list[str]:
        """The topics of the load."""
        return self.traffic.topic_names("cargo")

    @property
    def cap_bytes_per_s(self) -> float:
        """What each consumer can process."""
        return CAPACITY * self.traffic.rate_mb_s * 1e6 / CONSUMERS

    def create_topics(self) -> None:
        """Create Plimsoll's own topics and those of the load."""
        command = _plimsoll("topics", "create", "--bootstrap-server", self._servers)
        log = self.folder / "topics-create.log"
        created = self.leash.spawn(command, output=log)
        if created.wait(120):
            raise RuntimeError(f"plimsoll topics create failed; see {log}")
        create_topics(self._servers, self.topics, self.traffic.partitions)
        self.cluster.wait_topics(self.topics)

    def start_plimsoll(self) -> None:
        """Start collector, pipeline and agent, each as its own process."""
        for name in ("collect", "pipeline", "agent"):
            self.start_service(name)

    def start_service(self, name: str) -> None:
        """Start one of Plimsoll's processes by its name; the agent takes the stage's HTTP port."""
        state = self.folder / "pipeline"
        words = {
            "collect": ("collect",),
            "pipeline": (
                *("pipeline", "run"),
                *("--checkpoint", str(state / "checkpoint"), "--lake", str(state / "lake")),
            ),
            "agent": ("agent", "--http-port", str(self.http_port)),
        }[name]
        command = _plimsoll(*words, "--bootstrap-server", self._servers)
        service = self.leash.spawn(command, output=self.folder / f"{name}.log")
        if name == "pipeline":
            lower_priority(service.pid, SPARK_NICENESS)
        self.services[name] = service

    def start_load(self) -> None:
        """Start the load generator."""
        fields = ("seed", "topics", "partitions", "rate_mb_s", "keys", "key_exponent")
        options = [
            word
            for name in fields
            for word in (f"--{name.replace('_', '-')}", str(getattr(self.traffic, name)))
        ]
        command = [
            *(sys.executable, "-m", "deploy.local.load", "--bootstrap-server", self._servers),
            *("--topic-prefix", "cargo", "--truth", str(self.watch.truth_path), *options),
        ]
        load = self.leash.spawn(command, output=self.folder / "load.log")
        lower_priority(load.pid, APPLICATIONS_NICENESS)
        self.services["load"] = load

    def stop_load(self) -> None:
        """Stop the load generator, which first flushes what it has."""
        load = self.services.pop("load")
        load.terminate()
        load.wait(60)

    def start_consumer(self, client_id: str, *, capped: bool) -> None:
        """Start one ordinary consumer of the group."""
        cap = self.cap_bytes_per_s if capped else 0.0
        consumer = start_consumer(
            self.leash,
            self.folder / "consumers",
            client_id,
            bootstrap_servers=self._servers,
            group=GROUP,
            topics=self.topics,
            settings={**SETTINGS, "app.cap.bytes.per.s": str(cap)},
            plugin=self.plugin,
        )
        lower_priority(consumer.process.pid, APPLICATIONS_NICENESS)
        self.consumers[client_id] = consumer
        self.watch.add_consumer(consumer.journal)

    def set_caps(self, bytes_per_s: float) -> None:
        """Limit what every living consumer can process; 0 lifts the limit."""
        for consumer in self.consumers.values():
            if consumer.process.poll() is None:
                consumer.set_cap(bytes_per_s)

    def dead(self) -> list[str]:
        """Return the names of processes that ended although nobody asked them to."""
        return [name for name, service in self.services.items() if service.poll() is not None]

    @property
    def _servers(self) -> str:
        return self.cluster.bootstrap_servers


def _plimsoll(*words: str) -> list[str]:
    """Return the command line of one of Plimsoll's verbs, as its users would type it."""
    return [str(Path(sys.executable).with_name("plimsoll")), *words]


def lower_priority(session: int, niceness: int) -> None:
    """Let a session of processes, by the id of its leader, yield to all others."""
    os.setpriority(os.PRIO_PROCESS, session, niceness)
    # Where Linux groups sessions, niceness counts within the group only, and the group has its own.
    group = Path(f"/proc/{session}/autogroup")
    while True:
        try:
            group.write_text(str(niceness))
        except BlockingIOError:  # Linux takes ten of these a second
            time.sleep(0.1)
        except OSError:
            return
        else:
            return
