"""A Streams application of several processes, Plimsoll beside it, and a witness of every count."""

import json
import random
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from deploy.local.artifacts import streams_jars
from deploy.local.cluster import LocalCluster
from deploy.local.committed import CommittedTopic, Record
from deploy.local.leash import Leash
from deploy.local.node import free_ports
from deploy.local.streams import Instance, start_instance

APPLICATION: Final = "counting"
WORDS: Final = "words"
COUNTS: Final = "counts"
PARTITIONS: Final = 8
STATE: Final = f"{APPLICATION}-counts-changelog"
ROUND = re.compile(r"\[(.+?)\] INFO assign (.+) \(io\.plimsoll\.streams\.PlimsollTaskAssignor\)")

SETTINGS: Final = {
    "num.standby.replicas": "1",
    # So few that a process without a task's state is never good enough to run it at once.
    "acceptable.recovery.lag": "100",
    "topology.optimization": "none",
}

Placement = dict[str, set[str]]
"""Instance to tasks."""


class Speaker:
    """Produces words without pause and counts how many of each the brokers have taken."""

    WORDS_PER_S = 400

    def __init__(self, servers: str) -> None:
        self.produced: Counter[str] = Counter()
        self.failures: list[str] = []
        self._producer = Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20}
        )
        self._silence = threading.Event()
        self._thread = threading.Thread(target=self._speak, daemon=True)

    def start(self) -> None:
        """Begin to produce."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait until every word is known to be taken."""
        self._silence.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def _speak(self) -> None:
        """Produce at the given rate; frequencies of words fall off as in a language."""
        seeded = random.Random(6)
        vocabulary = [f"word-{rank}" for rank in range(200)]
        weights = [1 / (rank + 1) for rank in range(200)]
        while not self._silence.wait(0.05):
            for word in seeded.choices(vocabulary, weights, k=self.WORDS_PER_S // 20):
                self._producer.produce(WORDS, b"1", word, on_delivery=self._delivered)
            self._producer.poll(0)

    def _delivered(self, error: object, message: Any) -> None:
        if error is None:
            self.produced[message.key().decode()] += 1
        else:
            self.failures.append(str(error))


@dataclass(frozen=True, slots=True)
class Round:
    """One rebalance, as its leader logged it."""

    ms: int
    leader: str
    said: dict[str, str]


class Story:
    """Everything that runs, and what can be seen of it from outside."""

    def __init__(self, folder: Path, cluster: LocalCluster, leash: Leash) -> None:
        self.folder = folder
        self.cluster = cluster
        self.servers = cluster.bootstrap_servers
        self.leash = leash
        self.instances: dict[str, Instance] = {}
        self.agent: subprocess.Popen[bytes] | None = None
        self.http_port = free_ports(1)[0]
        self._readers: dict[str, CommittedTopic] = {}
        # Copies, so that a build of the plugin meanwhile does not touch what runs.
        self._jars = [Path(shutil.copy(jar, folder)) for jar in streams_jars()]
        self._plimsoll("topics", "create").wait(120)
        for topic in (WORDS, COUNTS):
            cluster.create_topic(topic, PARTITIONS, replicas=3)
        self.speaker = Speaker(self.servers)

    # -- what runs ----------------------------------------------------------------------------

    def _plimsoll(self, *words: str) -> subprocess.Popen[bytes]:
        command = str(Path(sys.executable).with_name("plimsoll"))
        full = [command, *words, "--bootstrap-server", self.servers]
        return self.leash.spawn(full, output=self.folder / f"{words[0]}.log")

    def start_collector(self) -> None:
        """Start the collector, which must leave the application's own record alone."""
        self._plimsoll("collect")

    def start_agent(self) -> None:
        """Start the agent; without the pipeline each task counts one."""
        self.agent = self._plimsoll("agent", "--http-port", str(self.http_port))

    def start(self, name: str, rack: str) -> None:
        """Start an instance, or start it again on what it left on its disk."""
        self.instances[name] = start_instance(
            self.leash,
            self.folder / "instances",
            name,
            bootstrap_servers=self.servers,
            application=APPLICATION,
            topics=(WORDS, COUNTS),
            jars=self._jars,
            settings={**SETTINGS, "client.rack": rack},
        )

    def living(self) -> set[str]:
        """Name the instances whose process runs."""
        return {n for n, instance in self.instances.items() if instance.process.poll() is None}

    def kill(self, name: str) -> None:
        """End an instance by SIGKILL and see it gone."""
        self.instances[name].process.kill()
        self.instances[name].process.wait(20)

    def produce(self, topic: str, key: str, value: bytes) -> None:
        """Write one record."""
        producer = Producer({"bootstrap.servers": self.servers})
        producer.produce(topic, value, key)
        assert producer.flush(20) == 0

    # -- what is seen -------------------------------------------------------------------------

    def wait(self, what: str, seconds: float, condition: Callable[[], Any]) -> Any:
        """Wait until a condition gives something true; fail naming what did not come about."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > deadline:
                pytest.fail(f"not within {seconds} s: {what}; logs in {self.folder}")
            time.sleep(0.1)
        return found

    def read(self, topic: str) -> Sequence[Record]:
        """Give all committed records of a topic."""
        if topic not in self._readers:
            self._readers[topic] = CommittedTopic(self.servers, topic)
        return self._readers[topic].refresh()

    def states(self) -> list[dict[str, Any]]:
        """Give the states that the plugin published, oldest first."""
        records = self.read("plimsoll.membership")
        return [r.json() for r in records if r.key == APPLICATION]

    def targets(self) -> list[dict[str, Any]]:
        """Give the application's targets, oldest first."""
        return [r.json() for r in self.read("plimsoll.targets") if r.key == APPLICATION]

    def rounds(self) -> list[Round]:
        """Give all rebalances, oldest first."""
        found = []
        for name, instance in self.instances.items():
            for when, words in ROUND.findall(instance.log.read_text(errors="replace")):
                said = dict(word.split("=", 1) for word in words.split())
                ms = datetime.strptime(when, "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp() * 1e3
                found.append(Round(int(ms), name, said))
        return sorted(found, key=lambda r: r.ms)

    def owned(self) -> Placement:
        """Give the tasks that each instance runs, by what the group's coordinator knows of it.

        The topology has one part, so that the task of partition p is 0_p.
        """
        asked = self.cluster.admin().describe_consumer_groups([APPLICATION])
        owned: Placement = {}
        for member in asked[APPLICATION].result(20).members:
            name = member.client_id.partition("-StreamThread-")[0]
            partitions = member.assignment.topic_partitions if member.assignment else []
            owned[name] = {f"0_{p.partition}" for p in partitions if p.topic == WORDS}
        return owned

    def all_owned(self) -> bool:
        """Tell whether the living instances, and only they, run the tasks, each task once."""
        owned = self.owned()
        tasks = sorted(task for share in owned.values() for task in share)
        every = sorted(f"0_{p}" for p in range(PARTITIONS))
        return set(owned) == self.living() and tasks == every

    def keeps_up(self, seconds: float) -> None:
        """Wait until all that is produced by now is counted."""
        goal = self.speaker.produced.total()
        self.wait(f"{goal} words are counted", seconds, lambda: len(self.read(COUNTS)) >= goal)

    def reason(self) -> str:
        """Give the reason of the agent's newest verdict on the application."""
        url = f"http://127.0.0.1:{self.http_port}/plan?group={APPLICATION}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return str(json.load(answer).get("decision", {}).get("reason"))
        except OSError:
            return ""

    def close(self) -> None:
        """Close the readers."""
        for reader in self._readers.values():
            reader.close()


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Start brokers and agent; the application comes with the first test."""
    folder = tmp_path_factory.mktemp("streams")
    (folder / "instances").mkdir()
    # What an instance left open when it was killed is given up within a second of its timeout.
    config = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}
    with LocalCluster(config=config) as cluster, Leash() as leash:
        story = Story(folder, cluster, leash)
        story.start_collector()
        story.start_agent()
        story.speaker.start()
        yield story
        story.close()
