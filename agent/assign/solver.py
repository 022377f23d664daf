"""From a problem to a plan: the order of the phases, the moves with their reasons, the times."""

from dataclasses import replace
from time import perf_counter

import numpy as np

from agent.assign.budget import within_budget
from agent.assign.certificate import certify
from agent.assign.instance import build_instance, spread
from agent.assign.model import NOBODY, GroupPlan, GroupProblem, Ints, distinct_pairs
from agent.assign.plan import band, greedy_plan, settled_plan
from agent.assign.state import State
from agent.assign.why import explain, limited_by
from agent.errors import TheirFault
from agent.limits import INCOMPATIBLE_PAIRS_MAX
from cost.incompatibility import TooManyPairsError, astraea, network_ingress


def with_incompatible(problem: GroupProblem) -> GroupProblem:
    """Add the pairs that the chosen rule finds to those that the caller named."""
    rule = problem.options.incompatibility
    try:
        if rule == "network-ingress":
            found = network_ingress(
                problem.load, problem.load_stderr, problem.broker, pairs_max=INCOMPATIBLE_PAIRS_MAX
            )
        elif rule == "astraea":
            found = astraea(problem.load, problem.broker, pairs_max=INCOMPATIBLE_PAIRS_MAX)
        else:
            return problem
    except TooManyPairsError as error:
        raise TheirFault("options.incompatibility", str(error)) from error
    both = np.concatenate([problem.incompatible, found])
    return replace(problem, incompatible=distinct_pairs(both))


def solve(problem: GroupProblem) -> GroupPlan:
    """Plan one group; the same problem gives the same plan, whatever it was listed like."""
    marks = [perf_counter()]
    problem = with_incompatible(problem)
    instance = build_instance(problem)
    bound, cap = band(instance, problem.options.imbalance)
    marks.append(perf_counter())
    greedy = greedy_plan(instance, cap)
    marks.append(perf_counter())
    return _finished(problem, settled_plan(instance, bound, cap, greedy), cap, marks)


def trim(problem: GroupProblem, plan: GroupPlan) -> GroupPlan:
    """Cut a plan of the same group, made without a budget, down to that of `problem.options`.

    Gives what `solve` would give, without planning again.
    """
    marks = [perf_counter()]
    problem = with_incompatible(problem)
    instance = build_instance(problem)
    cap = band(instance, problem.options.imbalance)[1]
    place = np.full(instance.units, NOBODY, dtype=np.int64)
    known = instance.unit_of >= 0
    place[instance.unit_of[known]] = plan.owner[known]
    marks += [perf_counter()] * 2
    return _finished(problem, State(instance, place), cap, marks)


def _finished(problem: GroupProblem, state: State, cap: Ints, marks: list[float]) -> GroupPlan:
    """Keep to the budget, put names back, prove and explain."""
    options = problem.options
    state = within_budget(state, cap, options.max_moves, options.max_moved_load)
    owner = spread(problem, state.instance, state.place)
    marks.append(perf_counter())
    certificate = certify(problem, owner)
    marks.append(perf_counter())
    moves = explain(problem, owner, certificate)
    names = ("cost", "greedy", "flow", "certificate")
    elapsed = {name: (b - a) * 1e3 for name, a, b in zip(names, marks[:-1], marks[1:], strict=True)}
    return GroupPlan(
        owner=owner,
        moves=moves,
        certificate=certificate,
        limited_by=limited_by(problem, certificate),
        elapsed_ms={"total": (perf_counter() - marks[0]) * 1e3, **elapsed},
    )
