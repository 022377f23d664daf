"""Tuning through the config topic: precedence, refusal, expiry, status."""

from typing import Any

import pytest

from agent import wire
from agent.core.tuning import settings_of

World = Any


def status(world: World) -> wire.ConfigStatus:
    """Give the newest status record."""
    return [w.value for w in world.written if isinstance(w.value, wire.ConfigStatus)][-1]


def test_scopes_override_one_another(uneven: World) -> None:
    """Built-in, defaults and group stack up field by field; a tombstone takes a scope back."""
    uneven.configure(key="defaults", imbalance_enter=0.2, cooldown_s=60)
    uneven.configure(imbalance_enter=0.3)
    group = settings_of(uneven.state.configs, "g", uneven.now_ms)
    other = settings_of(uneven.state.configs, "other", uneven.now_ms)
    assert (group.imbalance_enter, group.cooldown_s, group.horizon_s) == (0.3, 60, 1800)
    assert other.imbalance_enter == 0.2

    uneven.record(wire.CONFIG, "group/g", None)
    assert settings_of(uneven.state.configs, "g", uneven.now_ms).imbalance_enter == 0.2
    assert status(uneven).effective["imbalance_enter"] == 0.2


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("group/g", b"{not json", ""),
        ("group/g", b'{"v":2,"spec":{}}', "v"),
        ("group/g", b'{"v":1,"spec":{"mode":"destroy"}}', "spec.mode"),
        ("group/g", b'{"v":1,"spec":{"imbalance_enter":-1}}', "spec"),
        ("group/g", b'{"v":1,"spec":{"imbalance_enter":"much"}}', "spec.imbalance_enter"),
        ("group/g", b'{"v":1,"spec":{"imbalance_solve":0.5}}', "spec.imbalance_solve"),
        ("group/g", b'{"v":1,"spec":{"capacity":[{"match":"(","units":1}]}}', "spec.capacity[0]"),
        ("group/g", b'{"v":1,"spec":{"cost":{"network_ingress":0}}}', "spec.cost"),
        ("groups/g", b'{"v":1,"spec":{}}', "key"),
        ("group/", b'{"v":1,"spec":{}}', "key"),
    ],
)
def test_bad_record_is_refused_and_the_last_good_one_kept(
    uneven: World, key: str, value: bytes, path: str
) -> None:
    """A bad config record names its fault on the status topic and changes nothing."""
    uneven.configure(mode="enforce")
    uneven.record(wire.CONFIG, key, value)
    said = status(uneven)

    assert not said.accepted
    assert said.error is not None
    assert said.error.path == path
    assert [q.path for q in uneven.quarantined] == [path]
    assert settings_of(uneven.state.configs, "g", uneven.now_ms).mode == "enforce"


def test_slips_of_the_pen_are_told(uneven: World) -> None:
    """A field that nothing reads is accepted with a warning that names it."""
    uneven.record(wire.CONFIG, "group/g", {"v": 1, "why": "x", "spec": {"imbalence": 1}})

    assert status(uneven).warnings == [
        "why: nothing reads this field",
        "spec.imbalence: nothing reads this field",
    ]


def test_topic_scope_sets_its_cost_only(uneven: World) -> None:
    """A topic record sets the cost of its topic; anything else in it is told to be unread."""
    uneven.configure(
        key="topic/orders", cost={"records": 1.0, "network_ingress": 0}, mode="enforce"
    )

    assert status(uneven).warnings == ["spec.mode: nothing reads this field"]
    assert status(uneven).effective == {"cost": {"network_ingress": 0.0, "records": 1.0}}


def test_expired_record_counts_as_absent(uneven: World) -> None:
    """At its expiry a record stops to count, and the status topic says so."""
    uneven.record(
        wire.CONFIG,
        "group/g",
        {"v": 1, "expires_ms": uneven.now_ms + 5000, "spec": {"mode": "enforce"}},
    )
    uneven.tick(4)
    assert settings_of(uneven.state.configs, "g", uneven.now_ms).mode == "enforce"

    uneven.tick(2)
    assert settings_of(uneven.state.configs, "g", uneven.now_ms).mode == "observe"
    assert status(uneven).effective["mode"] == "observe"
