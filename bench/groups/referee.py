"""The referee for small sizes: the same questions as a mixed-integer program, answered by HiGHS."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, vstack

from agent.assign import GroupProblem
from agent.assign.model import Flags, Floats, Ints


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the referee found; `proven` when it is the optimum, `bound` what it proved at least."""

    value: float
    bound: float
    proven: bool
    owner: Ints


def fewest_moves(
    problem: GroupProblem, utilisation: float, *, seconds: float = 60.0
) -> Verdict | None:
    """Give the fewest moves that keep every member at or under `utilisation`; None if none can."""
    model = _Model(problem)
    settled = (problem.owner >= 0)[:, None] & (
        np.arange(model.members)[None, :] != problem.owner[:, None]
    )
    cost = settled[model.may].astype(np.float64)
    return model.solve(cost, utilisation, seconds)


def least_cross_rack(
    problem: GroupProblem, utilisation: float, *, seconds: float = 60.0
) -> Verdict | None:
    """Give the least load that crosses racks at or under `utilisation`."""
    model = _Model(problem)
    crossing = np.zeros((model.rows, model.members))
    for row in range(model.rows):
        near = problem.rack_sets[problem.rack_set[row]]
        if near:
            far = ~np.isin(problem.member_rack, near) & (problem.member_rack >= 0)
            crossing[row, far] = problem.load[row]
    return model.solve(crossing[model.may], utilisation, seconds)


def least_utilisation(problem: GroupProblem, *, seconds: float = 60.0) -> Verdict | None:
    """Give the lowest possible largest utilisation."""
    return _Model(problem).solve(None, None, seconds)


class _Model:
    """One binary for each (partition, member that subscribes to it)."""

    def __init__(self, problem: GroupProblem) -> None:
        self.problem = problem
        self.rows, self.members = len(problem.topic), len(problem.member_ids)
        table = np.zeros((len(problem.topics), self.members), dtype=np.bool_)
        for i, topics in enumerate(problem.subscriptions):
            table[np.ix_(topics, np.flatnonzero(problem.subscription == i))] = True
        self.may: Flags = table[problem.topic]
        self.row, self.member = np.nonzero(self.may)

    def solve(
        self, cost: Floats | None, utilisation: float | None, seconds: float
    ) -> Verdict | None:
        """Minimise `cost` under a utilisation, or (both None) the utilisation itself."""
        problem, n = self.problem, len(self.row)
        heaviest = float(problem.load.max(initial=1e-300))
        free_top = utilisation is None or cost is None
        width = n + int(free_top)
        columns = np.arange(n)
        once = coo_array((np.ones(n), (self.row, columns)), shape=(self.rows, width))
        load = problem.load[self.row] / heaviest
        room = problem.capacity
        fill = coo_array((load, (self.member, columns)), shape=(self.members, width))
        if utilisation is None or cost is None:
            top = coo_array(
                (-room, (np.arange(self.members), np.full(self.members, n))),
                shape=(self.members, width),
            )
            fill = vstack([fill + top])
            limit = np.zeros(self.members)
            objective = np.zeros(width)
            objective[n] = 1.0
        else:
            limit = room * (utilisation / heaviest * (1 + 1e-9))
            objective = cost
        integrality = np.ones(width)
        upper = np.ones(width)
        if free_top:
            integrality[n], upper[n] = 0, np.inf
        answer = milp(
            objective,
            constraints=[
                LinearConstraint(once.tocsr(), 1, 1),
                LinearConstraint(fill.tocsr(), -np.inf, limit),
            ],
            integrality=integrality,
            bounds=Bounds(np.zeros(width), upper),
            options={"time_limit": seconds, "mip_rel_gap": 1e-6},
        )
        if answer.x is None:
            return None
        chosen = np.flatnonzero(answer.x[:n] > 0.5)
        owner = np.full(self.rows, -1, dtype=np.int64)
        owner[self.row[chosen]] = self.member[chosen]
        unit = heaviest if free_top else 1.0
        return Verdict(
            float(answer.fun) * unit,
            float(answer.mip_dual_bound) * unit,
            answer.status == 0,
            owner,
        )
