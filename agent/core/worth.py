"""Is a plan worth its moves? Gain against price, and against its own uncertainty.

A group is entered when it is further from its lower bound than `imbalance_enter`, when the plan
has fewer incompatible pairs on one member, or when it saves more than that share of the load from
crossing racks; partitions that must leave (an excluded owner, a pin) always enter. A plan that only
levels must then pass two tests:

- price: the load taken off the hottest member, kept up for `horizon_s`, exceeds the load that the
  moved partitions hold back while they pause;
- noise: it exceeds `confidence_k` standard errors of itself. Partitions that stay on the hottest
  member cancel, so the error is that of the partitions that make the difference.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from agent import limits
from agent.assign import Certificate, GroupPlan, GroupProblem
from agent.core.state import Floats, Ints
from agent.core.tuning import Settings

Cause = Literal["load", "conflicts", "cross-rack", "forced"]


@dataclass(frozen=True, slots=True)
class Relief:
    """Load per second that a plan takes off the hottest member, with its standard error."""

    load: float
    stderr: float


def relief_of(problem: GroupProblem, after: Ints) -> Relief:
    """Compare the hottest member now with the hottest member under `after`."""
    before = problem.owner
    hot_before = _hottest(problem, before)
    hot_after = _hottest(problem, after)
    share: Floats = np.where(before == hot_before, 1.0, 0.0) - np.where(
        after == hot_after, problem.capacity[hot_before] / problem.capacity[hot_after], 0.0
    )
    return Relief(
        load=float(share @ problem.load),
        stderr=float(np.sqrt(np.square(share * problem.load_stderr).sum())),
    )


def _hottest(problem: GroupProblem, owner: Ints) -> int:
    held = owner >= 0
    load = np.bincount(owner[held], problem.load[held], minlength=len(problem.member_ids))
    return int(np.argmax(load / problem.capacity))


def causes_of(
    problem: GroupProblem, settings: Settings, present: Certificate, plan: GroupPlan
) -> list[Cause]:
    """List why the plan should replace the present assignment; empty means all is level."""
    causes: list[Cause] = []
    if not _keeps_wishes(problem):
        causes.append("forced")
    enter = plan.certificate.lower_bound * (1 + settings.imbalance_enter)
    if present.max_utilisation > max(enter, plan.certificate.max_utilisation):
        causes.append("load")
    if plan.certificate.conflicts < present.conflicts:
        causes.append("conflicts")
    saved = present.cross_rack_load - plan.certificate.cross_rack_load
    if saved > settings.imbalance_enter * float(problem.load.sum()):
        causes.append("cross-rack")
    return causes


def _keeps_wishes(problem: GroupProblem) -> bool:
    """Tell whether the present owners already honour draining, pins and co-partitioned topics."""
    owner, pinned = problem.owner, problem.pinned
    if problem.excluded[owner].any() or ((pinned >= 0) & (pinned != owner)).any():
        return False
    for topics in problem.copartition:
        rows = np.flatnonzero(np.isin(problem.topic, topics))
        order = rows[np.argsort(problem.partition[rows], kind="stable")]
        same = np.diff(problem.partition[order]) == 0
        if (np.diff(owner[order])[same] != 0).any():
            return False
    return True


def as_it_is(problem: GroupProblem) -> GroupProblem:
    """Give the problem without pins and co-partitioning: what members hold may not keep them."""
    nobody = np.full_like(problem.pinned, -1)
    return replace(problem, pinned=nobody, copartition=(), excluded=np.zeros_like(problem.excluded))


def refusal(relief: Relief, moved_load: float, settings: Settings) -> tuple[str, str] | None:
    """Give reason and words why a levelling plan is not worth it, or None."""
    noise = settings.confidence_k * relief.stderr
    if relief.load <= noise:
        k = f"{settings.confidence_k:g} standard errors ({noise:.4g}/s)"
        return "within-noise", f"relief {relief.load:.4g}/s is within {k}"
    price = moved_load * limits.PAUSE_S_EXPECTED
    gain = relief.load * settings.horizon_s
    if gain <= price:
        over = f"{relief.load:.4g}/s over {settings.horizon_s:g} s is {gain:.4g}"
        return "not-worth-it", f"relief {over}, the pause of the moved partitions costs {price:.4g}"
    return None
