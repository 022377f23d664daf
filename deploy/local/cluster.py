"""A real Kafka on loopback, without containers: three KRaft nodes in racks r1 to r3.

    with LocalCluster() as cluster:
        ...cluster.bootstrap_servers...

Each node is broker and controller, with a data folder of its own on free ports. `start` returns
when every broker answers and knows all the others. The nodes and their data are gone when the
owner is, however it ends (see `leash`); the logs stay in `build/logs`.
"""

import signal
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from deploy.local.leash import Leash
from deploy.local.node import Node, free_ports
from deploy.local.paths import BUILD

if TYPE_CHECKING:
    import subprocess

BROKER_IDS: Final = (1, 2, 3)
STORAGE_ID: Final = "UGxpbXNvbGxMb2NhbEthZg"
START_TIMEOUT_S: Final = 90.0
"""A start takes 6 to 10 s on two free cores; a machine that runs other tests needs longer."""

START_ATTEMPTS: Final = 3
"""Another process may take a port between our look and the broker's bind."""


class ClusterError(RuntimeError):
    """The local cluster did not do what was asked; the message names the log to read."""


class LocalCluster:
    """Three brokers, started and stopped together or one by one.

    `config` overrides settings of all brokers, `broker_config` those of single ones; `jvm` and
    `broker_jvm` add Java options. In all of them `{broker}` stands for the broker's id and
    `{port}` for a free port of its own, readable as `node(id).extra_port`; both also pass through
    JVM options such as `-javaagent:agent.jar={port}:rules.yaml`. `{client_port}` and
    `{controller_port}` serve to write `listeners` anew. Data goes to `folder`, or to a new one that
    is deleted at the end.
    """

    def __init__(
        self,
        *,
        config: Mapping[str, str] | None = None,
        broker_config: Mapping[int, Mapping[str, str]] | None = None,
        jvm: Sequence[str] = (),
        broker_jvm: Mapping[int, Sequence[str]] | None = None,
        folder: Path | None = None,
        log_level: str = "WARN",
    ) -> None:
        self._config = config or {}
        self._broker_config = broker_config or {}
        self._jvm = jvm
        self._broker_jvm = broker_jvm or {}
        self._given_folder = folder
        self._log_level = log_level
        self._leash = Leash()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._nodes: dict[int, Node] = {}
        self._admins: dict[str, AdminClient] = {}
        self.logs = Path()

    # -- life ---------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start all brokers and wait until each of them knows all."""
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        (BUILD / "logs").mkdir(parents=True, exist_ok=True)
        self.logs = Path(tempfile.mkdtemp(prefix=f"cluster-{stamp}-", dir=BUILD / "logs"))
        for attempts_left in reversed(range(START_ATTEMPTS)):
            try:
                self._start_once()
            except BaseException as error:
                port_taken = isinstance(error, ClusterError) and self._port_taken()
                self.stop()
                if not (port_taken and attempts_left):
                    raise
            else:
                break
        return self

    def stop(self) -> None:
        """Stop all brokers and delete their data, but not their logs. Idempotent."""
        self._leash.stop()
        self._processes.clear()
        self._admins.clear()

    def release(self) -> str:
        """Let the brokers outlive this process; return the token by which to end them later."""
        self._leash.release()
        return self._leash.token

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # -- what it is ---------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, running or not."""
        return ",".join(node.address for node in self._nodes.values())

    def node(self, broker: int) -> Node:
        """Return a broker's address, rack and extra port."""
        return self._nodes[broker]

    def pid(self, broker: int) -> int:
        """Return the process id of a broker."""
        return self._processes[broker].pid

    def running(self) -> list[int]:
        """Return the ids of the brokers whose process lives."""
        return [broker for broker, child in self._processes.items() if child.poll() is None]

    def admin(self) -> AdminClient:
        """Return an admin client of the cluster."""
        return self._admin(self.bootstrap_servers)

    # -- brokers one by one -------------------------------------------------------------------

    def kill_broker(self, broker: int, how: signal.Signals = signal.SIGKILL) -> None:
        """End one broker and wait for its end; SIGTERM makes it hand over its leaders first."""
        child = self._processes[broker]
        child.send_signal(how)
        child.wait(START_TIMEOUT_S)

    def start_broker(self, broker: int) -> None:
        """Start a broker that was killed, on its old data and ports; wait until it answers."""
        if broker in self.running():
            raise ClusterError(f"broker {broker} runs already")
        self._spawn(broker)
        self.wait_ready()

    # -- topics and waiting -------------------------------------------------------------------

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until every running broker answers and lists all the running ones."""
        expected = self.running()

        def ready() -> bool:
            dead = set(expected) - set(self.running())
            if dead:
                raise ClusterError(f"brokers {sorted(dead)} ended at start; see {self.logs}")
            return all(set(self._known_brokers(broker)) >= set(expected) for broker in expected)

        self._wait(ready, timeout_s, f"brokers {expected} do not all answer")

    def create_topic(
        self,
        name: str,
        partitions: int,
        *,
        replicas: int = 1,
        config: Mapping[str, str] | None = None,
        assignment: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Create a topic, with its replicas placed by hand or not; wait for leaders everywhere."""
        if assignment is None:
            topic = NewTopic(name, partitions, replicas, config=dict(config or {}))
        else:
            placed = [list(brokers) for brokers in assignment]
            topic = NewTopic(name, partitions, replica_assignment=placed, config=dict(config or {}))
        self.admin().create_topics([topic])[name].result(START_TIMEOUT_S)
        self.wait_topics([name])

    def wait_topics(self, topics: Collection[str], timeout_s: float = 30.0) -> None:
        """Wait until all running brokers agree on a leader for every partition of `topics`."""
        for topic in topics:
            self.wait_leaders(topic, lambda _: True, timeout_s)

    def wait_leaders(
        self, topic: str, accept: Callable[[Mapping[int, int]], bool], timeout_s: float = 30.0
    ) -> dict[int, int]:
        """Wait until all running brokers agree on leaders that `accept` takes; return them.

        `accept` sees partition to broker id, for instance to wait until a dead broker leads none.
        """
        agreed: dict[int, int] = {}

        def accepted() -> bool:
            first, *others = [self._leaders(topic, via=broker) for broker in self.running()]
            if first is None or any(leaders != first for leaders in others) or not accept(first):
                return False
            agreed.update(first)
            return True

        self._wait(accepted, timeout_s, f"the leaders of {topic} are not as expected")
        return agreed

    def move_leader(self, topic: str, partition: int) -> int:
        """Make the second replica of a partition its preferred leader and elect it; return its id.

        No broker stops; the replicas stay where they are.
        """
        from kafka import KafkaAdminClient  # noqa: PLC0415 -- extra `collect`, needed here only
        from kafka import TopicPartition as KafkaPartition  # noqa: PLC0415 -- same

        described = self.admin().list_topics(topic, timeout=10).topics[topic]
        first, second, *others = described.partitions[partition].replicas
        client = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        order = [second, first, *others]
        client.alter_partition_reassignments({KafkaPartition(topic, partition): order})
        client.close()

        def elected() -> bool:
            wanted = TopicPartition(topic, partition)
            with suppress(KafkaException):
                self.admin().elect_leaders(ElectionType.PREFERRED, [wanted]).result(10)
            leaders = self._leaders(topic, via=self.running()[0]) or {}
            return leaders.get(partition) == second

        self._wait(elected, 30.0, f"broker {second} does not lead {topic}-{partition}")
        self.wait_leaders(topic, lambda leaders: leaders[partition] == second)
        return second

    # -- inside -------------------------------------------------------------------------------

    def _start_once(self) -> None:
        """Choose ports, write configurations, format storage, start, wait."""
        folder = self._given_folder
        if folder is None:
            (BUILD / "clusters").mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(dir=BUILD / "clusters"))
            self._leash.delete_at_end(folder)
        ports = iter(free_ports(3 * len(BROKER_IDS)))
        self._nodes = {
            broker: Node(
                id=broker,
                client_port=next(ports),
                controller_port=next(ports),
                extra_port=next(ports),
                folder=folder / f"broker-{broker}",
                options=(*self._jvm, *self._broker_jvm.get(broker, ())),
            )
            for broker in BROKER_IDS
        }
        for broker, node in self._nodes.items():
            overrides = {**self._config, **self._broker_config.get(broker, {})}
            node.write_properties(list(self._nodes.values()), overrides)
        self._format()
        for broker in BROKER_IDS:
            self._spawn(broker)
        self.wait_ready()

    def _format(self) -> None:
        """Format the storage of all nodes at the same time."""
        formatters = {
            broker: self._leash.spawn(
                node.format_command(STORAGE_ID), output=self.logs / f"format-{broker}.log"
            )
            for broker, node in self._nodes.items()
        }
        failed = [broker for broker, child in formatters.items() if child.wait(START_TIMEOUT_S)]
        if failed:
            raise ClusterError(f"storage of brokers {failed} not formatted; see {self.logs}")

    def _spawn(self, broker: int) -> None:
        """Start one broker's process."""
        command = self._nodes[broker].broker_command(self._log_level)
        log = self.logs / f"broker-{broker}.log"
        self._processes[broker] = self._leash.spawn(command, output=log)

    def _admin(self, address: str) -> AdminClient:
        """Return the kept admin client of an address; it is silent about refused connections."""
        if address not in self._admins:
            self._admins[address] = AdminClient(
                {"bootstrap.servers": address, "reconnect.backoff.max.ms": 200, "log_level": 0}
            )
        return self._admins[address]

    def _known_brokers(self, via: int) -> list[int]:
        """Return the brokers that one of them lists; none when it does not answer."""
        try:
            return list(self._admin(self._nodes[via].address).list_topics(timeout=2).brokers)
        except KafkaException:
            return []

    def _leaders(self, topic: str, via: int) -> dict[int, int] | None:
        """Return partition to leader as one broker knows them; None when any is missing."""
        try:
            answer = self._admin(self._nodes[via].address).list_topics(topic, timeout=5)
        except KafkaException:
            return None
        described = answer.topics[topic]
        leaders = {number: part.leader for number, part in described.partitions.items()}
        if described.error is not None or not leaders or min(leaders.values()) < 0:
            return None
        return leaders

    def _wait(self, condition: Callable[[], bool], timeout_s: float, complaint: str) -> None:
        """Wait for a condition, asking often; raise with the complaint at the deadline."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise ClusterError(f"after {timeout_s:.0f} s {complaint}; see {self.logs}")
            time.sleep(0.05)

    def _port_taken(self) -> bool:
        """Say whether a broker's log complains of a port in use."""
        logs = (path.read_text(errors="replace") for path in self.logs.glob("broker-*.log"))
        return any("Address already in use" in text for text in logs)
