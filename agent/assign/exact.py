"""The fewest moves inside the caps, exactly: for groups so small that a search costs little.

One binary variable for each unit and member that may hold it, one constraint for each unit and each
member; CP-SAT minimises what leaves home. `shed` and `polish` look one exchange ahead, and with few
heavy units the way into the band may need more than that at once.

Promises: inside the caps wherever something is returned; bounded by counted work, so that the same
state gives the same result on a slow machine. Where the work runs out it may move more than the
state it got; the caller keeps the better of the two.
"""

import numpy as np
from ortools.linear_solver import pywraplp

from agent.assign.model import Ints
from agent.assign.state import State

CAP_BITS = 24
"""Weights are rounded up, caps down, to so many bits of the largest cap: one part in 16 million."""


def fewest_moves(state: State, cap: Ints, *, effort: float) -> State | None:
    """Search for the fewest moves, at most `effort` of CP-SAT's deterministic seconds long.

    None where nothing inside the caps was found, or is.
    """
    instance = state.instance
    bits = max(0, int(cap.max(initial=0)).bit_length() - CAP_BITS)
    weight = (instance.weight + (1 << bits) - 1) >> bits
    solver = pywraplp.Solver.CreateSolver("SAT")
    solver.SetSolverSpecificParametersAsString(
        f"num_workers:1 random_seed:1 max_deterministic_time:{effort}"
    )
    rooms = [solver.Constraint(0, room) for room in (cap >> bits).tolist()]
    objective = solver.Objective()
    objective.SetMinimization()
    units, members = np.nonzero(instance.may[instance.allowed_class])
    one = [solver.Constraint(1, 1) for _ in range(instance.units)]
    chosen = []
    weights, home, toll = weight.tolist(), instance.home.tolist(), instance.toll.tolist()
    for unit, member in zip(units.tolist(), members.tolist(), strict=True):
        choice = solver.BoolVar("")
        one[unit].SetCoefficient(choice, 1)
        rooms[member].SetCoefficient(choice, weights[unit])
        if home[unit] == member:
            objective.SetCoefficient(choice, -toll[unit])
        chosen.append(choice)
    hints = (state.place[units] == members).astype(np.float64).tolist()
    solver.SetHint(chosen, hints)
    if solver.Solve() not in {pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE}:
        return None
    taken = np.array([choice.solution_value() for choice in chosen]) > 1 / 2
    place = np.empty(instance.units, dtype=np.int64)
    place[units[taken]] = members[taken]
    return State(instance, place)
