"""Where tasks of unequal load should be in the end.

Goals are judged by where they lead once all copies are warm: load of copies level, then load of
actives, each within a slack of the best in which nothing is worth moving for; then copies that
share a rack, traffic, what there is to restore, moves. Where things stand is one of the goals.

Promise: deterministic, and settled: chosen again from where it leads, the goal is the same, but for
the largest problems and for what is still on the disks of those who hold no copy any more.
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final

import numpy as np

from agent import limits
from agent.streams import level
from agent.streams.ahead import caught_up
from agent.streams.merit import Merit, measure
from agent.streams.problem import Ints, Placement, Problem
from agent.streams.target import (
    ORDERS,
    TRAFFIC,
    WEIGHTS,
    Holdings,
    load_per_thread,
    place_actives,
    place_copies,
    replicated,
)

SETTLE_ROUNDS_MAX: Final = 4
"""Goals chosen from where the one before leads; two do in practice."""

Goal = tuple[Ints, Sequence[Sequence[int]]]
"""Client (T,) that should run each task in the end, and per task those of its other copies."""


def settled_goal(problem: Problem, holdings: Holdings) -> Goal:
    """Choose goals, each from where the one before leads, until nothing would move any more."""
    goal = _level_goal(problem, holdings)
    for _ in range(0 if problem.is_large else SETTLE_ROUNDS_MAX):
        placed = _placement(problem, goal)
        there = caught_up(problem, placed)
        further = _level_goal(there, Holdings(there))
        if _placement(problem, further) == placed:
            break
        goal = further
    return goal


def _level_goal(problem: Problem, holdings: Holdings) -> Goal:
    """Choose where unequal loads should be in the end."""
    kept = _kept(problem)
    goals = [*([kept] if kept else []), *_level_goals(problem, holdings, kept)]
    found = [(goal, measure(problem, _placement(problem, goal))) for goal in goals]
    for load_of in (attrgetter("load_max"), attrgetter("active_max")):
        limit = min(load_of(merit) for _, merit in found) * (1 + limits.STREAMS_LEVEL_SLACK)
        # What is there may be further off than what would take its place: no goal chases another.
        stay = limit * (1 + limits.STREAMS_LEVEL_SLACK)
        found = [
            (g, merit) for g, merit in found if load_of(merit) <= (stay if g is kept else limit)
        ]
    racks = problem.config.strategy != "none"
    before = problem.previous_active

    def price(choice: tuple[Goal, Merit]) -> tuple[int, ...]:
        (target, _), merit = choice
        moves = int(((before >= 0) & (before != target)).sum())
        traffic = merit.cross_rack if racks else 0
        return merit.shared_racks, traffic, merit.bytes_restored, moves

    return min(found, key=price)[0]


def _placement(problem: Problem, goal: Goal) -> Placement:
    target, copies = goal
    standby = tuple(tuple(sorted(clients)) for clients in copies)
    return Placement(tuple(target.tolist()), standby, ((),) * problem.tasks, followup=False)


def _level_goals(problem: Problem, holdings: Holdings, kept: Goal | None) -> Iterator[Goal]:
    """Give plans with their loads evened out, from what is there and from flows."""
    if kept is not None:
        yield level.share_roles(problem, *kept)
        yield level.share_roles(problem, *level.even_out(problem, holdings, *kept))
    for weights in (TRAFFIC,) if problem.is_large else WEIGHTS:
        owner = place_actives(problem, holdings, weights)
        for order in ORDERS[:1] if problem.is_large else ORDERS:
            placed = place_copies(problem, holdings, owner, order)
            yield level.share_roles(problem, *level.even_out(problem, holdings, owner, placed))


def _kept(problem: Problem) -> Goal | None:
    """Give what is there now without copies beyond those wanted; None if some are missing.

    Of the copies of a task on its way those on the most loaded clients go: it was for their sake
    that the others were made.
    """
    target = problem.previous_active.copy()
    wanted: list[int] = (1 + replicated(problem)).tolist()
    copies = [set(held) for held in problem.held]
    if (target < 0).any() or any(len(c) < w for c, w in zip(copies, wanted, strict=True)):
        return None
    others = [clients - {int(owner)} for clients, owner in zip(copies, target, strict=True)]
    load = load_per_thread(problem, target.tolist(), [sorted(clients) for clients in others])
    for task in np.argsort(-problem.load, kind="stable").tolist():
        while len(copies[task]) > wanted[task]:
            gone = max(copies[task], key=lambda client: (load[client], client))
            copies[task].remove(gone)
            load[gone] -= problem.load[task] / problem.threads[gone]
        if target[task] not in copies[task]:
            target[task] = min(copies[task], key=lambda client: (load[client], client))
        copies[task].remove(int(target[task]))
    return target, [sorted(clients) for clients in copies]
