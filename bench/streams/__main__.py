"""Print what `agent.streams` promises, row by row, and the figure that was measured.

    python -m bench.streams [--out DIR] [--sample N]

Writes report.json and times.png under build/bench/streams. `--sample 5` takes every fifth line.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from bench.streams import golden, rows, times

Row = Callable[[list[golden.Line], list[golden.Line]], dict[str, object]]

ROWS: dict[str, Row] = {
    "engine, actives": rows.engine_actives,
    "engine, standbys": rows.engine_standbys,
    "high-availability": rows.high_availability,
    "sticky": rows.sticky,
    "plimsoll, one assignment": rows.plimsoll_single,
    "plimsoll, closed loop": rows.plimsoll_loops,
    "plimsoll, unequal loads": rows.plimsoll_unequal,
    "determinism": rows.determinism,
    "bad input": rows.bad_input,
}


def main() -> int:
    """Run all rows; exit 1 if one does not hold."""
    parser = argparse.ArgumentParser(prog="python -m bench.streams", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/bench/streams"))
    parser.add_argument("--sample", type=int, default=1, help="take every Nth recorded line")
    options = parser.parse_args()
    shots = golden.single_shots()[:: options.sample]
    loops = golden.closed_loops()[:: options.sample]
    print(f"{len(shots)} recorded instances, {len(loops)} recorded closed loops")
    report: dict[str, object] = {}
    all_hold = True
    for name, row in ROWS.items():
        figures = row(shots, loops)
        holds = bool(figures["holds"])
        all_hold &= holds
        report[name] = figures
        print(f"{'holds ' if holds else 'FAILS '} {name}")
        for key, value in figures.items():
            if key != "holds":
                print(f"         {key}: {value}")
    table = times.measure()
    report["time"] = table
    times.show(table)
    all_hold &= all(entry["holds"] for entry in table)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    times.paint(table, options.out / "times.png")
    print(f"written: {options.out}/report.json, {options.out}/times.png")
    return 0 if all_hold else 1


if __name__ == "__main__":
    sys.exit(main())
