"""The score of a placement, worked out from the recorded line alone, apart from `agent.streams`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Score:
    """What a placement is compared by; less is better throughout."""

    cross_rack_active: int
    cross_rack_standby: int
    moved: int
    moved_cold: int
    created: int
    load_max: float
    load_spread: float
    shared_racks: int
    missing: int
    active_per_client: tuple[int, ...]


def score(
    line: Line,
    active: Sequence[int],
    standby: Sequence[Sequence[int]],
    clients: Sequence[Mapping[str, Any]] | None = None,
) -> Score:
    """Score a placement; `clients` are the live ones of a round with their previous tasks."""
    tasks, everyone = line["tasks"], line["clients"]
    rows = [{"client": i, **c} for i, c in enumerate(everyone)] if clients is None else clients
    live = [row["client"] for row in rows]
    rack = {c: everyone[c].get("rack") for c in live}
    owner: dict[int, int] = {}
    held: dict[int, set[int]] = {t: set() for t in range(len(tasks))}
    for row in rows:
        for t in row.get("prev_active", []):
            owner[t] = row["client"]
            held[t].add(row["client"])
        for t in row.get("prev_standby", []):
            held[t].add(row["client"])
    threads = {
        row["client"]: row.get("threads", everyone[row["client"]]["threads"]) for row in rows
    }
    count = dict.fromkeys(live, 0)
    for t, c in enumerate(active):
        count[c] += 1
        for copy in standby[t]:
            count[copy] += 1
    loads = [count[c] / threads[c] for c in live]
    moved = [t for t, c in owner.items() if active[t] != c]
    racks = len({r for r in rack.values() if r is not None})
    copies = [(active[t], *standby[t]) for t in range(len(tasks))]
    wanted = min(len(live), 1 + line["config"]["num_standby_replicas"])
    return Score(
        cross_rack_active=sum(
            _cross(line, task["source"], rack[active[t]]) for t, task in enumerate(tasks)
        ),
        cross_rack_standby=sum(
            _cross(line, task["changelog"], rack[c])
            for t, task in enumerate(tasks)
            for c in standby[t]
        ),
        moved=len(moved),
        moved_cold=sum(tasks[t]["stateful"] and active[t] not in held[t] for t in moved),
        created=sum(c not in held[t] for t in range(len(tasks)) for c in standby[t]),
        load_max=max(loads),
        load_spread=max(loads) - min(loads),
        shared_racks=sum(
            len({rack[c] for c in held_by}) < min(len(held_by), racks) for held_by in copies
        ),
        missing=sum(
            max(0, wanted - len(held_by))
            for held_by, task in zip(copies, tasks, strict=True)
            if task["stateful"]
        ),
        active_per_client=tuple(list(active).count(c) for c in live),
    )


def _cross(line: Line, partitions: Sequence[Sequence[int]], rack: int | None) -> int:
    """Count partitions with no replica in the rack."""
    topics = line["topics"]
    return sum(rack is None or rack not in topics[t]["partitions"][p] for t, p in partitions)


def faults(line: Line, answer: Mapping[str, Any], live: int) -> list[str]:
    """Say what makes an answer illegal, nothing if it is legal."""
    found = []
    wanted = min(live, 1 + line["config"]["num_standby_replicas"])
    for task in line["tasks"]:
        name = task["id"]
        copies = answer["standby"].get(name, [])
        everyone = [answer["active"].get(name), *copies]
        if None in everyone:
            found.append(f"{name} has no active")
        if len(set(everyone)) < len(everyone):
            found.append(f"{name} is twice on a client")
        if task["stateful"] and len(everyone) < wanted:
            found.append(f"{name} lacks standbys")
        if task["stateful"] and len(everyone) > wanted + len(answer["warmup"].get(name, [])):
            found.append(f"{name} has copies beyond its warmups")
        if copies and not task["stateful"]:
            found.append(f"{name} is stateless and has standbys")
    return found


def dominates(ours: Score, kafka: Score) -> list[str]:
    """Name the measures in which ours is worse than Kafka's."""
    eps = 1e-9
    measures = {
        "load": ours.load_max - kafka.load_max,
        "spread": ours.load_spread - kafka.load_spread,
        "cross-rack": ours.cross_rack_active - kafka.cross_rack_active,
        "cold": ours.moved_cold - kafka.moved_cold,
        "shared racks": ours.shared_racks - kafka.shared_racks,
        "missing": ours.missing - kafka.missing,
    }
    return [name for name, excess in measures.items() if excess > eps]
