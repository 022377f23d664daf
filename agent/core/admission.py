"""May we act on what we know? Every refusal has a name; half the data decides nothing.

`admit` turns a group's records into a problem for the assignor, or says why not. Reasons:

| reason | verdict | what an operator does |
|---|---|---|
| `no-members` | hold | nothing: the group is empty |
| `no-partitions` | hold | look at the subscriptions |
| `membership-stale` | refuse | look at the collector |
| `unsupported-protocol` | refuse | the group uses KIP-848 or is no consumer group |
| `rebalancing` | hold | nothing: the group is not Stable |
| `ambiguous-members` | refuse | give members unique `client.id`s or `group.instance.id`s |
| `unowned-partitions` | hold | look at the subscriptions if it lasts |
| `loads-missing` | refuse | look at the pipeline: too few partitions have a measured rate |
| `loads-stale` | refuse | look at the pipeline: the newest rates are too old |
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from agent import limits, wire
from agent.assign import GroupProblem, Member, Options, Partitions
from agent.core.state import Floats, LoadChunk, State
from agent.core.tuning import Settings, cost_of


class NotAdmitted(Exception):  # noqa: N818 -- a verdict, not an error
    """Nothing may be decided now: verdict, reason code, and the figures in words."""

    def __init__(self, verdict: Literal["hold", "refuse"], reason: str, detail: str) -> None:
        super().__init__(f"{verdict} {reason}: {detail}")
        self.verdict: Literal["hold", "refuse"] = verdict
        self.reason = reason
        self.detail = detail


def admit(
    state: State, group: str, membership: wire.Membership, settings: Settings, options: Options
) -> GroupProblem:
    """Give the group's problem as of `state.now_ms`. Raises NotAdmitted."""
    _check_membership(membership, state.now_ms)
    topics = sorted({t for m in membership.members for t in m.topics if t in membership.topics})
    owners = _owners(membership)
    shapes = membership.topics
    rows = [(t, p) for t in topics for p in range(shapes[t].partitions)]
    if not rows:
        raise NotAdmitted("hold", "no-partitions", "no member subscribes to a topic that exists")
    missing = [row for row in rows if row not in owners]
    if missing:
        raise NotAdmitted(
            "hold", "unowned-partitions", f"{len(missing)} of {len(rows)}, first {missing[0]}"
        )
    load = {t: _load_of(state, group, t, shapes[t].partitions) for t in topics}
    _check_loads(load, state.now_ms)
    racks: list[list[str] | None] = []
    brokers: list[str | None] = []
    for topic in topics:
        unknown = [None] * shapes[topic].partitions
        racks += shapes[topic].racks or unknown
        brokers += shapes[topic].leader or unknown
    return GroupProblem.build(
        [
            Member(
                id=m.stable_id,
                topics=[t for t in m.topics if t in shapes],
                capacity=settings.capacity_of(m.stable_id),
                rack=m.rack,
            )
            for m in membership.members
        ],
        Partitions(
            topic=[t for t, _ in rows],
            partition=[p for _, p in rows],
            load=np.concatenate([load[t].rate for t in topics]),
            load_stderr=np.concatenate([load[t].stderr for t in topics]).tolist(),
            owner=[owners[row] for row in rows],
            racks=racks,
            broker=brokers,
        ),
        id=group,
        pin=settings.pin,
        copartition=settings.copartition,
        exclude=settings.exclude,
        options=options,
    )


def _check_membership(membership: wire.Membership, now_ms: int) -> None:
    age_ms = now_ms - membership.ms
    if age_ms > limits.MEMBERSHIP_STALE_MS_MAX:
        raise NotAdmitted("refuse", "membership-stale", f"snapshot is {age_ms / 1e3:.0f} s old")
    if membership.kind != "consumer" or membership.protocol != "classic":
        raise NotAdmitted(
            "refuse",
            "unsupported-protocol",
            f"kind {membership.kind}, protocol {membership.protocol}",
        )
    if not membership.members:
        raise NotAdmitted("hold", "no-members", f"state {membership.state}")
    if membership.state != "Stable":
        raise NotAdmitted("hold", "rebalancing", f"state {membership.state}")
    held_by = Counter(m.stable_id for m in membership.members)
    unclear = sorted(i for i, count in held_by.items() if count > 1 or not i)
    if unclear:
        raise NotAdmitted("refuse", "ambiguous-members", f"stable id {unclear[0]!r}")


def _owners(membership: wire.Membership) -> dict[tuple[str, int], str]:
    owners: dict[tuple[str, int], str] = {}
    for member in membership.members:
        for topic, partitions in member.owned.items():
            if topic not in member.topics:
                raise NotAdmitted(
                    "hold", "rebalancing", f"{member.stable_id} owns {topic}, not subscribed to"
                )
            for partition in partitions:
                if (topic, partition) in owners:
                    raise NotAdmitted("hold", "rebalancing", f"{topic}-{partition} has two owners")
                owners[topic, partition] = member.stable_id
    return owners


@dataclass(frozen=True, slots=True)
class _TopicLoad:
    """Rates by partition number, in the group's own unit; NaN where nothing is measured."""

    rate: Floats
    stderr: Floats
    measured: int
    oldest_ms: int


def _load_of(state: State, group: str, topic: str, partitions: int) -> _TopicLoad:
    """Join a topic's chunks; a partition without a rate gets the topic's mean, and its spread."""
    weights = cost_of(state.configs, group, topic, state.now_ms)
    rate = np.full(partitions, np.nan)
    stderr = np.full(partitions, np.nan)
    chunks: Mapping[int, LoadChunk] = state.loads.get(topic, {})
    fresh_ms = state.now_ms - limits.LOAD_STALE_MS_MAX
    for chunk in chunks.values():
        if chunk.ms < fresh_ms:
            continue
        rows = chunk.partition < partitions
        at = chunk.partition[rows]
        rate[at] = (
            weights.network_ingress * chunk.bytes_per_s[rows]
            + weights.records * chunk.records_per_s[rows]
        )
        stderr[at] = np.hypot(
            weights.network_ingress * chunk.bytes_per_s_stderr[rows],
            weights.records * chunk.records_per_s_stderr[rows],
        )
    known = ~np.isnan(rate)
    measured = int(known.sum())
    if 0 < measured < partitions:
        mean = float(rate[known].mean())
        stderr[~known] = max(mean, float(rate[known].std()))
        rate[~known] = mean
    oldest = min((c.ms for c in chunks.values()), default=0)
    return _TopicLoad(np.nan_to_num(rate), np.nan_to_num(stderr), measured, oldest)


def _check_loads(load: Mapping[str, _TopicLoad], now_ms: int) -> None:
    total = sum(len(one.rate) for one in load.values())
    measured = sum(one.measured for one in load.values())
    if measured >= limits.COMPLETENESS_MIN * total:
        return
    heard = [one.oldest_ms for one in load.values() if one.oldest_ms]
    if heard and now_ms - min(heard) > limits.LOAD_STALE_MS_MAX:
        raise NotAdmitted(
            "refuse", "loads-stale", f"oldest rates are {(now_ms - min(heard)) / 1e3:.0f} s old"
        )
    raise NotAdmitted("refuse", "loads-missing", f"{measured} of {total} partitions have a rate")
