"""Contract in, contract out, for kind `consumer-group`: JSON-like objects to columns and back.

Promises: every refusal is a `TheirFault` whose path names the field as the caller wrote it.
Does not: read or write JSON text, or decide anything.
"""

import math
import re
from typing import Any, Literal

import msgspec
import numpy as np

from agent.assign.model import (
    NOBODY,
    GroupPlan,
    GroupProblem,
    Member,
    Options,
    Partitions,
)
from agent.errors import TheirFault


class _Member(msgspec.Struct):
    id: str
    topics: list[str]
    capacity: float = 1.0
    rack: str | None = None


class _Partition(msgspec.Struct):
    topic: str
    partition: int
    load: float
    load_stderr: float | None = None
    racks: list[str] | None = None
    broker: str | int | None = None
    owner: str | None = None


class _Options(msgspec.Struct):
    imbalance: float = 0.05
    incompatibility: Literal["none", "network-ingress", "astraea"] = "none"
    rack_aware: bool = True
    move_unit: Literal["count", "load"] = "count"
    max_moves: int | None = None
    max_moved_load: float | None = None
    pin: list[tuple[str, int, str]] = []
    copartition: list[list[str]] = []
    exclude: list[str] = []


class _Document(msgspec.Struct):
    kind: Literal["consumer-group"]
    members: list[_Member]
    partitions: list[_Partition]
    id: str | int | None = None
    incompatible: list[tuple[tuple[str, int], tuple[str, int]]] | None = None
    options: _Options = msgspec.field(default_factory=_Options)
    pin: list[tuple[str, int, str]] = []
    copartition: list[list[str]] = []
    exclude: list[str] = []


_WHERE = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?\$\.?(?P<path>.*)`)?$", re.DOTALL)


def parse(document: object) -> GroupProblem:
    """Turn a decoded document into a problem; raises TheirFault(path, message)."""
    try:
        d = msgspec.convert(document, _Document)
    except msgspec.ValidationError as error:
        where = _WHERE.match(str(error))
        path, what = (where["path"] or "", where["what"]) if where else ("", str(error))
        raise TheirFault(path, what) from error
    except (OverflowError, RecursionError) as error:
        raise TheirFault(_overflow_path(document), "not a finite number") from error
    o = d.options
    options = Options(
        imbalance=o.imbalance,
        incompatibility=o.incompatibility,
        rack_aware=o.rack_aware,
        move_unit=o.move_unit,
        max_moves=o.max_moves,
        max_moved_load=o.max_moved_load,
    )
    rows = d.partitions
    return GroupProblem.build(
        [Member(m.id, m.topics, m.capacity, m.rack) for m in d.members],
        Partitions(
            topic=[p.topic for p in rows],
            partition=[p.partition for p in rows],
            load=[p.load for p in rows],
            owner=[p.owner for p in rows],
            load_stderr=[p.load_stderr for p in rows],
            racks=[p.racks for p in rows],
            broker=[None if p.broker is None else str(p.broker) for p in rows],
        ),
        id=d.id,
        incompatible=d.incompatible or [],
        pin=[*d.pin, *o.pin],
        copartition=[*d.copartition, *o.copartition],
        exclude=[*d.exclude, *o.exclude],
        options=options,
    )


def _overflow_path(document: object) -> str:
    """Find the first integer that no double can hold (such a number has no path of its own)."""

    def walk(node: Any, path: str) -> str | None:
        if isinstance(node, int) and not isinstance(node, bool):
            try:
                float(node)
            except OverflowError:
                return path
        items: Any = ()
        if isinstance(node, dict):
            items = ((f"{path}.{k}" if path else str(k), v) for k, v in node.items())
        elif isinstance(node, list):
            items = ((f"{path}[{i}]", v) for i, v in enumerate(node))
        return next((found for p, v in items if (found := walk(v, p)) is not None), None)

    try:
        return walk(document, "") or ""
    except RecursionError:
        return ""


def render(problem: GroupProblem, plan: GroupPlan) -> dict[str, object]:
    """Turn a plan into the answer of the contract; members and partitions in sorted order."""
    members = problem.member_ids
    held: dict[str, list[list[str | int]]] = {m: [] for m in members}
    unassigned: list[list[str | int]] = []
    topics, numbers = problem.topics, problem.partition.tolist()
    for row, (topic, owner) in enumerate(
        zip(problem.topic.tolist(), plan.owner.tolist(), strict=True)
    ):
        target = unassigned if owner == NOBODY else held[members[owner]]
        target.append([topics[topic], numbers[row]])
    certificate = {
        name: _finite(getattr(plan.certificate, name))
        for name in plan.certificate.__dataclass_fields__
    }
    answer: dict[str, object] = {
        "id": problem.id,
        "assignment": held,
        "certificate": certificate,
        "moves": [
            {
                "partition": problem.partition_name(move.partition),
                "from": members[move.source],
                "to": members[move.target],
                "why": move.why,
            }
            for move in plan.moves
        ],
    }
    if unassigned:
        answer["unassigned"] = unassigned
    if plan.limited_by is not None:
        answer["limited_by"] = {
            "partition": problem.partition_name(plan.limited_by.partition),
            "message": plan.limited_by.message,
        }
    answer["elapsed_ms"] = {name: round(ms, 3) for name, ms in plan.elapsed_ms.items()}
    return answer


def _finite(value: float) -> float | int:
    """Give a plain JSON number; the certificate never holds anything else."""
    number = value.item() if isinstance(value, np.generic) else value
    if not math.isfinite(number):
        raise ValueError(f"the certificate holds {number}")
    return number
