"""The arms side by side: max/LB, moves, conflicts, load across racks, time; table and picture.

Output goes to `build/bench/groups/`: `arms.json` and `arms.png`.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from agent import assign
from agent.assign import GroupProblem
from agent.assign.certificate import certify
from agent.assign.model import Ints
from bench.groups.instances import Shape, astraea, make
from bench.groups.peers import ARMS
from bench.groups.referee import fewest_moves

OUTPUT = Path("build/bench/groups")

REFEREE_CELLS_MAX = 4_000
"""Partitions x members up to which the referee is asked; beyond, it needs minutes."""

REFEREE_SECONDS = 20.0

SLOW_ARM_CELLS_MAX = 2_000
"""Partitions x members up to which the random search is run."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one arm did on one instance; `over_bound` is max utilisation over the lower bound."""

    instance: str
    arm: str
    over_bound: float
    moves: int
    conflicts: int
    cross_rack: float
    ms: float


def instances(seed: int) -> list[GroupProblem]:
    """Give the instances of the table."""
    return [
        make(Shape(200, 20, 5, "lognormal", event="join"), seed),
        make(Shape(200, 20, 5, "equal", "random", event="leave"), seed),
        make(Shape(200, 20, 5, "uniform", prior="hash", racks=3, replicas=1), seed),
        make(Shape(1_000, 20, 10, "lognormal", prior="hash"), seed),
        make(Shape(2_000, 100, 20, "lognormal", "buckets", event="join"), seed),
        make(Shape(10_000, 100, 20, "zipf", event="replace"), seed),
        astraea(seed, 1),
        astraea(seed, 3),
    ]


def run(seed: int) -> list[Result]:
    """Run all arms, print the table, write JSON and picture."""
    results: list[Result] = []
    print(
        f"{'instance':44} {'arm':20} {'max/LB':>7} {'moves':>6} {'confl.':>6} "
        f"{'cross':>8} {'ms':>9}"
    )
    for problem in instances(seed):
        problem = assign.with_incompatible(problem)  # noqa: PLW2901 -- arms see the same pairs
        for result in _on_one(problem):
            results.append(result)
            print(
                f"{result.instance:44} {result.arm:20} {result.over_bound:7.3f} {result.moves:6d} "
                f"{result.conflicts:6d} {result.cross_rack:8.1f} {result.ms:9.1f}",
                flush=True,
            )
    OUTPUT.mkdir(parents=True, exist_ok=True)
    rows = [asdict(result) for result in results]
    (OUTPUT / "arms.json").write_text(json.dumps({"seed": seed, "results": rows}, indent=1) + "\n")
    _draw(results, OUTPUT / "arms.png")
    print(f"wrote {OUTPUT / 'arms.json'} and {OUTPUT / 'arms.png'}")
    return results


def _on_one(problem: GroupProblem) -> list[Result]:
    cells = len(problem.topic) * len(problem.member_ids)
    found = [_measured(problem, "Plimsoll", lambda p: assign.solve(p).owner)]
    for name, arm in ARMS.items():
        if name != "Astraea shuffle" or cells <= SLOW_ARM_CELLS_MAX:
            found.append(_measured(problem, name, arm))
    if cells <= REFEREE_CELLS_MAX:
        level = certify(problem, found[0][1]).lower_bound * (1 + problem.options.imbalance)

        def referee(p: GroupProblem) -> Ints:
            verdict = fewest_moves(p, level, seconds=REFEREE_SECONDS)
            return found[0][1] if verdict is None else verdict.owner

        found.append(_measured(problem, "MIP, fewest moves", referee))
    return [result for result, _ in found]


def _measured(
    problem: GroupProblem, name: str, arm: Callable[[GroupProblem], Ints]
) -> tuple[Result, Ints]:
    started = time.perf_counter()
    owner = arm(problem)
    ms = (time.perf_counter() - started) * 1e3
    c = certify(problem, owner)
    return (
        Result(
            str(problem.id), name, c.ratio, c.moves, c.conflicts, round(c.cross_rack_load, 3), ms
        ),
        owner,
    )


def _draw(results: list[Result], path: Path) -> None:
    """Draw one panel for each figure, arms as colours."""
    from matplotlib.figure import Figure  # noqa: PLC0415 -- an extra

    names = list(dict.fromkeys(r.instance for r in results))
    arms = list(dict.fromkeys(r.arm for r in results))
    figure = Figure(figsize=(14, 14), layout="constrained")
    panels = figure.subplots(5, 1, sharex=True)
    figures = (
        ("over_bound", "max / lower bound"),
        ("moves", "moves"),
        ("conflicts", "conflicts"),
        ("cross_rack", "load across racks"),
        ("ms", "ms"),
    )
    width = 0.8 / len(arms)
    for panel, (field, title) in zip(panels, figures, strict=True):
        for i, arm in enumerate(arms):
            at = [names.index(r.instance) + i * width for r in results if r.arm == arm]
            panel.bar(at, [getattr(r, field) for r in results if r.arm == arm], width, label=arm)
        panel.set_ylabel(title)
        if field in {"ms", "moves", "cross_rack"}:
            panel.set_yscale("symlog")
    panels[0].legend(ncols=4, fontsize=8)
    panels[-1].set_xticks(np.arange(len(names)) + 0.4, names, rotation=20, ha="right", fontsize=8)
    figure.savefig(path, dpi=110)
