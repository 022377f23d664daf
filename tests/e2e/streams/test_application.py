"""A Streams application under Plimsoll. The tests tell one story and run in this order."""

import itertools
import json
import signal
import struct
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pytest

from agent import wire

Story = Any
State = Mapping[str, Any]

ENFORCE = {
    "v": 1,
    "author": "test",
    "reason": "follow the plan",
    "spec": {"mode": "enforce", "cooldown_s": 5},
}
PARTITIONS = 8
RUNNING, UNKNOWN = -2, -3  # what Streams reports in a lag's place
NEVER = 2**63  # more than any lag
RACKS = {"count-1": "r1", "count-2": "r2", "count-3": "r3", "count-4": "r1"}


@pytest.fixture(scope="module", autouse=True)
def _story_goes_on(story: Story) -> None:
    """Have brokers and agent up before the first test, so that its time is not a test's."""
    assert story.agent


@pytest.mark.timeout(180)
def test_three_instances_share_the_tasks(story: Story) -> None:
    """They run every task between them, publish their state, and the agent only looks on."""
    for name in ("count-1", "count-2", "count-3"):
        story.start(name, RACKS[name])
    story.wait("all run tasks", 90, lambda: story.all_owned() and all(story.owned().values()))
    story.wait("their state is published", 60, lambda: _published(story) == story.living())
    story.keeps_up(60)

    assert {state["kind"] for state in story.states()} == {"streams"}
    story.wait("the agent has judged it", 60, lambda: story.reason() in {"observe", "level"})
    assert story.targets() == []


@pytest.mark.timeout(240)
def test_a_fourth_instance_is_given_its_share(story: Story) -> None:
    """The agent plans for four; the application goes there by itself, warm copies first."""
    story.produce("plimsoll.config", "group/counting", json.dumps(ENFORCE).encode())
    story.start("count-4", RACKS["count-4"])
    story.wait("a target for four", 90, lambda: _newest_members(story) == 4)
    target = story.wait("the application is where the target says", 120, lambda: _followed(story))
    last = story.rounds()[-1]

    assert (last.said["how"], last.said["plan"]) == ("target", target["plan_id"])
    assert last.said["complete"] == "true"
    assert story.owned()["count-4"]
    assert _cold_moves(story.states()) == []
    story.keeps_up(30)


@pytest.mark.timeout(180)
def test_a_quiet_application_takes_up_a_new_target(story: Story) -> None:
    """Nobody joins or leaves when loads become known; the next follow-up brings the new plan."""
    heavy = next(set(sorted(share)[:2]) for share in story.owned().values() if len(share) > 1)
    loads = _loads(heavy)
    story.produce("plimsoll.partition-load", "words#0", wire.encode(loads))

    def apart() -> bool:
        shares = story.owned().values()
        return bool(_followed(story)) and all(len(share & heavy) < 2 for share in shares)

    story.wait("the heavy tasks run apart, as the target says", 150, apart)
    since = [r for r in story.rounds() if r.ms >= loads.ms]

    assert {r.said["processes"] for r in since} == {"4"}
    assert _cold_moves(story.states()) == []
    story.keeps_up(30)


@pytest.mark.timeout(120)
def test_a_killed_instance_is_replaced(story: Story) -> None:
    """After SIGKILL the others run its tasks from the copies they have."""
    victim = min(story.living() - {story.rounds()[-1].leader})
    story.kill(victim)
    story.wait("the others run all tasks", 60, story.all_owned)
    story.keeps_up(60)

    assert _cold_moves(story.states()) == []


@pytest.mark.timeout(150)
def test_application_goes_on_without_the_agent(story: Story) -> None:
    """With the agent stopped it counts on, and takes in an instance that comes back."""
    story.agent.send_signal(signal.SIGTERM)
    assert story.agent.wait(30) == 0
    (dead,) = set(story.instances) - story.living()
    story.start(dead, RACKS[dead])
    # Which others run none is the target's business.
    story.wait("the returned one runs tasks", 90, lambda: story.all_owned() and story.owned()[dead])
    story.keeps_up(30)

    assert story.rounds()[-1].said["how"] in {"target", "repaired"}


@pytest.mark.timeout(150)
def test_garbage_on_the_control_topic_stops_nobody(story: Story) -> None:
    """A new leader reads the garbage from its beginning and still finds the last good target."""
    good = story.targets()[-1]
    twice = {"count-1": {"active": ["0_0"]}, "count-3": {"active": ["0_0"]}}
    worse = {**good, "revision": good["revision"] + 1, "streams": {"assignment": twice}}
    texts = [b"\x00\xff", b"{", b'{"v":9}', b"[]" * 500, json.dumps(worse).encode()]
    for garbage in texts:
        story.produce("plimsoll.targets", "counting", garbage)
    leader = story.rounds()[-1].leader
    story.kill(leader)
    story.wait("the others run all tasks", 60, story.all_owned)
    story.wait("a new leader follows the good target", 60, lambda: _leads_by(story, leader, good))
    story.keeps_up(60)


