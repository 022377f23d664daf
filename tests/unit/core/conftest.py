"""A world for the core: members that follow targets, loads that are measured, no Kafka."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agent import wire
from agent.core.events import Command, Nudge, Quarantine, Record, Tick, Write
from agent.core.state import State
from agent.core.step import step

START_MS = 1_800_000_000_000


class World:
    """One group `g` on topic `orders`; time moves by `tick`."""

    def __init__(self, loads: Sequence[float], members: Sequence[str] = ("c1", "c2", "c3")) -> None:
        self.state = State()
        self.now_ms = START_MS
        self.loads = list(loads)
        self.owned: dict[str, list[int]] = {m: [] for m in members}
        for partition in range(len(loads)):
            self.owned[members[partition % len(members)]].append(partition)
        self.follow = True
        self.written: list[Write] = []
        self.nudges: list[Nudge] = []
        self.quarantined: list[Quarantine] = []
        self.offsets: dict[str, int] = {}
        self.facts: dict[str, Any] = {}

    def record(self, topic: str, key: str, value: object) -> None:
        """Put one record in front of the core."""
        offset = self.offsets.get(topic, 0)
        self.offsets[topic] = offset + 1
        data = value if value is None or isinstance(value, bytes) else wire.encode(value)
        self.take(step(self.state, Record(self.now_ms, topic, key, data, offset)))

    def take(self, commands: list[Command]) -> None:
        """Carry commands out as the shell would."""
        for command in commands:
            if isinstance(command, Write):
                self.written.append(command)
                if isinstance(command.value, wire.Target):
                    self.record(wire.TARGETS, command.key, command.value)
                    if self.follow:
                        self.owned = {
                            m: topics.get("orders", [])
                            for m, topics in command.value.assignment.items()
                        }
            elif isinstance(command, Nudge):
                self.nudges.append(command)
            else:
                self.quarantined.append(command)

    def membership(self, **changed: Any) -> None:
        """Snapshot the group as it is."""
        self.facts.update(changed)
        facts: dict[str, Any] = {
            "group": "g",
            "assignor": "plimsoll",
            "state": "Stable",
            "members": [
                {
                    "stable_id": m,
                    "member_id": f"{m}-x",
                    "client_id": m,
                    "topics": ["orders"],
                    "owned": {"orders": owned},
                }
                for m, owned in sorted(self.owned.items())
            ],
            "topics": {"orders": {"partitions": len(self.loads)}},
        } | self.facts
        self.record(wire.MEMBERSHIP, "g", {"v": 1, "ms": self.now_ms, **facts})

    def measure(self, relative_error: float = 0.01, rows: Sequence[int] | None = None) -> None:
        """Measure the loads; `rows` limits which partitions have a rate."""
        rows = range(len(self.loads)) if rows is None else rows
        load = [self.loads[p] for p in rows]
        self.record(
            wire.PARTITION_LOAD,
            "orders#0",
            wire.PartitionLoad(
                ms=self.now_ms,
                topic="orders",
                window_s=60,
                partition=list(rows),
                bytes_per_s=load,
                bytes_per_s_stderr=[relative_error * x for x in load],
                records_per_s=[x / 100 for x in load],
                records_per_s_stderr=[relative_error * x / 100 for x in load],
                samples=[6] * len(load),
                samples_expected=6,
                confidence=["measured"] * len(load),
                reason=[None] * len(load),
            ),
        )

    def configure(self, key: str = "group/g", **spec: Any) -> None:
        """Write one config record."""
        self.record(wire.CONFIG, key, {"v": 1, "author": "a", "reason": "r", "spec": spec})

    def tick(self, seconds: float = 1.0) -> None:
        """Let time pass, then decide."""
        self.now_ms += round(seconds * 1000)
        self.take(step(self.state, Tick(self.now_ms)))

    def round(self, seconds: float = 10.0) -> None:
        """One round of what the collector and the pipeline do, then a tick."""
        self.now_ms += round(seconds * 1000) - 1
        self.measure()
        self.membership()
        self.tick(0.001)

    @property
    def targets(self) -> list[wire.Target]:
        """All targets written."""
        return [w.value for w in self.written if isinstance(w.value, wire.Target)]

    @property
    def verdicts(self) -> list[tuple[str, str]]:
        """All verdicts written, with their reasons."""
        decided = [w.value for w in self.written if isinstance(w.value, wire.Decision)]
        return [(d.verdict, d.reason) for d in decided]

    @property
    def last_decision(self) -> wire.Decision:
        """The newest verdict, written or not."""
        verdict = self.state.groups["g"].verdict
        assert verdict is not None
        return verdict

    def held(self) -> list[float]:
        """Load that each member holds, largest first."""
        return sorted((sum(self.loads[p] for p in ps) for ps in self.owned.values()), reverse=True)


@pytest.fixture
def world() -> Callable[..., World]:
    """Make worlds."""
    return World


@pytest.fixture
def uneven() -> World:
    """Twelve partitions in three members whose first member has nearly all the load."""
    return World([90, 1, 1, 80, 1, 1, 70, 1, 1, 60, 1, 1])


def _small_target(epoch: int, revision: int) -> wire.Target:
    return wire.Target(
        ms=1,
        epoch=epoch,
        revision=revision,
        plan_id="p",
        ttl_ms=1,
        mode="enforce",
        base=wire.Base(members=["c1"], partitions={"orders": 1}),
        assignment={"c1": {"orders": [0]}},
    )


@pytest.fixture(scope="session")
def a_target() -> Callable[[int, int], wire.Target]:
    """Make small targets of an epoch and a revision."""
    return _small_target
