"""The peers against Kafka's answers: owners of range and round-robin, figures of sticky."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agent.assign import GroupProblem
from agent.assign.model import Ints
from bench.groups.instances import GOLDEN, from_golden, golden_lines
from bench.groups.peers import range_assignor, round_robin, sticky


@dataclass(frozen=True, slots=True)
class Agreement:
    """Lines compared, and lines on which the peer agreed with Kafka."""

    compared: int
    agreed: int


def compare(path: Path = GOLDEN) -> dict[str, Agreement]:
    """Compare all golden lines without racks (ours leave rack matching out)."""
    found: dict[str, list[bool]] = {"range": [], "roundrobin": [], "cooperative-sticky": []}
    for line in golden_lines(path):
        if line["racks"]:
            continue
        problem = from_golden(line)
        order = _kafka_order(line, problem)
        kafka = line["kafka"]
        for name, peer in (("range", range_assignor), ("roundrobin", round_robin)):
            if name in kafka:
                ours = peer(problem, order)
                found[name].append(bool((ours == _owners(line, problem, name)).all()))
        if "cooperative-sticky" in kafka and line["shape"] != "stale_claims":
            found["cooperative-sticky"].append(_same_figures(line, problem, sticky(problem)))
    return {name: Agreement(len(same), sum(same)) for name, same in found.items()}


def _kafka_order(line: dict[str, Any], problem: GroupProblem) -> list[int]:
    """Order members as Kafka does: static ones by instance id first, then the others by id."""
    index = {m: i for i, m in enumerate(problem.member_ids)}
    keyed = sorted(
        (m.get("instance_id") is None, m.get("instance_id") or m["id"], m["id"])
        for m in line["members"]
    )
    return [index[name] for _, _, name in keyed]


def _owners(line: dict[str, Any], problem: GroupProblem, name: str) -> Ints:
    """Give Kafka's owner of each row of the problem."""
    index = {m: i for i, m in enumerate(problem.member_ids)}
    topic_of = {t["name"]: i for i, t in enumerate(line["topics"])}
    answer = line["kafka"][name]["owner"]
    ids = [m["id"] for m in line["members"]]
    found = []
    for topic, number in zip(problem.topic.tolist(), problem.partition.tolist(), strict=True):
        member = answer[topic_of[problem.topics[topic]]][number]
        found.append(-1 if member is None or member < 0 else index[ids[member]])
    return np.array(found, dtype=np.int64)


def _same_figures(line: dict[str, Any], problem: GroupProblem, ours: Ints) -> bool:
    """Tell whether counts are as even as Kafka's and no more partitions moved."""
    score = line["kafka"]["cooperative-sticky"]["score"]
    count = np.bincount(ours[ours >= 0], minlength=len(problem.member_ids))
    readers = [set(t.tolist()) for t in problem.subscriptions]
    moved = sum(
        1
        for row in np.flatnonzero((problem.owner >= 0) & (ours != problem.owner)).tolist()
        if int(problem.topic[row]) in readers[problem.subscription[problem.owner[row]]]
    )
    return bool(count.max() == score["count_max"] and moved == score["moved"])
