"""KIP-925 for active tasks: which tasks are optimised together, and at what cost."""

from collections.abc import Sequence

import numpy as np

from agent.streams import network
from agent.streams.problem import (
    STATELESS_NON_OVERLAP_COST,
    STATELESS_TRAFFIC_COST,
    Ints,
    Problem,
)


def stateful(problem: Problem, owner: Ints, costs: tuple[int, int]) -> network.Actives:
    """Describe the stateful actives of an assignment (T,) as a flow problem."""
    return _actives(problem, problem.stateful_tasks, owner, costs)


def stateless(problem: Problem, owner: Ints) -> network.Actives:
    """Describe the stateless actives: traffic 1, moving is free, as in every Kafka assignor."""
    costs = (STATELESS_TRAFFIC_COST, STATELESS_NON_OVERLAP_COST)
    return _actives(problem, problem.stateless_tasks, owner, costs)


def _actives(
    problem: Problem, tasks: Sequence[int], owner: Ints, costs: tuple[int, int]
) -> network.Actives:
    rows = np.array(tasks, dtype=np.int64)
    balance = problem.config.strategy == "balance_subtopology"
    _, group = np.unique(problem.subtopology[rows], return_inverse=True)
    return network.Actives(
        tasks=tasks,
        owner=owner[rows],
        group=group if balance else np.zeros(len(rows), dtype=np.int64),
        away=problem.source_away[rows],
        client_rack=problem.client_rack,
        traffic_cost=costs[0],
        non_overlap_cost=costs[1],
        balance=balance,
    )
