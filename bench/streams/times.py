"""Times beside Kafka's: `elapsed_ms.total`, warm, and the CPU time of Kafka's assigning thread."""

import random
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent import streams
from bench.streams import golden

WARM_RUNS = 5
Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Size:
    """A size with the limit that it must keep, in ms, for `min_traffic`."""

    tasks: int
    clients: int
    racks: int
    limit_ms: float
    subtopologies: int = 5


SIZES = (
    Size(300, 15, 3, 10.0),
    Size(500, 20, 3, 20.0),
    Size(1000, 50, 3, 60.0, 10),
    Size(10_000, 500, 3, 2_000.0, 10),
)
KAFKA_LINE = {(300, 15): "SL-02", (500, 20): "SL-03", (1000, 50): "SL-04"}
SCALE_LIMIT_MS = 1_000.0


def measure() -> list[Entry]:
    """Time every size with every assignor that the limits speak of."""
    recorded = {
        line["id"]: line for line in golden.single_shots() if line["id"].startswith(("SL", "SS"))
    }
    table = []
    for size in SIZES:
        line = recorded.get(KAFKA_LINE.get((size.tasks, size.clients), ""))
        for strategy, factor in (("min_traffic", 1.0), ("balance_subtopology", 2.0)):
            large = size.tasks >= 10_000
            limit = size.limit_ms * (1.0 if large else factor)
            for assignor in ("engine", "plimsoll"):
                document = synthetic(size, assignor, strategy)
                table.append(_entry(_name(size), assignor, strategy, document, limit, line))
    for name, line in sorted(recorded.items()):
        for result in line["kafka"] if name.startswith("SS") else ():
            short, strategy = result.split("/")
            assignor = {"ha": "high-availability", "sticky": "sticky"}[short]
            document = golden.document(line, assignor, strategy)
            label = f"{name} {len(line['tasks'])}/{len(line['clients'])}"
            table.append(_entry(label, assignor, strategy, document, SCALE_LIMIT_MS, line))
    return table


def _name(size: Size) -> str:
    return f"{size.tasks}/{size.clients}/{size.racks}"


def _entry(
    name: str,
    assignor: str,
    strategy: str,
    document: golden.Document,
    limit_ms: float,
    line: golden.Line | None,
) -> Entry:
    wall, cpu = [], []
    for _ in range(WARM_RUNS):
        started = time.process_time()
        answer: Any = streams.answer(document)
        cpu.append((time.process_time() - started) * 1e3)
        wall.append(answer["elapsed_ms"]["total"])
    return {
        "size": name,
        "assignor": assignor,
        "strategy": strategy,
        "ms": round(min(wall), 2),
        "cpu_ms": round(min(cpu), 2),
        "limit_ms": limit_ms,
        "holds": min(wall) <= limit_ms,
        "kafka_cpu_ms": _kafka_cpu_ms(line, assignor, strategy),
    }


def _kafka_cpu_ms(line: golden.Line | None, assignor: str, strategy: str) -> float | None:
    short = {"engine": "engine", "plimsoll": "ha", "high-availability": "ha", "sticky": "sticky"}
    result = line["kafka"].get(f"{short[assignor]}/{strategy}") if line else None
    if not result or "ms" not in result:
        return None
    found = [ms for phase, ms in result["ms"].items() if phase.endswith("_cpu")]
    return round(sum(found), 1) if found else None


def synthetic(size: Size, assignor: str, strategy: str) -> golden.Document:
    """Make an instance: one source and one changelog partition a task, one replica each."""
    rng = random.Random(size.tasks)
    racks = [f"rack-{r}" for r in range(size.racks)]
    per = size.tasks // size.subtopologies
    names = [f"{s}_{p}" for s in range(size.subtopologies) for p in range(per)]
    ids = [str(uuid.UUID(int=rng.getrandbits(128))) for _ in range(size.clients)]
    owner = [ids[i % size.clients] for i in range(len(names))]
    rng.shuffle(owner)
    copy = [rng.choice([c for c in ids if c != owner[i]]) for i in range(len(names))]
    topics = [
        {"name": f"{kind}{s}", "partitions": [[rng.choice(racks)] for _ in range(per)]}
        for s in range(size.subtopologies)
        for kind in ("in", "log")
    ]
    tasks = [
        {
            "id": name,
            "stateful": True,
            "source": [[f"in{name.split('_')[0]}", int(name.split("_")[1])]],
            "changelog": [[f"log{name.split('_')[0]}", int(name.split("_")[1])]],
            "end_offset": 100_000,
        }
        for name in names
    ]
    clients = []
    for i, client in enumerate(ids):
        active = [n for n, c in zip(names, owner, strict=True) if c == client]
        standby = [n for n, c in zip(names, copy, strict=True) if c == client]
        clients.append(
            {
                "id": client,
                "rack": racks[i % size.racks],
                "threads": 1,
                "prev_active": active,
                "prev_standby": standby,
                "lags": dict.fromkeys(active, -2) | dict.fromkeys(standby, 0),
            }
        )
    document: golden.Document = {
        "kind": "streams-tasks",
        "id": _name(size),
        "config": {
            "assignor": assignor,
            "rack_aware_strategy": strategy,
            "num_standby_replicas": 1,
        },
        "topics": topics,
        "tasks": tasks,
        "clients": clients,
    }
    if assignor == "engine":
        document["initial"] = {
            "active": dict(zip(names, owner, strict=True)),
            "standby": {name: [c] for name, c in zip(names, copy, strict=True)},
        }
    return document


def show(table: list[Entry]) -> None:
    """Print the table."""
    print(
        f"{'size':16} {'assignor':18} {'strategy':20} {'ms':>9} {'cpu':>9} {'limit':>7}  Kafka cpu"
    )
    for entry in table:
        kafka = "-" if entry["kafka_cpu_ms"] is None else f"{entry['kafka_cpu_ms']:.1f}"
        print(
            f"{entry['size']:16} {entry['assignor']:18} {entry['strategy']:20} {entry['ms']:9.2f} "
            f"{entry['cpu_ms']:9.2f} {entry['limit_ms']:7.0f}  {kafka:>10}"
            f"{'' if entry['holds'] else '  FAILS'}"
        )


def paint(table: list[Entry], path: Path) -> None:
    """Paint our CPU times beside Kafka's, on a logarithmic scale."""
    import matplotlib as mpl  # noqa: PLC0415 -- an extra, and slow to import

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 -- as above

    both = [entry for entry in table if entry["kafka_cpu_ms"]]
    labels = [f"{e['size']}\n{e['assignor']}\n{e['strategy']}" for e in both]
    figure, axes = plt.subplots(figsize=(max(8, len(both) * 0.9), 5), layout="constrained")
    at = range(len(both))
    axes.bar(
        [i - 0.2 for i in at], [e["kafka_cpu_ms"] for e in both], 0.4, label="Kafka 4.3.1, CPU"
    )
    axes.bar([i + 0.2 for i in at], [e["cpu_ms"] for e in both], 0.4, label="Plimsoll, CPU")
    axes.set_yscale("log")
    axes.set_ylabel("ms")
    axes.set_xticks(list(at), labels, fontsize=6)
    axes.legend()
    figure.savefig(path, dpi=150)
    plt.close(figure)
