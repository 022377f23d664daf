"""The phases of the demo: observe an uneven group, switch to enforce, lose and gain a consumer.

What happened is only noted here (`Notes`); what it means is worked out afterwards from journals
and truth (`report`). Every wait has a deadline; a phase that does not come about ends the run.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Producer

from deploy.local.committed import CommittedTopic
from deploy.local.demo.stage import CONSUMERS, GROUP, Stage
from deploy.local.history import coverage

WARM_P95_MS_MAX: Final = 700
"""Java consumers are warm when each one's p95 latency is below this."""

WARM_S: Final = 12.0
BEFORE_S: Final = 20.0
"""Lag grows in it and has to be worked off with a quarter of the capacity afterwards."""

AFTER_S: Final = 30.0
DRAINED_P95_MS_MAX: Final = 1_000
"""The backlog is worked off when no consumer's p95 latency is above this."""


CHANGED_S: Final = 15.0
PROGRESS_S: Final = 5.0

ENFORCE: Final[Mapping[str, Any]] = {
    "v": 1,
    "author": "demo",
    "reason": "make the group level",
    # A first levelling moves most of the load at once; the default budget spreads it over hours.
    # The band is narrow, so that the backlog is gone within the few minutes that a demo has, and
    # a joiner is levelled in while one watches.
    "spec": {
        "mode": "enforce",
        "imbalance_enter": 0.06,
        "imbalance_solve": 0.02,
        "moves_per_hour_max": 1_000,
        "moved_load_share_per_hour_max": 10.0,
        "cooldown_s": 5,
    },
}


class DemoError(RuntimeError):
    """A phase did not come about; the message says which and where to read why."""


@dataclass
class Notes:
    """When what happened, epoch ms, and the records that were seen."""

    started_ms: int
    phases: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Measured windows: `before`, `after`, `killed`, `joined`."""
    enforced_ms: int = 0
    target: dict[str, Any] = field(default_factory=dict)
    target_ms: int = 0
    drained_ms: int = 0
    killed_ms: int = 0
    killed: str = ""
    joined_ms: int = 0
    joined: str = ""
    decisions: list[dict[str, Any]] = field(default_factory=list)
    decision_ms: float | None = None
    """How long the agent took to compute the target, as it says itself."""
    finished_ms: int = 0


def decision_ms_of(log: Iterable[str], revision: int) -> float | None:
    """Read from the agent's log how long the step took that decided a target of the group."""
    for line in log:
        told = json.loads(line) if line.startswith("{") else {}
        found = [told.get(name) for name in ("event", "group", "verdict", "revision")]
        if found == ["decision", GROUP, "publish", revision]:
            return float(told["step_ms"])
    return None


