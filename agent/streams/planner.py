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
`high_availability`; where that is dear (see `limits.STREAMS_YARDSTICK_CELLS_MAX`) the plan is
chosen without it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

import numpy as np

from agent import limits
from agent.streams import high_availability, level
from agent.streams.ahead import caught_up, rounds_left
from agent.streams.problem import UNKNOWN, Ints, Placement, Problem
from agent.streams.target import (
    Bounds,
    CopyOrder,
    Holdings,
    Weights,
    load_per_thread,
    place_actives,
    place_copies,
    replicated,
)
from agent.streams.transition import Transition

STAY = Weights(away=10_000, warm=1_000, cold=10_000_000, slack=100_000)
"""Nothing moves without its state for traffic's sake, nor to be level within one per thread."""

STAY_NEAR = Weights(away=1_000_000, warm=1_000, cold=10_000_000, slack=100_000)
"""The same, but within one task per thread of level, traffic comes before level load."""

RESTORE = Weights(away=1, warm=1_000, cold=10_000_000, slack=100_000_000)
"""Level first, then restore least; traffic only decides between equals."""

LEVEL = Weights(away=10_000, warm=1_000, cold=10_000_000, slack=100_000_000)
"""As `STAY`, but level load is worth a cold move."""

TRAFFIC = Weights(away=10_000_000, warm=1_000, cold=100_000, slack=100_000_000)
"""Level first, then the least traffic, then the fewest cold moves."""

FREE = Weights(away=10_000, warm=1, cold=100, slack=100_000_000)
"""Level first, then traffic and what there is to restore; a move by itself costs nearly nothing."""


WEIGHTS: Final = (STAY, STAY_NEAR, RESTORE, LEVEL, TRAFFIC, FREE)
ORDERS: Final[tuple[CopyOrder, ...]] = ("racks", "stay", "level")


SETTLE_ROUNDS_MAX: Final = 4
"""Goals chosen from where the one before leads; two do in practice."""


@dataclass(frozen=True, slots=True)
class Merit:
    """What a placement is measured by; less is better throughout."""

    load_max: float
    load_spread: float
    active_max: float
    cross_rack: int
    cold_moves: int
    shared_racks: int
    copies_missing: int
    bytes_restored: int
    followup: bool

    def rank(self, *, racks: bool) -> tuple[float, ...]:
        """Order plans that are good enough: settled first, level, then what disturbs least.

        What is level now is not set in motion by the next event. `racks` says if they count.
        """
        order = (self.followup, self.load_spread, self.bytes_restored, self.cold_moves)
        return (*order, self.shared_racks, self.cross_rack) if racks else order

    def no_worse(self, other: "Merit") -> bool:
        """Whether nothing here is worse than there."""
        eps = 1e-9
        return (
            self.load_max <= other.load_max + eps
            and self.load_spread <= other.load_spread + eps
            and self.cross_rack <= other.cross_rack
            and self.cold_moves <= other.cold_moves
            and self.shared_racks <= other.shared_racks
            and self.copies_missing <= other.copies_missing
            # What a placement on its way restores now says nothing of what it will restore.
            and (self.bytes_restored <= other.bytes_restored or other.followup)
            and self.followup <= other.followup
        )


def measure(problem: Problem, placement: Placement) -> Merit:
    """Measure a placement."""
    owner = np.array(placement.active, dtype=np.int64)
    load = load_per_thread(problem, placement.active, placement.standby)
    active = load_per_thread(problem, placement.active, ())
    before = problem.previous_active
    moved = np.flatnonzero((before >= 0) & (before != owner) & problem.stateful).tolist()
    racks = len(set(problem.client_rack[problem.client_rack < len(problem.racks)].tolist()))
    rack: list[int] = problem.client_rack.tolist()
    shared = missing = 0
    for task in problem.stateful_tasks:
        copies = (placement.active[task], *placement.standby[task])
        shared += len({rack[c] for c in copies}) < min(len(copies), racks)
        if problem.has_changelog[task]:
            missing += max(0, problem.copies - len(copies))
    return Merit(
        load_max=float(load.max()),
        load_spread=float(load.max() - load.min()),
        active_max=float(active.max()),
        cross_rack=int(problem.source_away_of[np.arange(len(owner)), owner].sum()),
        cold_moves=sum(placement.active[task] not in problem.held[task] for task in moved),
        shared_racks=shared,
        copies_missing=missing,
        bytes_restored=bytes_to_restore(problem, placement),
        followup=placement.followup,
    )


def bytes_to_restore(problem: Problem, placement: Placement) -> int:
    """Sum what all assigned copies have yet to restore; unknown lags count as nothing there."""
    left = 0
    ends: list[int] = problem.end_offset.tolist()
    sizes: list[int] = problem.state_bytes.tolist()
    for task in problem.stateful_tasks:
        end = ends[task]
        for client in (placement.active[task], *placement.standby[task]):
            lag = problem.lags[client].get(task, end)
            share = end if lag == UNKNOWN else max(0, min(lag, end))
            left += sizes[task] * share // end if end else 0
    return left


def assign(problem: Problem) -> Placement:
    """Assign as `plimsoll` does."""
    holdings = Holdings(problem)
    if np.ptp(problem.load) > 0:
        return Transition(problem, holdings).plan(*_settled_goal(problem, holdings))
    if _is_large(problem):
        first = TRAFFIC if problem.config.unbounded_lag else LEVEL
        return _plan(problem, holdings, place_actives(problem, holdings, first), "racks")
    kafka = high_availability.assign(problem)
    best = _best(problem, kafka)
    # Kafka's placement knows no budget of bytes; where one is set it does not take precedence.
    if best.followup and best is not kafka and problem.config.warmup_bytes_max is None:
        ours = rounds_left(problem, best, _measured)
        return kafka if rounds_left(problem, kafka, _measured, most=ours) < ours else best
    return best


def _is_large(problem: Problem) -> bool:
    return problem.tasks * problem.clients > limits.STREAMS_YARDSTICK_CELLS_MAX


Goal = tuple[Ints, Sequence[Sequence[int]]]
"""Client (T,) that should run each task in the end, and per task those of its other copies."""


def _settled_goal(problem: Problem, holdings: Holdings) -> Goal:
    """Choose goals, each from where the one before leads, until nothing would move any more."""
    goal = _level_goal(problem, holdings)
    for _ in range(0 if _is_large(problem) else SETTLE_ROUNDS_MAX):
        there = caught_up(problem, _placement(problem, goal))
        further = _level_goal(there, Holdings(there))
        if _placement(problem, further) == _placement(problem, goal):
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
    large = _is_large(problem)
    for weights in (TRAFFIC,) if large else WEIGHTS:
        owner = place_actives(problem, holdings, weights)
        for order in ORDERS[:1] if large else ORDERS:
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
    load = np.zeros(problem.clients)
    for task, clients in enumerate(copies):
        load[list(clients)] += problem.load[task] / problem.threads[list(clients)]
    for task in np.argsort(-problem.load, kind="stable").tolist():
        while len(copies[task]) > wanted[task]:
            gone = max(copies[task], key=lambda client: (load[client], client))
            copies[task].remove(gone)
            load[gone] -= problem.load[task] / problem.threads[gone]
        if target[task] not in copies[task]:
            target[task] = min(copies[task], key=lambda client: (load[client], client))
        copies[task].remove(int(target[task]))
    return target, [sorted(clients) for clients in copies]


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
