"""Recorded instances and what Kafka's own assignors made of them.

A line refers to tasks, clients, topics and racks by index; `document` puts names back, so that
the answer comes through the same door as anybody's.
"""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Line = dict[str, Any]
Document = dict[str, Any]

ORACLE = Path(__file__).parents[3] / "shared" / "oracle"
"""All recorded lines, where they are at hand."""

EXCERPT = Path(__file__).parents[2] / "tests" / "data" / "streams"
"""The lines that the tests use."""


def lines(path: Path) -> Iterator[Line]:
    """Read one object per line, gzipped or not."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        for text in file:
            yield json.loads(text)


def single_shots() -> list[Line]:
    """Instances that are assigned once: small ones, large ones, scale-test ones."""
    if not ORACLE.is_dir():
        return list(lines(EXCERPT / "rack.jsonl.gz"))
    names = ("streams_rack.jsonl.gz", "streams_large.jsonl", "streams_scale.jsonl.gz")
    return [line for name in names for line in lines(ORACLE / name)]


def closed_loops() -> list[Line]:
    """Instances that are assigned round after round."""
    if not ORACLE.is_dir():
        return list(lines(EXCERPT / "rounds.jsonl.gz"))
    return list(lines(ORACLE / "streams_ha.jsonl.gz"))


def document(
    line: Line,
    assignor: str,
    strategy: str,
    *,
    initial: tuple[Sequence[int], Sequence[Sequence[int]] | None] | None = None,
    clients: Sequence[Mapping[str, Any]] | None = None,
    **config: Any,
) -> Document:
    """Give the document of a line; `clients` are those of one round, all of the line otherwise."""
    tasks, everyone = line["tasks"], line["clients"]
    names = [task["id"] for task in tasks]
    ids = [client["id"] for client in everyone]
    rows = [{"client": i, **c} for i, c in enumerate(everyone)] if clients is None else clients
    result: Document = {
        "kind": "streams-tasks",
        "id": line["id"],
        "config": {
            **line["config"],
            "assignor": assignor,
            "rack_aware_strategy": strategy,
            **config,
        },
        "topics": [
            {
                "name": topic["name"],
                "partitions": [[line["racks"][r] for r in racks] for racks in topic["partitions"]],
            }
            for topic in line["topics"]
        ],
        "tasks": [_task(line, task) for task in tasks],
        "clients": [_client(line, names, row) for row in rows],
    }
    if initial is not None:
        active, standby = initial
        result["initial"] = {
            "active": {names[t]: ids[c] for t, c in enumerate(active)},
            "standby": {
                names[t]: [ids[c] for c in copies] for t, copies in enumerate(standby or [])
            },
        }
    return result


def _task(line: Line, task: Mapping[str, Any]) -> Document:
    topics = line["topics"]
    fields = {
        "id": task["id"],
        "stateful": task["stateful"],
        "source": [[topics[t]["name"], p] for t, p in task["source"]],
        "changelog": [[topics[t]["name"], p] for t, p in task["changelog"]],
    }
    fields |= {name: task[name] for name in ("end_offset", "load") if name in task}
    return fields


def _client(line: Line, names: Sequence[str], row: Mapping[str, Any]) -> Document:
    client = line["clients"][row["client"]]
    rack = client.get("rack")
    return {
        "id": client["id"],
        "rack": None if rack is None else line["racks"][rack],
        "threads": row.get("threads", client["threads"]),
        "tags": client.get("tags", {}),
        "prev_active": [names[t] for t in row.get("prev_active", [])],
        "prev_standby": [names[t] for t in row.get("prev_standby", [])],
        "lags": {names[int(t)]: lag for t, lag in row.get("lags", {}).items()},
    }


def placement(line: Line, answer: Mapping[str, Any]) -> tuple[list[int], list[list[int]]]:
    """Give active (client per task) and standby (clients per task) of an answer, by index."""
    ids = {client["id"]: i for i, client in enumerate(line["clients"])}
    names = [task["id"] for task in line["tasks"]]
    return (
        [ids[answer["active"][name]] for name in names],
        [sorted(ids[c] for c in answer["standby"].get(name, [])) for name in names],
    )


def recorded(line: Line, result: Mapping[str, Any]) -> tuple[list[int], list[list[int]]]:
    """Give the same of what Kafka did."""
    standby = result.get("standby") or [[] for _ in line["tasks"]]
    return list(result["active"]), [sorted(copies) for copies in standby]
