"""The whole loop at small size: real brokers, every part a process of its own."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from deploy.local.artifacts import fetch, plugin_jar
from deploy.local.cluster import LocalCluster
from deploy.local.committed import CommittedTopic, Record
from deploy.local.demo.stage import GROUP, Stage
from deploy.local.leash import Leash
from deploy.local.traffic import Traffic

if TYPE_CHECKING:
    from pathlib import Path

MEMBERS = ("c01", "c02", "c03")
SMALL = Traffic(seed=4, topics=2, partitions=6, rate_mb_s=0.4, keys=100)


class Loop:
    """A stage with what tests ask of it."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def wait(self, what: str, seconds: float, condition: Callable[[], Any]) -> Any:
        """Wait until a condition gives something true; fail naming what did not come about."""
        deadline = time.monotonic() + seconds
        while True:
            self.stage.watch.refresh()
            found = condition()
            if found:
                return found
            if time.monotonic() > deadline:
                pytest.fail(f"not within {seconds} s: {what}; logs in {self.stage.folder}")
            time.sleep(0.1)

    def get(self, page: str) -> tuple[int, str]:
        """Ask the agent's HTTP door; status 0 while nobody listens."""
        url = f"http://127.0.0.1:{self.stage.http_port}{page}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""
        except OSError:
            return 0, ""

    def plan(self) -> dict[str, Any]:
        """Give what the agent knows of the group; empty while it knows nothing."""
        status, body = self.get(f"/plan?group={GROUP}")
        shown: dict[str, Any] = json.loads(body) if status == 200 else {}
        return shown

    def reason(self) -> str:
        """Give the reason of the newest verdict."""
        return str(self.plan().get("decision", {}).get("reason"))

    def produce(self, topic: str, key: str, value: bytes | None) -> None:
        """Write one record."""
        producer = Producer({"bootstrap.servers": self.stage.cluster.bootstrap_servers})
        producer.produce(topic, value, key)
        assert producer.flush(20) == 0

    def targets(self) -> list[Record]:
        """Give the group's target records, as they stand on the control topic."""
        servers = self.stage.cluster.bootstrap_servers
        with closing(CommittedTopic(servers, "plimsoll.targets")) as topic:
            return [r for r in topic.refresh() if r.key == GROUP and r.value]

    def members_hold(self, target: dict[str, Any]) -> bool:
        """Tell whether every named member holds exactly what the target gives it."""
        members = self.stage.watch.members()
        return all(
            {(t, p) for t, ps in topics.items() for p in ps} == set(members.get(member, ()))
            for member, topics in target["assignment"].items()
        )

    def owned(self) -> list[tuple[str, int]]:
        """Give the partitions that living consumers own, each as often as it is owned."""
        members = self.stage.watch.members()
        living = [c for c, p in self.stage.consumers.items() if p.process.poll() is None]
        return sorted((p.topic, p.number) for c in living for p in members.get(c, ()))

    def all_owned(self) -> bool:
        """Tell whether each partition has exactly one owner."""
        traffic = self.stage.traffic
        return self.owned() == [
            (t, p) for t in self.stage.topics for p in range(traffic.partitions)
        ]

    def processed(self) -> int:
        """Count records processed so far."""
        return sum(run.records for run in self.stage.watch.history().runs)


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    """Start everything; three uncapped consumers on Kafka's range, the agent observes."""
    fetch("spark")
    folder: Path = tmp_path_factory.mktemp("loop")
    with LocalCluster() as cluster, Leash() as leash:
        stage = Stage(folder, SMALL, cluster, leash, plugin_jar())
        stage.create_topics()
        stage.start_load()
        stage.start_plimsoll()
        for member in MEMBERS:
            stage.start_consumer(member, capped=False)
        yield Loop(stage)
