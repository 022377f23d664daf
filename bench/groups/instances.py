"""Instances of consumer groups: seeded generators, and Kafka's golden ones where they are at hand.

Everything is made from `random.Random(seed)`, so that a shape and a seed name an instance for ever.
"""

import gzip
import heapq
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent.assign import GroupProblem, Member, Options, Partitions

GOLDEN = Path(__file__).parents[2] / "tests" / "data" / "groups" / "golden.jsonl.gz"
"""A subset of what Kafka 4.3.1's own assignors answered; see tests/data/groups/README.md."""

WEIGHT_LAWS = ("equal", "uniform", "lognormal", "zipf")
SUBSCRIPTION_LAWS = ("all", "buckets", "nested", "random")


@dataclass(frozen=True, slots=True)
class Shape:
    """What an instance looks like; `prior` is how its present owners came about."""

    partitions: int
    members: int
    topics: int = 8
    law: str = "lognormal"
    subscriptions: str = "all"
    prior: str = "count"  # none | count | hash | level
    event: str = "none"  # none | join | leave | replace
    racks: int = 0
    capacities: tuple[float, ...] = (1.0,)
    imbalance: float = 0.05
    rack_aware: bool = True
    replicas: int = 2

    def name(self) -> str:
        """Give a short name for tables."""
        racks = f" {self.racks} racks" if self.racks else ""
        return (
            f"{self.partitions}x{self.members} {self.law} {self.subscriptions} "
            f"{self.prior}/{self.event}{racks}"
        )


def loads(law: str, n: int, rng: random.Random) -> list[float]:
    """Draw n loads of one law; zipf is shuffled."""
    if law == "equal":
        return [1.0] * n
    if law == "uniform":
        return [rng.uniform(0.5, 1.5) for _ in range(n)]
    if law == "lognormal":
        return [rng.lognormvariate(0, 1) for _ in range(n)]
    drawn = [1000.0 / (rank + 1) ** 1.1 for rank in range(n)]
    rng.shuffle(drawn)
    return drawn


