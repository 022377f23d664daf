"""The demo's own judgement: what counts as spoiled, and what the table says."""

import json
from dataclasses import replace

import pytest

from deploy.local.demo.report import Window, judge, table
from deploy.local.demo.run import decision_ms_of
from deploy.local.demo.stage import GROUP

LEVEL = Window(
    seconds=30.0,
    offered_mb_s=3.0,
    delivered_share=0.998,
    predicted_delivered_share=1.0,
    max_over_mean=1.02,
    spread_mb_s=0.01,
    p95_s=0.2,
    lag_mb=0.4,
    lag_growth_mb_s=0.0,
)
UNEVEN = replace(
    LEVEL,
    delivered_share=0.61,
    predicted_delivered_share=0.606,
    max_over_mean=4.97,
    p95_s=18.0,
    lag_mb=38.0,
    lag_growth_mb_s=1.18,
)


def test_an_undisturbed_run_is_believed() -> None:
    """Delivered shares that the loads and caps explain leave nothing to complain of."""
    verdict = judge({"before": UNEVEN, "after": LEVEL}, 3.0)
    assert verdict == {"spoiled": False, "spoiled_reason": None}


@pytest.mark.parametrize(
    ("after", "word"),
    [
        (replace(LEVEL, delivered_share=0.95), "after: delivered share 0.950"),
        (replace(LEVEL, delivered_share=1.05), "after: delivered share 1.050"),
        (replace(LEVEL, offered_mb_s=2.7), "after: offered 2.70 MB/s"),
    ],
)
def test_a_disturbed_run_is_spoiled_and_says_why(after: Window, word: str) -> None:
    """A level group that does not deliver, or a load that was not offered, spoils the run."""
    verdict = judge({"before": UNEVEN, "after": after}, 3.0)
    assert verdict["spoiled"]
    assert word in verdict["spoiled_reason"]


def test_an_uneven_group_after_is_no_noise() -> None:
    """What the arithmetic explains is a result, good or bad, not the machine's fault."""
    assert not judge({"before": UNEVEN, "after": UNEVEN}, 3.0)["spoiled"]


def test_the_table_shows_both_windows_and_the_faults() -> None:
    """The table names both shares, the comparison, the pauses and the counts of faults."""
    compared = {"delivered_share": 0.742, "max_over_mean": 2.54}
    pauses = {"moved_p95": 523.0, "unmoved_p95": 341.0, "unmoved_p95_just_before": 336.0}
    text = table(
        {
            "before": UNEVEN.as_json(),
            "after": LEVEL.as_json(),
            "decision_ms": 21.0,
            "moves": 19,
            "pause_ms": pauses,
            "target_to_applied_s": 1.216,
            "double_owned": 0,
            "lost_records": 0,
            "redelivered_records": 135,
            "computed_for_comparison": {"roundrobin": compared, "cooperative-sticky": compared},
            "killed": {"client": "c05", **LEVEL.as_json()},
            "joined": {"client": "c13", **LEVEL.as_json()},
            "takeover_s": 6.5,
            "spoiled": False,
            "spoiled_reason": None,
        }
    )
    for part in ("61.0%", "99.8%", "74.2% delivered", "523 ms", "redelivered 135"):
        assert part in text
    assert "SPOILED" not in text


def test_the_decision_time_is_the_agents_own() -> None:
    """The step that published the group's target is found in the agent's log, whatever else is."""
    told = {"event": "decision", "verdict": "publish", "group": GROUP, "step_ms": 21.5}
    log = [
        "%4|rdkafka",
        json.dumps({"event": "claimed"}),
        json.dumps(told | {"group": "other", "revision": 2}),
        json.dumps(told | {"revision": 1, "step_ms": 9.0}),
        json.dumps(told | {"revision": 2}),
    ]

    assert decision_ms_of(log, 2) == 21.5
    assert decision_ms_of(log, 3) is None
