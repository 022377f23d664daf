"""The loop end to end. The tests tell one story and run in this order."""

import json
import signal
from typing import Any

import pytest

from deploy.local.demo.stage import GROUP
from deploy.local.history import applied_ms, coverage, double_owned, overlaps
from deploy.local.node import free_ports

Loop = Any
HEARTBEAT_S = 1.0
"""Of the consumers that the stage starts."""

ENFORCE = {
    "v": 1,
    "author": "test",
    "reason": "level it",
    "spec": {
        "mode": "enforce",
        "moved_load_share_per_hour_max": 5.0,
        "moves_per_hour_max": 500,
        "cooldown_s": 5,
    },
}


@pytest.fixture(scope="module", autouse=True)
def _story_goes_on(loop: Loop) -> None:
    """Have the stage up before the first test, so that its time is not counted as a test's."""
    assert loop.stage.services


@pytest.mark.timeout(240)
def test_agent_observes_measured_loads(loop: Loop) -> None:
    """With real brokers, Spark and consumers the agent sees the uneven group, and only tells."""
    loop.wait("every partition has an owner", 60, loop.all_owned)
    loop.wait("the agent judges by measured loads", 150, lambda: loop.reason() == "observe")

    assert loop.get("/readyz")[0] == 200
    assert loop.get("/healthz")[0] == 200
    assert loop.targets() == []


def test_one_config_record_levels_the_group(loop: Loop) -> None:
    """The target is applied by all within a heartbeat and 2 s; what it moves is what moved."""
    loop.produce("plimsoll.config", f"group/{GROUP}", json.dumps(ENFORCE).encode())
    record = loop.wait("a target is published", 30, loop.targets)[0]
    target = record.json()
    loop.wait("members hold it", 30, lambda: loop.members_hold(target))
    applied = applied_ms(loop.stage.watch.history(), target["assignment"], record.ms)

    assert applied is not None
    assert applied - record.ms <= (HEARTBEAT_S + 2) * 1000
    loop.wait("the agent finds the group level", 30, lambda: loop.reason() == "level")


def test_metrics_tell_what_happened(loop: Loop) -> None:
    """The published target shows in the agent's metrics."""
    status, page = loop.get("/metrics")

    assert status == 200
    assert f'plimsoll_target_revision{{group="{GROUP}"}} 1.0' in page
    assert f'plimsoll_assignment_drift_partitions{{group="{GROUP}"}} 0.0' in page


def test_consumers_go_on_without_the_agent(loop: Loop) -> None:
    """Killed, the agent is not missed; restarted, it claims anew and publishes nothing new."""
    before = loop.targets()[-1].json()
    loop.stage.services.pop("agent").kill()
    seen = loop.processed()
    loop.wait("consumers go on", 20, lambda: loop.processed() > seen + 500)
    assert loop.members_hold(before)

    loop.stage.start_service("agent")
    loop.wait("the agent is back", 60, lambda: loop.get("/readyz")[0] == 200)
    loop.wait("it finds the group level", 30, lambda: loop.reason() == "level")
    after = [t.json() for t in loop.targets()]
    assert {(t["revision"], t["plan_id"]) for t in after} == {(1, before["plan_id"])}
    assert after[-1]["epoch"] > before["epoch"]
    assert loop.members_hold(before)


def test_second_agent_takes_over_and_the_first_ends(loop: Loop) -> None:
    """A newer agent fences the older one, which ends by itself with exit status 3."""
    first = loop.stage.services.pop("agent")
    (loop.stage.http_port,) = free_ports(1)
    loop.stage.start_service("agent")
    # A fenced agent learns it at its next write; the config record makes it write.
    loop.wait("the new agent is ready", 60, lambda: loop.get("/readyz")[0] == 200)
    loop.produce("plimsoll.config", f"group/{GROUP}", json.dumps(ENFORCE).encode())

    assert first.wait(60) == 3


def test_garbage_on_the_control_topic_stops_nobody(loop: Loop) -> None:
    """With bytes nobody can read on plimsoll.targets a joiner starts and the group stays whole."""
    for value in (b"\x00\xff", b"{", b'{"v":9}', b'{"v":1,"epoch":99,"revision":-1}', b"[]" * 500):
        loop.produce("plimsoll.targets", GROUP, value)
    loop.stage.start_consumer("c04", capped=False)
    loop.wait("the joiner has its share", 30, lambda: loop.stage.watch.members().get("c04"))
    loop.wait("every partition has an owner", 30, loop.all_owned)


def test_killed_consumer_is_replaced(loop: Loop) -> None:
    """After SIGKILL of a consumer the others own everything again."""
    loop.stage.consumers["c02"].process.kill()
    loop.wait("every partition has an owner", 30, loop.all_owned)


def test_agent_drains_on_sigterm(loop: Loop) -> None:
    """SIGTERM ends agent and collector cleanly with exit status 0."""
    for name in ("agent", "collect"):
        service = loop.stage.services.pop(name)
        service.send_signal(signal.SIGTERM)
        assert service.wait(30) == 0, name


def test_nothing_was_lost_and_nobody_owned_twice(loop: Loop) -> None:
    """Over the whole story each partition had one owner a generation and no record was skipped."""
    loop.stage.stop_load()
    produced = loop.stage.watch.truth
    loop.wait(
        "consumers read to the end",
        60,
        lambda: _distinct(loop) >= produced().produced_records,
    )
    history = loop.stage.watch.history()
    seen = coverage(history)

    assert double_owned(history) == []
    assert overlaps(history) == []
    assert seen.lost == ()
    assert history.failures == ()


def _distinct(loop: Loop) -> int:
    seen = coverage(loop.stage.watch.history())
    return seen.processed - seen.redelivered
