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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from agent import limits, wire
from agent.assign import GroupProblem, Member, Options, Partitions
from agent.core.state import Floats, LoadChunk, State
from agent.core.tuning import Settings, cost_of
from cost.combine import combine


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
    now_ms = state.now_ms
    rates = {t: _rates_of(state.loads.get(t, {}), shapes[t].partitions, now_ms) for t in topics}
    _check_rates(rates, len(rows), now_ms)
    load, stderr = _cost(state, group, topics, rates)
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
            load=load,
            load_stderr=stderr.tolist(),
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
class _TopicRates:
    """What is measured of a topic, by partition number: names of costs to values and errors."""

    columns: dict[str, tuple[Floats, Floats]]
    measured: int
    oldest_ms: int


def _rates_of(chunks: Mapping[int, LoadChunk], partitions: int, now_ms: int) -> _TopicRates:
    """Join a topic's fresh chunks; a partition without a rate gets the topic's mean and spread."""
    names = ("bytes_per_s", "bytes_per_s_stderr", "records_per_s", "records_per_s_stderr")
    table = np.full((len(names), partitions), np.nan)
    for chunk in chunks.values():
        if now_ms - chunk.ms > limits.LOAD_STALE_MS_MAX:
            continue
        rows = chunk.partition < partitions
        for column, name in zip(table, names, strict=True):
            column[chunk.partition[rows]] = getattr(chunk, name)[rows]
    known = ~np.isnan(table[0])
    measured = int(known.sum())
    for rate, stderr in (table[:2], table[2:]):
        if 0 < measured < partitions:
            mean = rate[known].mean()
            stderr[~known] = max(mean, rate[known].std())
            rate[~known] = mean
    table = np.nan_to_num(table)
    return _TopicRates(
        columns={"network_ingress": (table[0], table[1]), "records": (table[2], table[3])},
        measured=measured,
        oldest_ms=min((c.ms for c in chunks.values()), default=0),
    )


def _check_rates(rates: Mapping[str, _TopicRates], total: int, now_ms: int) -> None:
    measured = sum(one.measured for one in rates.values())
    if measured >= limits.COMPLETENESS_MIN * total:
        return
    heard = [one.oldest_ms for one in rates.values() if one.oldest_ms]
    if heard and now_ms - min(heard) > limits.LOAD_STALE_MS_MAX:
        raise NotAdmitted(
            "refuse", "loads-stale", f"oldest rates are {(now_ms - min(heard)) / 1e3:.0f} s old"
        )
    raise NotAdmitted("refuse", "loads-missing", f"{measured} of {total} partitions have a rate")


def _cost(
    state: State, group: str, topics: Sequence[str], rates: Mapping[str, _TopicRates]
) -> tuple[Floats, Floats]:
    """Weigh bytes and records into one load per partition, topics one after the other.

    Where topics are weighed differently, each cost is first divided by its mean over the group,
    so that the topics have one unit.
    """
    columns = {
        name: (
            np.concatenate([rates[t].columns[name][0] for t in topics]),
            np.concatenate([rates[t].columns[name][1] for t in topics]),
        )
        for name in ("network_ingress", "records")
    }
    weights = {t: cost_of(state.configs, group, t, state.now_ms) for t in topics}
    if len(set(weights.values())) == 1:
        return combine(columns, msgspec.structs.asdict(weights[topics[0]]))
    load = np.zeros(len(columns["records"][0]))
    variance = np.zeros_like(load)
    for name, (value, stderr) in columns.items():
        mean = float(value.mean()) or 1.0
        share = np.concatenate(
            [np.full(len(rates[t].columns[name][0]), _share(weights[t], name)) for t in topics]
        )
        load += share * value / mean
        variance += np.square(share * stderr / mean)
    return load, np.sqrt(variance)


def _share(weights: wire.CostWeights, name: str) -> float:
    share: float = getattr(weights, name) / (weights.network_ingress + weights.records)
    return share
