"""Verdicts: when a group is levelled, when it is left alone, and why."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from agent import limits, wire

World = Any
FREE = {"mode": "enforce", "moved_load_share_per_hour_max": 1.0}


def level(world: World, **spec: Any) -> World:
    """Let a world run until its group is level under `enforce`."""
    world.configure(**(FREE | spec))
    for _ in range(3):
        world.round()
    return world


def test_uneven_group_becomes_level(uneven: World) -> None:
    """An enforced uneven group gets one target, whose certificate is within the band."""
    level(uneven)

    assert [t.revision for t in uneven.targets] == [1]
    assert uneven.held()[0] <= 1.05 * (70 + 60)  # four large partitions, three members
    assert uneven.last_decision.reason == "level"


def test_nothing_is_published_by_default(uneven: World) -> None:
    """Observe is the default: the plan is told with its moves and nothing is published."""
    uneven.configure(key="defaults", moved_load_share_per_hour_max=1.0)
    for _ in range(5):
        uneven.round()

    assert uneven.targets == []
    assert uneven.last_decision.reason == "observe"
    assert uneven.last_decision.moves
    assert uneven.last_decision.plan_id is not None


def test_same_content_is_never_published_twice(uneven: World) -> None:
    """A level group stays silent on the control topic however long it runs (S9)."""
    level(uneven)
    for _ in range(200):
        uneven.round(30)

    assert len(uneven.targets) == 1


def test_unchanged_verdict_is_repeated_slowly(uneven: World) -> None:
    """A verdict that says nothing new is written once a minute, not at every tick."""
    uneven.round()
    for _ in range(10):
        uneven.tick(1)
    before = len(uneven.verdicts)
    uneven.tick(limits.DECISION_REPEAT_MS / 1000)

    assert before == 1
    assert len(uneven.verdicts) == 2


def test_every_target_names_every_member_and_partition(uneven: World) -> None:
    """A target covers each partition once, with weights for each and capacity for each member."""
    level(uneven)
    target = uneven.targets[0]
    covered = sorted(p for topics in target.assignment.values() for p in topics.get("orders", []))

    assert covered == list(range(12))
    assert sorted(target.assignment) == target.base.members == ["c1", "c2", "c3"]
    assert len(target.weights["orders"]) == target.base.partitions["orders"] == 12
    assert target.capacity == {"c1": 1.0, "c2": 1.0, "c3": 1.0}
    assert max(target.weights["orders"]) == limits.WEIGHT_UNITS_MAX


@pytest.mark.parametrize(
    ("facts", "verdict", "reason"),
    [
        ({"state": "PreparingRebalance"}, "hold", "rebalancing"),
        ({"members": []}, "hold", "no-members"),
        ({"protocol": "consumer"}, "refuse", "unsupported-protocol"),
        ({"assignor": "range"}, "refuse", "no-plugin"),
        ({"topics": {}}, "hold", "no-partitions"),
        ({"topics": {"orders": {"partitions": 13}}}, "hold", "unowned-partitions"),
    ],
)
def test_refusals_have_names(
    uneven: World, facts: dict[str, Any], verdict: str, reason: str
) -> None:
    """What may not be decided is refused by name and publishes nothing."""
    uneven.configure(**FREE)
    uneven.measure()
    uneven.membership(**facts)
    uneven.tick()

    assert uneven.verdicts == [(verdict, reason)]
    assert uneven.targets == []


def test_members_with_one_stable_id_are_refused(uneven: World) -> None:
    """Two members under one stable id get the verdict ambiguous-members and no target."""
    uneven.configure(**FREE)
    uneven.measure()
    twin = {"stable_id": "c1", "member_id": "x", "topics": ["orders"], "owned": {}}
    uneven.membership(members=[twin, twin])
    uneven.tick()

    assert uneven.verdicts == [("refuse", "ambiguous-members")]


def test_half_the_loads_decide_nothing(uneven: World) -> None:
    """With too few measured partitions nothing is decided; one unmeasured of many is bridged."""
    uneven.configure(**FREE)
    uneven.membership()
    uneven.measure(rows=range(6))
    uneven.tick()

    assert uneven.verdicts == [("refuse", "loads-missing")]


def test_stale_loads_decide_nothing(uneven: World) -> None:
    """Once the loads are older than their limit, the plan is frozen and says so."""
    uneven.configure(**FREE)
    uneven.measure()
    uneven.now_ms += limits.LOAD_STALE_MS_MAX + 1000
    uneven.membership()
    uneven.tick()

    assert uneven.verdicts == [("refuse", "loads-stale")]
    assert uneven.targets == []


def test_stale_membership_decides_nothing(uneven: World) -> None:
    """A group that nobody describes any more is not replanned."""
    uneven.configure(**FREE)
    uneven.membership()
    uneven.now_ms += limits.MEMBERSHIP_STALE_MS_MAX + 1000
    uneven.measure()
    uneven.tick()

    assert uneven.verdicts == [("refuse", "membership-stale")]


def test_pause_holds_every_group(uneven: World) -> None:
    """control/pause holds until it is removed, then the group is levelled."""
    uneven.configure(key="control/pause")
    level(uneven)
    assert uneven.targets == []
    assert ("hold", "paused") in uneven.verdicts

    uneven.record(wire.CONFIG, "control/pause", None)
    uneven.round()
    assert len(uneven.targets) == 1


def test_gain_within_its_own_noise_is_held(uneven: World) -> None:
    """When the standard error of the gain exceeds the gain, nothing moves."""
    uneven.configure(**FREE)
    uneven.membership()
    uneven.measure(relative_error=3.0)
    uneven.tick()

    assert uneven.verdicts == [("hold", "within-noise")]


def test_moves_dearer_than_their_gain_are_held(uneven: World) -> None:
    """With a horizon shorter than the pause of the moved partitions nothing moves."""
    uneven.configure(horizon_s=1.0, **FREE)
    uneven.membership()
    uneven.measure()
    uneven.tick()

    assert uneven.verdicts == [("hold", "not-worth-it")]


def test_stationary_noise_moves_nothing(world: Callable[..., World]) -> None:
    """Ten hours of white noise of 5 % on a level group cause no move."""
    level_world = world([10.0] * 30)
    level_world.configure(**FREE)
    rng = np.random.default_rng(7)
    for _ in range(600):
        level_world.loads = (10 * (1 + 0.05 * rng.standard_normal(30))).clip(0).tolist()
        level_world.round(60)

    assert level_world.targets == []


def test_budget_of_moves_per_hour_is_kept(world: Callable[..., World]) -> None:
    """Discretionary moves within any hour never exceed the budget (S7)."""
    small = world([50 - i for i in range(40)], members=("c1", "c2", "c3", "c4"))
    small.configure(cooldown_s=30, moves_per_hour_max=5, **FREE)
    rng = np.random.default_rng(3)
    for _ in range(240):
        small.loads = rng.permutation(small.loads).tolist()
        small.round(60)
    spent = [(t.ms, t.recent[-1].moves) for t in small.targets]

    assert sum(moves for _, moves in spent) > 5
    for end, _ in spent:
        in_window = [m for ms, m in spent if end - limits.BUDGET_WINDOW_MS < ms <= end]
        assert sum(in_window) <= 5


def test_a_budget_too_small_for_any_move_is_told(uneven: World) -> None:
    """A group that only its budget keeps uneven is not called level; what it would take is told."""
    uneven.configure(mode="enforce", moved_load_share_per_hour_max=0.01)
    uneven.round()
    alternatives = {a["plan"]: a["certificate"] for a in uneven.last_decision.alternatives}

    assert uneven.last_decision.reason == "budget-spent"
    assert alternatives["over-budget"]["ratio"] < alternatives["stay"]["ratio"]


def test_cooldown_separates_discretionary_targets(world: Callable[..., World]) -> None:
    """Two levelling targets are at least the cooldown apart."""
    restless = world([50 - i for i in range(20)])
    restless.configure(cooldown_s=600, moves_per_hour_max=1000, **FREE)
    rng = np.random.default_rng(5)
    for _ in range(120):
        restless.loads = rng.permutation(restless.loads).tolist()
        restless.round(30)
    times = [t.ms for t in restless.targets]

    assert len(times) > 2
    assert min(np.diff(times)) >= 600_000


def test_nudges_end_in_an_alarm(uneven: World) -> None:
    """A target that nobody takes is nudged three times and then alarmed, not nudged for ever."""
    uneven.follow = False
    level(uneven, cooldown_s=10_000)
    for _ in range(30):
        uneven.round()

    assert [n.attempt for n in uneven.nudges] == [1, 2, 3]
    assert uneven.last_decision.reason == "not-followed"
    assert len(uneven.targets) == 1


def test_nudge_carries_what_the_leader_must_have_read(uneven: World) -> None:
    """A nudge names the epoch and revision of the target that it is about."""
    uneven.record(wire.TARGETS, "claim", wire.Claim(ms=1, agent="a", topic_id="t"))
    level(uneven)

    assert [(n.group, n.epoch, n.revision) for n in uneven.nudges] == [("g", 0, 1)]


def test_excluded_member_is_drained_without_cooldown(uneven: World) -> None:
    """Draining a member is forced: it happens at once and inside a spent cooldown."""
    level(uneven, cooldown_s=100_000)
    uneven.configure(cooldown_s=100_000, exclude=["c2"], **FREE)
    uneven.round()

    assert uneven.owned["c2"] == []
    assert len(uneven.targets) == 2


def test_pin_is_kept(uneven: World) -> None:
    """A pinned partition goes to its member and stays there."""
    level(uneven, pin=[["orders", 1, "c3"]])

    assert 1 in uneven.owned["c3"]


@pytest.mark.parametrize(
    "spec",
    [
        {"copartition": [["orders", "payments"], ["payments", "orders"]]},
        {"pin": [["orders", 1, "c1"], ["orders", 1, "c2"]]},
        {"copartition": [["orders", "orders"]]},
        {"pin": [["nowhere", 9, "nobody"]], "exclude": ["c1", "c2", "c3"]},
    ],
)
def test_tuning_that_cannot_be_met_stops_nothing(uneven: World, spec: dict[str, Any]) -> None:
    """Contradictory pins and co-partitions are a verdict on the group, not the end of the agent."""
    level(uneven, **spec)

    assert uneven.last_decision.reason in {"bad-settings", "level", "levelled"}


def test_capacity_rule_shifts_load(uneven: World) -> None:
    """A member with twice the capacity carries about twice the load."""
    uneven.loads = [10.0] * 12
    level(uneven, capacity=[{"match": "c1", "units": 2.0}])

    assert len(uneven.owned["c1"]) == 6


def test_advised_plan_waits_for_its_approval(uneven: World) -> None:
    """In advise the plan stands still until a person approves its id, then exactly it is taken."""
    uneven.configure(**(FREE | {"mode": "advise"}))
    rng = np.random.default_rng(1)
    for _ in range(5):
        uneven.loads = [x * float(1 + 0.01 * rng.standard_normal()) for x in uneven.loads]
        uneven.round()
    proposed = uneven.last_decision.plan_id
    assert uneven.targets == []

    uneven.configure(**(FREE | {"mode": "advise", "approve": proposed}))
    uneven.round()
    assert [t.plan_id for t in uneven.targets] == [proposed]
    assert uneven.targets[0].mode == "enforce"
    assert ("publish", "approved") in uneven.verdicts


def test_shadow_plan_is_scored_and_kept_apart(uneven: World) -> None:
    """In shadow the plan is scored on later loads beside what members hold; nothing moves."""
    uneven.configure(**(FREE | {"mode": "shadow"}))
    for _ in range(20):
        uneven.round()
    last = uneven.last_decision

    assert uneven.targets == []
    assert last.certificate is not None
    assert last.certificate["ratio"] < last.alternatives[0]["certificate"]["ratio"]


def test_outcome_is_measured_once(uneven: World) -> None:
    """Some time after a plan one record says what it has come to."""
    level(uneven)
    for _ in range(30):
        uneven.round()
    outcomes = [
        w.value
        for w in uneven.written
        if isinstance(w.value, wire.Decision) and w.value.reason == "outcome"
    ]

    assert [o.outcome_of for o in outcomes] == [uneven.targets[0].plan_id]


def test_leave_is_left_to_the_plugin_while_level(world: Callable[..., World]) -> None:
    """When a member leaves and the rest is level, no target is written."""
    group = world([10.0] * 12)
    level(group)
    group.owned = {"c1": list(range(6)), "c2": list(range(6, 12))}
    group.round()

    assert group.targets == []
    assert group.last_decision.reason == "level"


def test_detail_quotes_ratio_to_the_lower_bound(uneven: World) -> None:
    """A verdict quotes max/LB, before and after, and the number of moves."""
    uneven.configure(key="defaults", moved_load_share_per_hour_max=1.0)
    uneven.round()

    assert re.search(
        r"max/LB is \d\.\d+, would be \d\.\d+ with \d+ moves", str(uneven.last_decision.detail)
    )