def _subscriptions(shape: Shape, names: list[str], rng: random.Random) -> list[list[str]]:
    m = shape.members
    if shape.subscriptions == "all":
        return [names] * m
    if shape.subscriptions == "buckets":
        count = min(5, len(names), m)
        return [names[i % count :: count] for i in range(m)]
    if shape.subscriptions == "nested":
        return [names[: 1 + (i * len(names)) // m] if i < m - 1 else names for i in range(m)]
    chosen = [sorted(rng.sample(names, max(1, len(names) // 2))) for _ in range(m)]
    chosen[0] = names
    return chosen


def make(shape: Shape, seed: int) -> GroupProblem:
    """Make one problem."""
    rng = random.Random(f"{shape.name()} {seed}")
    names = [f"topic-{t:02d}" for t in range(shape.topics)]
    rows = [(names[i % shape.topics], i // shape.topics) for i in range(shape.partitions)]
    weights = loads(shape.law, shape.partitions, rng)
    rack_names = [f"rack-{r}" for r in range(shape.racks)]
    members = [
        Member(
            id=f"member-{i:05d}",
            topics=topics,
            capacity=shape.capacities[i % len(shape.capacities)],
            rack=rack_names[i % shape.racks] if shape.racks else None,
        )
        for i, topics in enumerate(_subscriptions(shape, names, rng))
    ]
    former = members
    if shape.event == "join":
        former = members[:-1]
    elif shape.event == "leave":
        former = [*members, replace(members[-1], id="left")]
    elif shape.event == "replace":
        former = [*members[:-1], replace(members[-1], id="left")]
    racks: list[list[str]] | None = None
    if shape.racks:
        racks = [
            [rack_names[(i + k) % shape.racks] for k in range(min(shape.replicas, shape.racks))]
            for i in (rng.randrange(shape.racks) for _ in rows)
        ]
    return GroupProblem.build(
        members,
        Partitions(
            topic=[t for t, _ in rows],
            partition=[p for _, p in rows],
            load=weights,
            owner=_prior(shape, former, rows, weights, rng),
            racks=racks,
        ),
        id=f"{shape.name()} #{seed}",
        options=Options(imbalance=shape.imbalance, rack_aware=shape.rack_aware),
    )


def _prior(
    shape: Shape,
    former: list[Member],
    rows: list[tuple[str, int]],
    weights: list[float],
    rng: random.Random,
) -> list[str | None]:
    """Own every partition as some earlier assignor would have: by count, hash or load."""
    if shape.prior == "none":
        return [None] * len(rows)
    readers: dict[str, list[int]] = {}
    for i, member in enumerate(former):
        for topic in member.topics:
            readers.setdefault(topic, []).append(i)
    held = [0.0] * len(former)
    owner: list[str | None] = [None] * len(rows)
    order = list(range(len(rows)))
    if shape.prior == "level":
        order.sort(key=lambda i: -weights[i])
    else:
        rng.shuffle(order)
    if shape.subscriptions == "all" and shape.prior != "hash":
        # All members read everything: one heap, for sizes where looking at all of them is slow.
        heap = [(0.0, m) for m in range(len(former))]
        for i in order:
            least, m = heap[0]
            more = weights[i] if shape.prior == "level" else 1.0
            heapq.heapreplace(heap, (least + more / former[m].capacity, m))
            owner[i] = former[m].id
        return owner
    for i in order:
        among = readers.get(rows[i][0])
        if among is None:
            continue
        if shape.prior == "hash":
            target = rng.choice(among)
        else:
            target = min(among, key=lambda m: held[m] / former[m].capacity)
        held[target] += weights[i] if shape.prior == "level" else 1.0
        owner[i] = former[target].id
    return owner


def astraea(seed: int, key_tables: int, *, pairs: str = "astraea") -> GroupProblem:
    """Make the geometry of Astraea's experiment: 10 topics x 16, 12 members, zipf(1.25) keys.

    10,000 keys hashed to 16 partitions; topics that share a key table have their hot partition at
    the same index. Loads are in MB/s and sum to 3000; 6 brokers lead in turn.
    """
    rng = random.Random(f"astraea {seed} {key_tables}")
    tables: list[list[float]] = []
    for _ in range(key_tables):
        share = [0.0] * 16
        for rank in range(10_000):
            share[rng.randrange(16)] += 1.0 / (rank + 1) ** 1.25
        tables.append(share)
    names = [f"topic-{t:02d}" for t in range(10)]
    rows = [(t, p) for t in range(10) for p in range(16)]
    raw = [tables[t % key_tables][p] for t, p in rows]
    scale = 3000.0 * 1e6 / sum(raw)
    starts = [rng.randrange(6) for _ in names]
    return GroupProblem.build(
        [Member(f"member-{i:02d}", names) for i in range(12)],
        Partitions(
            topic=[names[t] for t, _ in rows],
            partition=[p for _, p in rows],
            load=[x * scale for x in raw],
            owner=[None] * len(rows),
            broker=[str((starts[t] + p) % 6) for t, p in rows],
        ),
        id=f"astraea {key_tables} key tables #{seed}",
        options=Options(incompatibility="astraea" if pairs == "astraea" else "network-ingress"),
    )


def golden_lines(path: Path = GOLDEN) -> Iterator[dict[str, Any]]:
    """Read golden lines: an instance and what Kafka's assignors answered."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def from_golden(line: dict[str, Any], *, rack_aware: bool = True) -> GroupProblem:
    """Turn a golden line into a problem; a partition claimed twice goes to the newer generation."""
    topics, racks = line["topics"], line["racks"]
    owner: dict[tuple[int, int], tuple[int, str]] = {}
    for member in line["members"]:
        for t, numbers in member.get("owned") or []:
            for p in numbers:
                claim = (member.get("generation") or 0, member["id"])
                owner[t, p] = max(owner.get((t, p), (-1, "")), claim)
    rows = [(t, p) for t, topic in enumerate(topics) for p in range(topic["partitions"])]
    brokers = {b["id"]: b.get("rack") for b in line["brokers"]}

    def racks_of(t: int, p: int) -> list[str]:
        found = {brokers[b] for b in topics[t]["replicas"][p]}
        return [] if None in found else sorted(racks[r] for r in found)

    return GroupProblem.build(
        [
            Member(
                m["id"],
                [topics[t]["name"] for t in m["topics"]],
                m["capacity"],
                None if m.get("rack") is None else racks[m["rack"]],
            )
            for m in line["members"]
        ],
        Partitions(
            topic=[topics[t]["name"] for t, _ in rows],
            partition=[p for _, p in rows],
            load=[topics[t]["weights"][p] for t, p in rows],
            owner=[owner[row][1] if row in owner else None for row in rows],
            racks=[racks_of(t, p) for t, p in rows],
            broker=[str(topics[t]["replicas"][p][0]) for t, p in rows],
        ),
        id=line["id"],
        options=Options(rack_aware=rack_aware),
    )
