"""Targets as records: made from plans, compared with what members hold, accepted or refused."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from agent import limits, wire
from agent.assign import GroupProblem
from agent.core.state import Ints, State
from agent.core.tuning import Settings

Assignment = dict[str, dict[str, list[int]]]


def assignment_of(problem: GroupProblem, owner: Ints) -> Assignment:
    """Give member, topic, partitions; every member is named, also one without partitions."""
    held: Assignment = {m: {} for m in problem.member_ids}
    rows = zip(problem.topic.tolist(), problem.partition.tolist(), owner.tolist(), strict=True)
    for topic, partition, member in rows:
        if member >= 0:
            of_member = held[problem.member_ids[member]]
            of_member.setdefault(problem.topics[topic], []).append(partition)
    return held


def plan_id_of(group: str, assignment: Mapping[str, Any]) -> str:
    """Name a plan by its content: the same assignment of a group always has the same id."""
    content = msgspec.json.encode([group, assignment], order="deterministic")
    return hashlib.sha256(content).hexdigest()[:12]


def target_of(
    state: State,
    problem: GroupProblem,
    owner: Ints,
    settings: Settings,
    last: wire.Target | None,
    spent: wire.Spent,
) -> wire.Target:
    """Turn a plan into the record that members follow; its revision is one above the last."""
    group = str(problem.id)
    assignment = assignment_of(problem, owner)
    recent = [] if last is None else [s for s in last.recent if _in_window(s, state.now_ms)]
    counts = np.bincount(problem.topic, minlength=len(problem.topics)).tolist()
    return wire.Target(
        ms=state.now_ms,
        epoch=next_epoch(state, last),
        revision=next_revision(last),
        plan_id=plan_id_of(group, assignment),
        ttl_ms=int(settings.target_ttl_s * 1000),
        mode=settings.mode,
        base=wire.Base(
            members=list(problem.member_ids),
            partitions=dict(zip(problem.topics, counts, strict=True)),
        ),
        assignment=assignment,
        weights=_weights(problem),
        capacity=dict(zip(problem.member_ids, problem.capacity.tolist(), strict=True)),
        rack={
            member: problem.racks[rack]
            for member, rack in zip(problem.member_ids, problem.member_rack.tolist(), strict=True)
            if rack >= 0
        },
        recent=[*recent, spent],
    )


def next_epoch(state: State, last: wire.Target | None) -> int:
    """Give the epoch of the record that follows `last`; it never goes back."""
    return state.epoch if last is None else max(state.epoch, last.epoch)


def next_revision(last: wire.Target | None) -> int:
    """Give the revision of the record that follows `last`."""
    return 1 if last is None else last.revision + 1


def _weights(problem: GroupProblem) -> dict[str, list[int]]:
    """Give integer cost units per topic, the heaviest partition of the group at the maximum."""
    heaviest = float(problem.load.max(initial=0.0))
    scale = limits.WEIGHT_UNITS_MAX / heaviest if heaviest > 0 else 0.0
    units = np.rint(problem.load * scale).astype(np.int64)
    return {
        topic: units[problem.topic == index].tolist() for index, topic in enumerate(problem.topics)
    }


def _in_window(spent: wire.Spent, now_ms: int) -> bool:
    return now_ms - spent.ms < limits.BUDGET_WINDOW_MS


def spent_of(target: wire.Target | None, now_ms: int) -> tuple[int, float]:
    """Give discretionary moves and share of load moved within the budget window."""
    recent = [] if target is None else [s for s in target.recent if _in_window(s, now_ms)]
    return sum(s.moves for s in recent), sum(s.load_share for s in recent)


def fits(target: wire.Target, membership: wire.Membership) -> bool:
    """Tell whether a target is for exactly these members, subscriptions and partitions."""
    reads = {m.stable_id: set(m.topics) for m in membership.members}
    subscribed: set[str] = set().union(*reads.values())
    shapes = {t: s.partitions for t, s in membership.topics.items() if t in subscribed}
    return (
        sorted(reads) == sorted(target.base.members)
        and shapes == target.base.partitions
        and all(reads[m].issuperset(topics) for m, topics in target.assignment.items())
    )


def drift_of(target: wire.Target, membership: wire.Membership) -> int:
    """Count the partitions that a member should own and does not."""
    held = {m.stable_id: m.owned for m in membership.members}
    return sum(
        len(set(partitions) - set(held.get(member, {}).get(topic, ())))
        for member, topics in target.assignment.items()
        for topic, partitions in topics.items()
    )


def supersedes(new: wire.Target, old: wire.Target | None, epoch: int) -> bool:
    """Tell whether a target read from the topic counts: epochs and revisions never go back."""
    if new.epoch < epoch:
        return False
    return old is None or (new.epoch, new.revision) >= (old.epoch, old.revision)
