"""Where a placement leads: the same application once every copy has caught up, round after round.

A plan that is on its way is only as good as what can follow it. How fast copies restore is not
known, so each is taken to be complete by the next round; that flatters all plans alike.
"""

from collections.abc import Callable
from dataclasses import replace

from agent.streams.problem import RUNNING, Placement, Problem

ROUNDS_MAX = 4
"""Rounds that are looked ahead; recorded events take two or three, rarely more."""


def caught_up(problem: Problem, placement: Placement) -> Problem:
    """Give the problem of the next round, nobody having joined or left."""
    active: list[list[int]] = [[] for _ in range(problem.clients)]
    standby: list[list[int]] = [[] for _ in range(problem.clients)]
    lags = [
        {task: 0 if lag == RUNNING else lag for task, lag in own.items()} for own in problem.lags
    ]
    for task, client in enumerate(placement.active):
        active[client].append(task)
        for copy in placement.standby[task]:
            standby[copy].append(task)
            lags[copy][task] = 0
        if problem.stateful[task]:
            lags[client][task] = RUNNING
    return replace(
        problem,
        prev_active=tuple(map(tuple, active)),
        prev_standby=tuple(map(tuple, standby)),
        lags=tuple(lags),
    )


def rounds_left(
    problem: Problem,
    placement: Placement,
    assign: Callable[[Problem], Placement],
    most: int = ROUNDS_MAX,
) -> int:
    """Count the rounds after this one until `assign` wants no follow-up; `most` ends the count."""
    for rounds in range(most):
        if not placement.followup:
            return rounds
        if rounds + 1 < most:  # else the answer would make no difference
            problem = caught_up(problem, placement)
            placement = assign(problem)
    return most
