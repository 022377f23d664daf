"""What a placement costs, what it could not have undercut, and what it disturbs.

Costs are KIP-925's: traffic cost for each partition with no replica in the client's rack, the
non-overlap cost for each copy that is new to its client, stateless tasks at 1 and 0. They count
against the initial assignment where one was handed in, else against the previous owners.

Lower bounds: `engine` is exact, so its bound is its cost (for standbys when the flow placed them).
For all others a bound takes each task alone, at its cheapest client, whatever others do.
"""

from collections.abc import Sequence

import numpy as np

from agent.streams.high_availability import NON_OVERLAP_COST, TRAFFIC_COST
from agent.streams.problem import (
    STATELESS_NON_OVERLAP_COST,
    STATELESS_TRAFFIC_COST,
    Floats,
    Ints,
    Placement,
    Problem,
)

Figures = dict[str, int | float | bool | str]


def certify(problem: Problem, placement: Placement) -> Figures:
    """Give the `certificate` of an answer."""
    owner = np.array(placement.active, dtype=np.int64)
    before = _reference(problem)
    held = _held(problem)
    stateful, stateless, active_bound = _active_costs(problem, owner, before)
    standby, standby_bound = _standby_costs(problem, placement, held)
    exact = problem.config.assignor == "engine" and problem.rack_aware
    by_flow = exact and problem.config.standby_optimizer == "flow"
    moved = (before >= 0) & (before != owner)
    cold = [t for t in np.flatnonzero(moved & problem.stateful).tolist() if owner[t] not in held[t]]
    load = _load_per_thread(problem, placement.active, placement.standby)
    figures: Figures = {
        "cost_active": stateful + stateless,
        "cost_active_lower_bound": stateful + stateless if exact else active_bound,
        "cost_active_stateful": stateful,
        "cost_active_stateless": stateless,
        "cost_standby": standby,
        "cost_standby_lower_bound": standby if by_flow else standby_bound,
        "moves": int(moved.sum()),
        "moves_cold": len(cold),
        "cross_rack_active": int(problem.source_away_of[np.arange(len(owner)), owner].sum()),
        "load_per_thread_max": float(load.max()),
        "load_per_thread_min": float(load.min()),
        "active_load_per_thread_max": float(_load_per_thread(problem, placement.active).max()),
        "bytes_restored": _bytes_restored(problem, placement, held),
        "rack_aware": problem.rack_aware,
    }
    if problem.config.strategy != "none" and problem.rack_holes:
        figures["rack_missing"] = problem.rack_holes[0]
    return figures


def _bytes_restored(problem: Problem, placement: Placement, held: list[frozenset[int]]) -> int:
    """Sum the state of copies on clients that held none before."""
    fresh = 0
    sizes = problem.state_bytes.tolist()
    for task in problem.stateful_tasks:
        new = {placement.active[task], *placement.standby[task]} - held[task]
        fresh += sizes[task] * len(new)
    return fresh


def _reference(problem: Problem) -> Ints:
    return problem.previous_active if problem.initial_active is None else problem.initial_active


def _held(problem: Problem) -> list[frozenset[int]]:
    if problem.initial_active is None or problem.initial_standby is None:
        return list(problem.held)
    return [
        frozenset((*clients, int(owner)))
        for owner, clients in zip(problem.initial_active, problem.initial_standby, strict=True)
    ]


def _active_costs(problem: Problem, owner: Ints, before: Ints) -> tuple[int, int, int]:
    """Give stateful cost, stateless cost and the bound on their sum."""
    stateful_costs = problem.config.costs(TRAFFIC_COST, NON_OVERLAP_COST)
    stateless_costs = (STATELESS_TRAFFIC_COST, STATELESS_NON_OVERLAP_COST)
    racks = np.unique(problem.client_rack)
    sums, bound = [], 0
    for tasks, (traffic, overlap) in (
        (problem.stateful_tasks, stateful_costs),
        (problem.stateless_tasks, stateless_costs),
    ):
        rows = np.array(tasks, dtype=np.int64)
        away = problem.source_away[rows]
        was, now = before[rows], owner[rows]
        cost = traffic * away[np.arange(len(rows)), problem.client_rack[now]]
        sums.append(int(cost.sum()) + overlap * int((was != now).sum()))
        cheapest = traffic * away[:, racks].min(axis=1, initial=2**40) + overlap
        stay = traffic * away[np.arange(len(rows)), problem.client_rack[was]]
        bound += int(np.where(was >= 0, np.minimum(stay, cheapest), cheapest).sum())
    return sums[0], sums[1], bound


def _standby_costs(
    problem: Problem, placement: Placement, held: list[frozenset[int]]
) -> tuple[int, int]:
    traffic, overlap = problem.config.costs(TRAFFIC_COST, NON_OVERLAP_COST)
    pairs = [(task, client) for task, clients in enumerate(placement.standby) for client in clients]
    if not pairs:
        return 0, 0
    tasks, clients = np.array(pairs, dtype=np.int64).T
    away = int(problem.changelog_away[tasks, problem.client_rack[clients]].sum())
    new = sum(client not in held[task] for task, client in pairs)
    least = problem.changelog_away[:, np.unique(problem.client_rack)].min(axis=1)
    return traffic * away + overlap * new, traffic * int(least[tasks].sum())


def _load_per_thread(
    problem: Problem, active: Sequence[int], standby: Sequence[Sequence[int]] = ()
) -> Floats:
    """(C,) load of active tasks and copies, over threads."""
    load = np.bincount(active, weights=problem.load, minlength=problem.clients)
    for task, clients in enumerate(standby):
        for client in clients:
            load[client] += problem.load[task]
    return np.asarray(load / problem.threads)
