"""Streams applications in the core: published state in, targets of tasks out."""

from typing import Any

import pytest

from agent import limits, wire
from agent.core.view import view
from agent.telemetry import Metrics

World = Any
IDS = [f"00000000-0000-0000-0000-00000000000{i}" for i in range(4)]


def application(world: World, active: dict[str, int], **changed: Any) -> None:
    """Publish the state of an application of six stateful tasks as its plugin would."""
    tasks = [f"0_{p}" for p in range(6)]
    processes = [
        {
            "id": IDS[i],
            "stable_id": f"host-{i}:80",
            "rack": None,
            "threads": 1,
            "tags": {},
            "prev_active": [t for t in tasks if active[t] == i],
            "prev_standby": [],
            "lags": {t: -2 for t in tasks if active[t] == i},
        }
        for i in range(3)
    ]
    streams: dict[str, Any] = {
        "config": {
            "rack_aware_strategy": "none",
            "num_standby_replicas": 0,
            "max_warmup_replicas": 2,
            "acceptable_recovery_lag": 10_000,
        },
        "topics": [
            {"name": "in", "partitions": [[]] * 6},
            {"name": "log", "partitions": [[]] * 6},
        ],
        "tasks": [
            {
                "id": t,
                "stateful": True,
                "source": [["in", p]],
                "changelog": [["log", p]],
                "end_offset": 1000,
            }
            for p, t in enumerate(tasks)
        ],
        "clients": processes,
        "initial": {"active": {t: IDS[active[t]] for t in tasks}, "standby": {}},
    } | changed
    world.record(
        wire.MEMBERSHIP,
        "app",
        {
            "v": 1,
            "ms": world.now_ms,
            "group": "app",
            "kind": "streams",
            "protocol": "classic",
            "assignor": "plimsoll",
            "state": "Stable",
            "members": [],
            "topics": {"in": {"partitions": 6}, "log": {"partitions": 6}},
            "streams": streams,
        },
    )


UNEVEN = {"0_0": 0, "0_1": 0, "0_2": 0, "0_3": 0, "0_4": 1, "0_5": 2}


def test_uneven_application_gets_a_target_of_tasks(uneven: World) -> None:
    """The target gives each process its tasks under its stable id; there is no nudge."""
    uneven.configure(key="group/app", mode="enforce")
    application(uneven, UNEVEN)
    uneven.tick()
    (target,) = uneven.targets
    shares = target.streams["assignment"]

    assert sorted(shares) == ["host-0:80", "host-1:80", "host-2:80"]
    assert sorted(t for share in shares.values() for t in share["active"]) == sorted(UNEVEN)
    assert {len(share["active"]) for share in shares.values()} == {2}
    assert uneven.nudges == []


def test_level_application_is_left_alone(uneven: World) -> None:
    """An application whose tasks are spread evenly gets no target."""
    uneven.configure(key="group/app", mode="enforce")
    application(uneven, {f"0_{p}": p % 3 for p in range(6)})
    uneven.tick()

    assert uneven.targets == []
    assert uneven.state.groups["app"].verdict.reason == "level"


def test_observed_application_is_only_told_about(uneven: World) -> None:
    """Without enforce the plan is told and nothing is published."""
    application(uneven, UNEVEN)
    uneven.tick()

    assert uneven.targets == []
    assert uneven.state.groups["app"].verdict.reason == "observe"


def test_pending_target_is_not_published_again(uneven: World) -> None:
    """While the application is still on its way, the same plan is not written twice."""
    uneven.configure(key="group/app", mode="enforce", cooldown_s=0)
    application(uneven, UNEVEN)
    uneven.tick()
    uneven.now_ms += 60_000
    application(uneven, UNEVEN)
    uneven.tick()

    assert len(uneven.targets) == 1
    assert uneven.state.groups["app"].verdict.reason == "target-pending"


