"""The step itself: nothing foreign can stop it, nothing goes back, the log is enough."""

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from agent import wire
from agent.core.events import Quarantine, Record, Tick
from agent.core.state import State
from agent.core.step import step

World = Any
TOPICS = (wire.MEMBERSHIP, wire.PARTITION_LOAD, wire.CONFIG, wire.TARGETS)

json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["v", "ms", "group", "members", "topics", "spec", "partition", "topic", "epoch"]
            )
            | st.text(max_size=4),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)
values = st.none() | st.binary(max_size=60) | json.map(msgspec.json.encode)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(TOPICS), st.sampled_from(["g", "claim", "t#0", "group/g"]), values
        ),
        max_size=12,
    )
)
@settings(max_examples=150, deadline=None)
def test_any_bytes_on_any_topic_are_survived(records: list[tuple[str, str, bytes | None]]) -> None:
    """Whatever stands on a topic is folded or quarantined; the step never raises on it."""
    state = State()
    for offset, (topic, key, value) in enumerate(records):
        for command in step(state, Record(offset, topic, key, value, offset)):
            if isinstance(command, Quarantine):
                assert (command.topic, command.offset) == (topic, offset)
    step(state, Tick(len(records)))


def test_poison_changes_nothing(uneven: World) -> None:
    """A refused record leaves the state exactly as it was."""
    uneven.measure()
    uneven.membership()
    before = repr(uneven.state)
    uneven.record(wire.MEMBERSHIP, "other", uneven.state.groups["g"].membership)
    uneven.record(wire.PARTITION_LOAD, "orders#0", b'{"v":1,"ms":1}')
    uneven.record(wire.PARTITION_LOAD, "orders", b"{}")
    uneven.record(wire.TARGETS, "g", b'{"v":1,"epoch":-1}')

    assert repr(uneven.state) == before
    assert len(uneven.quarantined) == 4


Targets = Callable[[int, int], wire.Target]


@given(log=st.lists(st.tuples(st.booleans(), st.integers(0, 12), st.integers(0, 4)), max_size=25))
@settings(max_examples=200, deadline=None)
def test_epochs_and_revisions_never_go_back(
    a_target: Targets, log: list[tuple[bool, int, int]]
) -> None:
    """In any log of claims and targets the accepted (epoch, revision) only grows (S4, S5)."""
    state = State()
    newest = (-1, -1)
    for offset, (is_claim, epoch, revision) in enumerate(log):
        value: object = wire.Claim(ms=1, agent="a", topic_id="t")
        if not is_claim:
            value = a_target(epoch, revision)
        key = "claim" if is_claim else "g"
        step(state, Record(offset, wire.TARGETS, key, wire.encode(value), offset))
        group = state.groups.get("g")
        if group is not None and group.target is not None:
            assert (group.target.epoch, group.target.revision) >= newest
            newest = (group.target.epoch, group.target.revision)


def test_targets_of_a_fenced_agent_do_not_count(uneven: World, a_target: Targets) -> None:
    """A target whose epoch is older than the newest claim is quarantined."""
    claim = wire.Claim(ms=1, agent="a", topic_id="t")
    uneven.record(wire.TARGETS, "g", a_target(0, 9))
    uneven.record(wire.TARGETS, "claim", claim)
    uneven.record(wire.TARGETS, "g", a_target(0, 10))

    assert uneven.state.groups["g"].target == a_target(0, 9)
    assert [q.path for q in uneven.quarantined] == ["epoch"]


def test_state_from_the_compacted_log_decides_alike(world: Callable[..., World]) -> None:
    """A restarted agent, given only the last record of each key, writes no target and agrees."""
    live = world([90, 1, 1, 80, 1, 1, 70, 1, 1, 60, 1, 1])
    live.configure(mode="enforce", moved_load_share_per_hour_max=1.0)
    for _ in range(12):
        live.round()
    again = world(live.loads)
    again.now_ms = live.now_ms
    again.owned = live.owned
    again.record(wire.TARGETS, "g", live.targets[-1])
    again.configure(mode="enforce", moved_load_share_per_hour_max=1.0)
    again.measure()
    again.membership()
    again.tick()

    assert again.targets == []
    assert again.last_decision.reason == live.last_decision.reason == "level"
    assert again.state.groups["g"].target == live.state.groups["g"].target


def test_tombstones_forget(uneven: World, a_target: Targets) -> None:
    """A group without snapshot and target takes no memory."""
    uneven.measure()
    uneven.membership()
    uneven.record(wire.TARGETS, "g", a_target(0, 1))
    uneven.record(wire.MEMBERSHIP, "g", None)
    assert "g" in uneven.state.groups

    uneven.record(wire.TARGETS, "g", None)
    uneven.record(wire.PARTITION_LOAD, "orders#0", None)
    assert uneven.state.groups == {}
    assert uneven.state.loads == {"orders": {}}


def test_older_records_do_not_replace_newer_ones(uneven: World) -> None:
    """Snapshots and loads delivered out of order keep the newest."""
    uneven.measure()
    uneven.membership()
    snapshot = uneven.state.groups["g"].membership
    uneven.now_ms -= 5000
    uneven.measure(rows=[0])
    uneven.membership(state="Dead")

    assert uneven.state.groups["g"].membership == snapshot
    assert len(uneven.state.loads["orders"][0].partition) == 12
