"""`plimsoll`: actives, standbys and stateless tasks in one plan.

Kafka's assignor computes a target that ignores who holds what, and then spends rounds on getting
there. This one starts from who holds what: it moves what level load needs, prefers clients that
have the state, spreads copies over racks, and lets extra copies warm up within a budget of bytes.

Several plans differ in what comes first (stay, restore, level, racks, traffic). Good enough are
those no worse than Kafka's own placement of the same problem in *every* respect that we measure:
load per thread and its spread, cross-rack actives, cold moves, copies that share a rack. Of these
the best settled one wins (`Merit.rank`), else the first that restores no more than Kafka's, unless
after Kafka's placement the application would settle sooner (`ahead.py`). If none is good enough,
Kafka's placement is the answer, so this assignor is never worse. The yardstick costs a run of
`high_availability`; where that is dear (`Problem.is_large`) the plan is chosen without it.

Kafka levels counts, so where tasks differ in load its placement is no yardstick (`unequal.py`).
"""

from collections.abc import Iterator

import numpy as np

from agent.streams import high_availability
from agent.streams.ahead import rounds_left
from agent.streams.merit import Merit, measure
from agent.streams.problem import Ints, Placement, Problem
from agent.streams.target import (
    LEVEL,
    ORDERS,
    TRAFFIC,
    WEIGHTS,
    Bounds,
    CopyOrder,
    Holdings,
    place_actives,
    place_copies,
    replicated,
)
from agent.streams.transition import Transition
from agent.streams.unequal import settled_goal


def assign(problem: Problem) -> Placement:
    """Assign as `plimsoll` does."""
    holdings = Holdings(problem)
    if np.ptp(problem.load) > 0:
        return Transition(problem, holdings).plan(*settled_goal(problem, holdings))
    if problem.is_large:
        first = TRAFFIC if problem.config.unbounded_lag else LEVEL
        return _plan(problem, holdings, place_actives(problem, holdings, first), "racks")
    kafka = high_availability.assign(problem)
    best = _best(problem, kafka)
    # Kafka's placement knows no budget of bytes; where one is set it does not take precedence.
    if best.followup and best is not kafka and problem.config.warmup_bytes_max is None:
        ours = rounds_left(problem, best, _measured)
        return kafka if rounds_left(problem, kafka, _measured, most=ours) < ours else best
    return best


def _measured(problem: Problem) -> Placement:
    """Give the best plan as far as this round can tell."""
    return _best(problem, high_availability.assign(problem))


def _best(problem: Problem, kafka: Placement) -> Placement:
    """Choose among our plans and Kafka's placement by what they are now."""
    holdings = Holdings(problem)
    yardstick = measure(problem, kafka)
    found = [(plan, measure(problem, plan)) for plan in _plans(problem, holdings, kafka, yardstick)]
    good = [(plan, merit) for plan, merit in found if merit.no_worse(yardstick)]
    if not yardstick.followup:
        # First among equals: from Kafka's own placement Kafka would have nothing to do later.
        good.insert(0, (kafka, yardstick))
    settled = [(plan, merit) for plan, merit in good if not merit.followup]
    if settled:
        racks = problem.config.strategy != "none"
        return min(settled, key=lambda found: found[1].rank(racks=racks))[0]
    # All are on their way: the plan that comes first does so in every round, and gets there.
    frugal = [plan for plan, merit in good if merit.bytes_restored <= yardstick.bytes_restored]
    return next(iter([*frugal, *(plan for plan, _ in good)]), kafka)


def _plans(
    problem: Problem, holdings: Holdings, kafka: Placement, yardstick: Merit
) -> Iterator[Placement]:
    """Give plans, those that disturb least first."""
    owners = [place_actives(problem, holdings, weights) for weights in WEIGHTS]
    for owner in owners:
        for order in ORDERS:
            yield _plan(problem, holdings, owner, order)
    if not kafka.followup:  # Else Kafka's actives are on their way, and these would stop them.
        owner = np.array(kafka.active, dtype=np.int64)
        for order in ORDERS:
            yield _plan(problem, holdings, owner, order)
    # Where Kafka is on its way, its copies leave room: racks or rest may come before level load.
    rooms = _rooms(problem, yardstick)
    for owner in owners:
        for room in rooms:
            for order in ORDERS[:2]:
                yield _plan(problem, holdings, owner, order, room)


def _rooms(problem: Problem, yardstick: Merit) -> list[Bounds]:
    """Give bounds (C,) on copies that are as wide as Kafka's spread: at its top, at the mean."""
    total = problem.tasks + int(replicated(problem).sum())
    mean = total / float(problem.threads.sum())
    top, spread = yardstick.load_max, yardstick.load_spread
    rooms = []
    for least, most in (
        (top - spread, top),
        (max(0.0, mean - spread / 2), min(top, mean + spread / 2)),
    ):
        low = np.ceil(least * problem.threads - 1e-9).astype(np.int64)
        high = np.floor(most * problem.threads + 1e-9).astype(np.int64)
        if (low <= high).all() and low.sum() <= total <= high.sum():
            rooms.append((low, high))
    return rooms


def _plan(
    problem: Problem,
    holdings: Holdings,
    target: Ints,
    order: CopyOrder,
    bounds: Bounds | None = None,
) -> Placement:
    """Place copies around target actives, and see what can be used now."""
    copies = place_copies(problem, holdings, target, order, bounds)
    return Transition(problem, holdings).plan(target, copies)
