"""The demo's picture, as PNG and on one HTML page: load per consumer, lag and moves over time."""

import html
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np

from deploy.local.demo.report import Measurement, table
from deploy.local.history import owners_at
from deploy.local.measures import Floats, lag_bytes, load_per_client

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

STEP_MS: Final = 2_000
"""Two seconds of a consumer's share are some 500 records: 5 % of noise."""

PHASE_COLOURS: Final[Mapping[str, str]] = {
    "before": "#c0504d",
    "after": "#4f9d69",
    "killed": "#8064a2",
    "joined": "#4bacc6",
}


def draw(measured: Measurement) -> Figure:
    """Draw the run over time: three panels with one clock."""
    notes = measured.notes
    start, end = notes.started_ms, notes.finished_ms
    edges = np.arange(start, end, STEP_MS, dtype=np.float64)
    figure, panels = plt.subplots(
        4, 1, sharex=True, figsize=(11, 11), height_ratios=(3, 3, 2, 0.8), layout="constrained"
    )
    offered, processed, lag, moved = panels
    mean = measured.stage.traffic.rate_mb_s / 12
    times = (edges[:-1] - start) / 1e3
    shades = plt.get_cmap("tab20")
    colours = {client: shades(i) for i, client in enumerate(sorted(measured.stage.consumers))}
    for client, series in _offered_per_client(measured, edges).items():
        offered.plot(times, series / 1e6, linewidth=1.0, color=colours[client], label=client)
    _, loads = load_per_client(measured.history, start, int(edges[-1]), STEP_MS)
    for client, series in loads.items():
        processed.plot(times, series / 1e6, linewidth=1.0, color=colours[client])
    for panel, title in ((offered, "offered to"), (processed, "processed by")):
        panel.set_ylabel(f"{title} each\nconsumer, MB/s")
        panel.axhline(1.25 * mean, color="black", linestyle="--", linewidth=0.8, label="capacity")
        panel.axhline(mean, color="black", linestyle=":", linewidth=0.8, label="mean")
    offered.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    offered.set_xlim(0, times[-1])
    marks = [int(ms) for ms in edges]
    lags = np.array(lag_bytes(measured.history, measured.truth, marks)) / 1e6
    lag.fill_between((edges - start) / 1e3, lags, color="#7f7f7f", alpha=0.6)
    lag.set_ylabel("lag, MB")
    arrivals = [(move.arrived_ms - start) / 1e3 for move in measured.moves]
    moved.hist(arrivals, bins=[*times, times[-1] + 2], color="#1f497d")
    moved.set_ylabel("moves")
    moved.set_xlabel("seconds since the start")
    for panel in panels:
        _mark(panel, measured)
    traffic = measured.stage.traffic
    what = f"{traffic.topics} topics of {traffic.partitions} partitions, 12 consumers"
    figure.suptitle(f"{what}, seed {traffic.seed}")
    return figure


def _offered_per_client(measured: Measurement, edges: Floats) -> dict[str, Floats]:
    """Return what was produced to the partitions of each consumer, bytes per second per step."""
    truth = measured.truth
    columns = [
        np.diff(np.interp(edges, truth.ms, truth.produced_bytes[:, i]))
        for i in range(len(truth.partitions))
    ]
    series = {client: np.zeros(len(edges) - 1) for client in sorted(measured.stage.consumers)}
    for step in range(len(edges) - 1):
        owners = owners_at(measured.history, int(edges[step] + STEP_MS / 2))
        for i, partition in enumerate(truth.partitions):
            if partition in owners:
                series[owners[partition]][step] += columns[i][step] * 1e3 / STEP_MS
    return series


def _mark(panel: Axes, measured: Measurement) -> None:
    """Shade the measured windows and mark what was done to the group."""
    notes = measured.notes
    for name, (start, end) in notes.phases.items():
        left, right = ((ms - notes.started_ms) / 1e3 for ms in (start, end))
        panel.axvspan(left, right, color=PHASE_COLOURS[name], alpha=0.12, linewidth=0)
    for ms, text in (
        (notes.enforced_ms, "enforce"),
        (notes.killed_ms, f"{notes.killed} killed"),
        (notes.joined_ms, f"{notes.joined} added"),
    ):
        at = (ms - notes.started_ms) / 1e3
        panel.axvline(at, color="black", linewidth=0.8)
        panel.annotate(
            text,
            (at, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(3, -10),
            textcoords="offset points",
            fontsize=7,
        )


def write_pictures(measured: Measurement, report: Mapping[str, Any], folder: Path) -> None:
    """Write demo.png and demo.html, which needs no other file, to `folder`."""
    figure = draw(measured)
    figure.savefig(folder / "demo.png", dpi=120)
    svg = io.StringIO()
    figure.savefig(svg, format="svg")
    plt.close(figure)
    text = svg.getvalue()
    (folder / "demo.html").write_text(_page(text[text.index("<svg") :], measured, report))


def _page(svg: str, measured: Measurement, report: Mapping[str, Any]) -> str:
    """Return the HTML page."""
    start = measured.notes.started_ms
    rows = "".join(
        f"<tr><td>{(move.arrived_ms - start) / 1e3:.1f}</td><td>{html.escape(move.partition.topic)}"
        f"</td><td>{move.partition.number}</td><td>{html.escape(move.source)}</td>"
        f"<td>{html.escape(move.destination)}</td></tr>"
        for move in measured.moves
        if move.arrived_ms >= measured.notes.enforced_ms
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Plimsoll demo</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2em auto; color: #222 }}
svg {{ width: 100%; height: auto }}
td, th {{ padding: 0 .8em; text-align: right; font-variant-numeric: tabular-nums }}
pre {{ background: #f4f4f4; padding: 1em; overflow-x: auto }}
</style></head><body>
<h1>An uneven consumer group becomes level</h1>
<pre>{html.escape(table(report))}</pre>
{svg}
<details><summary>Every move since the group was set to enforce</summary>
<table><tr><th>s</th><th>topic</th><th>partition</th><th>from</th><th>to</th></tr>{rows}</table>
</details>
<details><summary>report.json</summary>
<pre>{html.escape(json.dumps(report, indent=2))}</pre></details>
</body></html>
"""