@pytest.mark.timeout(90)
def test_every_word_was_counted_exactly_once(story: Story) -> None:
    """Each word's counts are 1, 2, 3, up to what was produced; the state ends at the same."""
    story.speaker.stop()
    story.keeps_up(60)
    counts = defaultdict(list)
    for record in story.read("counts"):
        counts[record.key].append(int(record.value))
    state = {
        r.key: struct.unpack(">q", r.value)[0] for r in story.read("counting-counts-changelog")
    }

    assert story.speaker.failures == []
    assert {word: len(seen) for word, seen in counts.items()} == story.speaker.produced
    assert [w for w, seen in counts.items() if seen != list(range(1, len(seen) + 1))] == []
    assert state == story.speaker.produced
    logs = [instance.log.read_text(errors="replace") for instance in story.instances.values()]
    assert not any("state ERROR" in log for log in logs)


def _loads(heavy: set[str]) -> wire.PartitionLoad:
    """Give loads as the pipeline would, with a few tasks that have much more to do."""
    rates = [50_000.0 if f"0_{p}" in heavy else 5_000.0 for p in range(PARTITIONS)]
    return wire.PartitionLoad(
        ms=int(time.time() * 1000),
        topic="words",
        window_s=60.0,
        partition=list(range(PARTITIONS)),
        bytes_per_s=rates,
        bytes_per_s_stderr=[rate / 100 for rate in rates],
        records_per_s=[rate / 10 for rate in rates],
        records_per_s_stderr=[rate / 1000 for rate in rates],
        samples=[60] * PARTITIONS,
        samples_expected=60,
        confidence=["measured"] * PARTITIONS,
        reason=[None] * PARTITIONS,
    )


def _stable_ids(state: State) -> dict[str, str]:
    return {client["id"]: client["stable_id"] for client in state["streams"]["clients"]}


def _published(story: Story) -> set[str]:
    """Name the instances that run tasks by the newest published state."""
    states = story.states()
    return set(_active(states[-1])) if states else set()


def _active(state: State) -> dict[str, set[str]]:
    """Give instance to the tasks that the rebalance gave it to run."""
    names = _stable_ids(state)
    shares: dict[str, set[str]] = defaultdict(set)
    for task, client in state["streams"]["initial"]["active"].items():
        shares[names[client]].add(task)
    return dict(shares)


def _copies(state: State) -> dict[str, set[str]]:
    """Give instance to the tasks of which the rebalance gave it a copy."""
    names = _stable_ids(state)
    shares: dict[str, set[str]] = defaultdict(set)
    for task, clients in state["streams"]["initial"]["standby"].items():
        for client in clients:
            shares[names[client]].add(task)
    return dict(shares)


def _newest_members(story: Story) -> int:
    """Count the instances that the newest target is for."""
    targets = story.targets()
    return len(targets[-1]["base"]["members"]) if targets else 0


def _followed(story: Story) -> Mapping[str, Any] | None:
    """Give the newest target once actives and copies are where it says, for all who look."""
    target: Mapping[str, Any] = story.targets()[-1]
    shares = target["streams"]["assignment"]
    state = story.states()[-1]
    active = {name: set(share["active"]) for name, share in shares.items()}
    copies = {name: set(share["standby"]) for name, share in shares.items() if share["standby"]}
    there = _active(state) == active and _copies(state) == copies and story.owned() == active
    return target if there else None


def _cold_moves(states: list[State]) -> list[tuple[int, str, str]]:
    """List the tasks that left a living process for one that had to restore first (time, task, to).

    No harm is done if nobody was caught up (a stall of the machine can cost an owner its state)
    and the owner was not as near, within the acceptable lag. Lags are those reported as the task
    was given; a client that a state leaves out lags by all there is.
    """
    cold = []
    for before, after in itertools.pairwise(states):
        streams = after["streams"]
        acceptable = streams["config"]["acceptable_recovery_lag"]
        ends = {task["id"]: task.get("end_offset", 0) for task in streams["tasks"]}
        clients = {client["id"]: client for client in streams["clients"]}
        for task, owner in streams["initial"]["active"].items():
            left = before["streams"]["initial"]["active"][task]
            if left == owner or left not in clients:
                continue
            reported = {i: client["lags"].get(task, ends[task]) for i, client in clients.items()}
            behind = {i: {RUNNING: 0, UNKNOWN: NEVER}.get(lag, lag) for i, lag in reported.items()}
            ready = min(behind.values()) <= acceptable
            as_near = behind[left] - behind[owner] <= acceptable
            had_it = task in clients[left]["prev_active"]
            if behind[owner] > acceptable and (ready or (had_it and as_near)):
                cold.append((after["ms"], task, clients[owner]["stable_id"]))
    return cold


def _leads_by(story: Story, dead: str, good: Mapping[str, Any]) -> bool:
    """Tell whether somebody else leads, by the good target."""
    last = story.rounds()[-1]
    followed = last.said["how"] in {"target", "repaired"}
    return last.leader != dead and followed and last.said["plan"] == good["plan_id"]
