"""Looking ahead: the next round as a closed loop would make it, and how many are left."""

from itertools import pairwise
from typing import Any

from agent import streams
from agent.streams import door, planner
from agent.streams.ahead import ROUNDS_MAX, caught_up, rounds_left
from agent.streams.closed_loop import ClosedLoop, Event
from agent.streams.problem import Placement, Problem
from tests.unit.streams.test_plimsoll import IDS, application


def _loop(document: dict[str, Any]) -> ClosedLoop:
    return ClosedLoop(document, catch_up_per_round=10**9, growth_per_round=0, rounds_max=8)


def test_the_next_round_is_that_of_a_loop_in_which_copies_catch_up() -> None:
    """After each round of scaling out, the problem foreseen is the one that comes."""
    document = application(4, 12, num_standby_replicas=1)
    loop = _loop(document)
    rounds = list(loop.run([Event(add=IDS[:3]), Event(add=IDS[3:])], streams.answer))
    compared = 0
    for this, following in pairwise(rounds):
        if this.event != following.event:
            continue
        problem = door.read(this.document)
        foreseen = caught_up(problem, planner.assign(problem))
        came = door.read(following.document)
        assert foreseen.prev_active == came.prev_active
        assert foreseen.prev_standby == came.prev_standby
        assert foreseen.lags == came.lags
        compared += 1
    assert compared


def test_rounds_are_counted_until_nothing_is_wanted() -> None:
    """Settled is none, a loop that never settles is the bound, else the rounds that come."""
    document = application(3, 6)
    problem = door.read(document)
    quiet = planner.assign(problem)
    asked: list[Problem] = []

    def always(problem: Problem) -> Placement:
        asked.append(problem)
        return Placement(quiet.active, quiet.standby, quiet.warmup, followup=len(asked) < 3)

    restless = Placement(quiet.active, quiet.standby, quiet.warmup, followup=True)
    assert rounds_left(problem, quiet, always) == 0
    assert rounds_left(problem, restless, always) == 3
    assert rounds_left(problem, restless, lambda _: restless) == ROUNDS_MAX