def test_verdict_rates_what_runs_now_and_what_is_planned(uneven: World) -> None:
    """Four tasks of six on one of three is twice what could be; two on each is perfect."""
    application(uneven, UNEVEN)
    uneven.tick()
    verdict = uneven.state.groups["app"].verdict

    assert verdict.certificate["ratio"] == pytest.approx(1.0)
    (stay,) = verdict.alternatives
    assert (stay["plan"], stay["certificate"]["ratio"]) == ("stay", pytest.approx(2.0))


def test_tasks_that_cannot_be_spread_more_evenly_are_rated_perfect(uneven: World) -> None:
    """Six tasks with a copy each are twelve on three; five with a copy are four at best, too."""
    tasks = [f"0_{p}" for p in range(6)]
    active = {t: p % 3 for p, t in enumerate(tasks)}
    copies = {t: [IDS[(p + 1) % 3]] for p, t in enumerate(tasks[:5])}
    initial = {"active": {t: IDS[c] for t, c in active.items()}, "standby": copies}
    application(uneven, active, initial=initial)
    uneven.tick()
    (stay,) = uneven.state.groups["app"].verdict.alternatives

    assert stay["certificate"]["ratio"] == pytest.approx(1.0)


def test_metrics_show_an_application(uneven: World) -> None:
    """The agent's gauges take the view of an application in each of its verdicts."""
    metrics = Metrics()
    for mode in ("observe", "enforce"):
        uneven.configure(key="group/app", mode=mode)
        application(uneven, UNEVEN)
        uneven.tick()
        metrics.show(view(uneven.state))

    assert metrics.load_ratio.labels("app")._value.get() == pytest.approx(2.0)


def test_application_on_its_way_is_not_led_elsewhere(uneven: World) -> None:
    """Whatever a step looks like, the target stands until it is reached or clearly never will."""
    uneven.configure(key="group/app", mode="enforce", cooldown_s=0)
    application(uneven, UNEVEN)
    uneven.tick()
    halfway = {**UNEVEN, "0_3": 1, "0_4": 0}
    for wait_ms, reason in ((60_000, "target-pending"), (limits.STREAMS_FOLLOW_MS_MAX, "levelled")):
        uneven.now_ms += wait_ms
        application(uneven, halfway)
        uneven.tick()
        assert uneven.state.groups["app"].verdict.reason == reason


def test_reached_target_leaves_the_application_level(uneven: World) -> None:
    """Once the tasks are where the target wants them, nothing more is asked."""
    uneven.configure(key="group/app", mode="enforce", cooldown_s=0)
    application(uneven, UNEVEN)
    uneven.tick()
    shares = uneven.targets[0].streams["assignment"]
    reached = {t: i for i in range(3) for t in shares[f"host-{i}:80"]["active"]}
    application(uneven, reached)
    uneven.tick()

    assert uneven.state.groups["app"].verdict.reason == "level"


def test_target_names_the_end_and_not_the_next_step(uneven: World) -> None:
    """A newcomer without any state is given its share to run, though it has to restore it first."""
    uneven.configure(key="group/app", mode="enforce")
    lonely = {f"0_{p}": p % 2 for p in range(6)}
    application(uneven, lonely)
    uneven.tick()
    (target,) = uneven.targets
    shares = target.streams["assignment"]

    assert len(shares["host-2:80"]["active"]) == 2
    assert all(share["warmup"] == [] for share in shares.values())


@pytest.mark.parametrize(
    "changed",
    [{"clients": []}, {"tasks": [{"id": "zero"}]}, {"initial": None}, {"config": 7}, {"topics": 1}],
)
def test_bad_state_is_refused_by_name(uneven: World, changed: dict[str, Any]) -> None:
    """A state that is no problem is refused with the field named; nothing raises."""
    application(uneven, UNEVEN, **changed)
    uneven.tick()

    assert uneven.verdicts == [("refuse", "bad-application")]
