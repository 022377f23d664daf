"""Errors against exact truth on a real cluster: quiet, under retention, under disturbance."""

from collections.abc import Callable
from dataclasses import asdict

import matplotlib as mpl
import numpy as np

from bench.measure import report
from bench.measure.stage import INTERVAL_S, RETENTION, Load, Row, folder, percentiles, run
from deploy.local.cluster import LocalCluster

mpl.use("Agg")

WARM_S = 70.0
"""A full window, and a sample more, before errors count."""

SPIKE = 1.3
"""No estimate may exceed the truth by this factor."""

ACCURACY = [
    Load("uniform", 0.6),
    Load("spread", 0.6, size_spread=9),
    Load("retention", 0.9, size_spread=9, config=RETENTION),
]
BOUNDS = {"uniform": (0.02, 0.05), "spread": (0.03, 0.08), "retention": (0.10, 0.10)}
CHAOS = [
    Load(
        "chaos",
        0.6,
        size_spread=9,
        options=("--compression=zstd", "--entropy=0.5"),
        config=RETENTION,
        replicas=3,
    )
]


def accuracy(seconds: float, seed: int) -> bool:
    """Print errors of bytes/s and the honesty of their standard errors; True when all hold."""
    rows, truth = run(ACCURACY, seconds, seed)
    holds = []
    for load in ACCURACY:
        ours = [row for row in _judged(rows) if load.owns(row.topic)]
        median, p95 = percentiles([row.error for row in ours])
        highest = max(row.bytes_per_s / row.true_bytes_per_s for row in ours)
        bounds = BOUNDS[load.name]
        holds += [
            report.figure(f"{load.name}: median error", median, bounds[0], "%"),
            report.figure(f"{load.name}: p95 error", p95, bounds[1], "%"),
            report.figure(f"{load.name}: highest estimate / truth", highest, SPIKE, "x"),
        ]
    covered = _coverage(rows, truth.between(rows[0].ms, rows[-1].ms), seed)
    holds.append(report.between("true rates within 2 standard errors", covered, 0.90, 0.98))
    _draw_errors(rows)
    kept = [asdict(row) for row in rows]
    report.write("accuracy", {"seconds": seconds, "seed": seed, "rows": kept})
    return all(holds)


def chaos(seed: int) -> bool:
    """Compress, delete, move leaders, kill and revive a broker; True when nothing false shows."""

    def move(cluster: LocalCluster) -> None:
        for partition in range(4):
            cluster.move_leader("chaos-00", partition)

    steps: dict[float, Callable[[LocalCluster], None]] = {
        95.0: move,
        140.0: lambda cluster: cluster.kill_broker(3),
        190.0: lambda cluster: cluster.start_broker(3),
    }
    rows, _ = run(CHAOS, 250.0, seed, steps)
    judged = _judged(rows)
    highest = max(row.bytes_per_s / row.true_bytes_per_s for row in judged)
    lowest = min(row.bytes_per_s / row.true_bytes_per_s for row in judged)
    moved = {row.partition for row in judged if row.reason == "leader-moved"}
    holds = [
        report.figure("highest estimate / truth", highest, SPIKE, "x"),
        report.at_least("lowest estimate / truth", lowest, 0.7),
        report.at_least("zero estimates of busy partitions", -_zeros(judged), 0),
        report.at_least("partitions that said leader-moved", len(moved), 4),
    ]
    reasons = sorted({str(row.reason) for row in rows})
    print("reasons given:", ", ".join(reasons))
    _draw_chaos(rows, steps)
    report.write("chaos", {"seed": seed, "reasons": reasons})
    return all(holds)


def _judged(rows: list[Row]) -> list[Row]:
    """Give the rows after the warm-up of partitions with traffic worth a rate."""
    busy = [row for row in rows if row.true_records_per_s * 60 >= 20]
    begin_s = min(row.second for row in rows) + WARM_S
    return [row for row in busy if row.second >= begin_s]


def _zeros(rows: list[Row]) -> int:
    return sum(row.bytes_per_s == 0 for row in rows)


def _coverage(
    rows: list[Row], stored: dict[tuple[str, int], tuple[float, float]], seed: int
) -> float:
    """Return how often the rate on the long run lies within two errors of a window's estimate.

    That rate is known from the generator's law: its share of all records, times the bytes that the
    brokers stored per record. Windows do not overlap.
    """
    hits = []
    for load in ACCURACY:
        shares = load.expected_shares(seed)
        total = sum(records for (topic, _), (_, records) in stored.items() if load.owns(topic))
        for row in _judged(rows):
            if load.owns(row.topic) and row.second % 60 < INTERVAL_S:
                in_bytes, in_records = stored[row.topic, row.partition]
                truth = shares[row.topic, row.partition] * total * in_bytes / in_records
                hits.append(abs(row.bytes_per_s - truth) <= 2 * row.bytes_per_s_stderr)
    print(f"({len(hits)} partition windows)")
    return float(np.mean(hits))


def _draw_errors(rows: list[Row]) -> None:
    import matplotlib.pyplot as plt  # noqa: PLC0415 -- after the backend is chosen

    figure, axes = plt.subplots(figsize=(7, 4))
    for load in ACCURACY:
        errors = sorted(row.error for row in _judged(rows) if load.owns(row.topic))
        axes.plot(100 * np.array(errors), np.linspace(0, 100, len(errors)), label=load.name)
    axes.set(xlabel="error of bytes/s, %", ylabel="estimates, %", xlim=(0, 12))
    axes.axhline(95, color="grey", lw=0.5)
    axes.legend()
    figure.tight_layout()
    figure.savefig(folder() / "accuracy.png", dpi=120)


def _draw_chaos(rows: list[Row], steps: dict[float, Callable[[LocalCluster], None]]) -> None:
    import matplotlib.pyplot as plt  # noqa: PLC0415 -- after the backend is chosen

    figure, axes = plt.subplots(figsize=(8, 4))
    for place in sorted({(row.topic, row.partition) for row in rows}):
        ours = [row for row in rows if (row.topic, row.partition) == place]
        ratio = [row.bytes_per_s / max(row.true_bytes_per_s, 1) for row in ours]
        axes.plot([row.second for row in ours], ratio, lw=0.7)
    for second, name in zip(sorted(steps), ("leaders moved", "killed", "back"), strict=True):
        axes.axvline(second, color="grey", lw=0.5)
        axes.text(second, 1.45, name, fontsize=8)
    axes.set(xlabel="s", ylabel="estimate / truth", ylim=(0, 1.6))
    figure.tight_layout()
    figure.savefig(folder() / "chaos.png", dpi=120)