class Run:
    """One run of the demo on a stage; `phase` methods in the order of the story."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.notes = Notes(now_ms())
        self._told = 0.0

    def play(self) -> Notes:
        """Play all phases; return what was noted."""
        self.set_up()
        self.warm_up()
        self.before()
        self.enforce()
        self.after()
        self.kill_and_add()
        self.finish()
        return self.notes

    # -- phases -------------------------------------------------------------------------------

    def set_up(self) -> None:
        """Start everything: Plimsoll, the load, twelve consumers."""
        stage = self.stage
        self.say(f"cluster of three brokers up at {stage.cluster.bootstrap_servers}")
        stage.create_topics()
        stage.start_plimsoll()
        for number in range(1, CONSUMERS + 1):
            stage.start_consumer(f"c{number:02d}", capped=False)
        self.wait("twelve consumers join", 120, self._all_joined)
        stage.start_load()

    def warm_up(self) -> None:
        """Let the Java consumers compile, unlimited, until each of them keeps up easily."""
        started = time.monotonic()

        def warm() -> bool:
            if time.monotonic() - started < WARM_S or not self._all_joined():
                return False
            return self._slowest_ms() < WARM_P95_MS_MAX

        self.wait("consumers warm up, without limit", 120, warm)
        with closing(CommittedTopic(self._servers, "plimsoll.partition-load")) as loads:

            def measured() -> bool:
                topics = {record.key.rpartition("#")[0] for record in loads.refresh()}
                return topics >= set(self.stage.topics)

            self.wait("the pipeline measures every topic", 180, measured)

    def before(self) -> None:
        """Limit the consumers; measure the group as Kafka's default strategy leaves it."""
        self.stage.set_caps(self.stage.cap_bytes_per_s)
        start = now_ms() + 2_000  # the bursts that the limit allows are used up
        self.wait_until(start + int(BEFORE_S * 1e3), "before: range, the agent observes")
        self.notes.phases["before"] = start, now_ms()

    def enforce(self) -> None:
        """Write the one record; wait until the group has worked off its backlog."""
        notes = self.notes
        notes.enforced_ms = self._write_config(ENFORCE)
        with closing(CommittedTopic(self._servers, "plimsoll.targets")) as targets:

            def published() -> bool:
                for record in targets.refresh():
                    if record.key == GROUP and record.value and record.ms >= notes.enforced_ms:
                        notes.target, notes.target_ms = record.json(), record.ms
                        return True
                return False

            self.wait("enforce: the agent publishes a target", 60, published)
        self.wait("enforce: the group follows the target", 60, self._follows_target)
        self.wait("the backlog shrinks", 150, lambda: self._slowest_ms() < DRAINED_P95_MS_MAX)
        notes.drained_ms = now_ms()

    def after(self) -> None:
        """Measure the level group."""
        start = now_ms()
        self.wait_until(start + int(AFTER_S * 1e3), "after: level")
        self.notes.phases["after"] = start, now_ms()

    def kill_and_add(self) -> None:
        """Kill a consumer, later add another one; measure the group after each."""
        notes, stage = self.notes, self.stage
        notes.killed = "c05"
        stage.watch.refresh()
        orphans = stage.watch.members()[notes.killed]
        notes.killed_ms = now_ms()
        stage.consumers[notes.killed].process.kill()

        def taken_over() -> bool:
            living = {**stage.watch.members(), notes.killed: frozenset()}
            return orphans <= frozenset().union(*living.values())

        self.wait(f"{notes.killed} is killed; the others take over", 60, taken_over)
        self._measure("killed", "eleven consumers")
        notes.joined = f"c{CONSUMERS + 1:02d}"
        notes.joined_ms = now_ms()
        stage.start_consumer(notes.joined, capped=True)
        self.wait(
            f"{notes.joined} joins", 60, lambda: bool(stage.watch.members().get(notes.joined))
        )
        self._measure("joined", "twelve again")

    def finish(self) -> None:
        """Stop the load, let the consumers read to the end, read the agent's decisions."""
        stage = self.stage
        stage.stop_load()
        stage.set_caps(0.0)
        self.wait("consumers read to the end", 60, self._all_read)
        self.notes.finished_ms = now_ms()
        log = (stage.folder / "agent.log").read_text().splitlines()
        self.notes.decision_ms = decision_ms_of(log, self.notes.target["revision"])
        with closing(CommittedTopic(self._servers, "plimsoll.decisions")) as decisions:
            self.notes.decisions = [r.json() for r in decisions.refresh() if r.key == GROUP]

    # -- conditions ---------------------------------------------------------------------------

    def _all_joined(self) -> bool:
        """Say whether all consumers are members and every partition has an owner."""
        members = self.stage.watch.members()
        owned = [partitions for partitions in members.values() if partitions]
        total = self.stage.traffic.topics * self.stage.traffic.partitions
        return len(owned) == CONSUMERS and sum(map(len, owned)) == total

    def _slowest_ms(self) -> float:
        """Return the largest p95 latency of a consumer in the last seconds."""
        return self.stage.watch.slowest_p95_ms(list(self.stage.consumers), now_ms() - 3_000)

    def _follows_target(self) -> bool:
        """Say whether every member holds what the newest target gives it."""
        wanted = {
            client: {(topic, n) for topic, numbers in topics.items() for n in numbers}
            for client, topics in self.notes.target["assignment"].items()
        }
        members = self.stage.watch.members()
        return all(set(members.get(client, ())) == part for client, part in wanted.items())

    def _all_read(self) -> bool:
        produced = self.stage.watch.truth().produced_records
        seen = coverage(self.stage.watch.history())
        return seen.processed - seen.redelivered >= produced

    # -- doing --------------------------------------------------------------------------------

    def wait(self, what: str, timeout_s: float, condition: Callable[[], bool]) -> None:
        """Wait for a condition, telling how the group does meanwhile."""
        deadline = time.monotonic() + timeout_s
        self.say(what)
        while not self._refreshed(condition):
            if time.monotonic() > deadline:
                raise DemoError(f"not within {timeout_s:.0f} s: {what}; see {self.stage.folder}")
            self._tell(what)
            time.sleep(0.25)

    def wait_until(self, end_ms: int, what: str) -> None:
        """Let a measured window pass."""
        self.wait(what, (end_ms - now_ms()) / 1e3 + 30, lambda: now_ms() >= end_ms)

    def _measure(self, name: str, what: str) -> None:
        start = now_ms()
        self.wait_until(start + int(CHANGED_S * 1e3), what)
        self.notes.phases[name] = start, now_ms()

    def _refreshed(self, condition: Callable[[], bool]) -> bool:
        self.stage.watch.refresh()
        return condition()

    def _tell(self, what: str) -> None:
        """Print the progress line now and then."""
        if time.monotonic() - self._told >= PROGRESS_S:
            self.say(f"{what}: {self.stage.watch.state_line(now_ms())}")

    def say(self, text: str) -> None:
        """Print a line with the time since the start."""
        self._told = time.monotonic()
        elapsed_s = (now_ms() - self.notes.started_ms) / 1e3
        print(f"[{elapsed_s:5.0f} s] {text}", file=sys.stderr, flush=True)
        dead = self.stage.dead()
        if dead:
            raise DemoError(f"{', '.join(dead)} ended by itself; see {self.stage.folder}")

    def _write_config(self, record: Mapping[str, Any]) -> int:
        """Write the group's record on plimsoll.config; return its time."""
        written: list[int] = []
        producer = Producer({"bootstrap.servers": self._servers, "log_level": 3})
        producer.produce(
            "plimsoll.config",
            json.dumps(record).encode(),
            f"group/{GROUP}".encode(),
            on_delivery=lambda _, message: written.append(message.timestamp()[1]),
        )
        if producer.flush(30) or not written:
            raise DemoError("plimsoll.config does not take the record")
        return written[0]

    @property
    def _servers(self) -> str:
        return self.stage.cluster.bootstrap_servers


def now_ms() -> int:
    """Return the time, epoch ms."""
    return time.time_ns() // 1_000_000
