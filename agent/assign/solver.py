"""From a problem to a plan: the order of the phases, the moves with their reasons, the times."""

from time import perf_counter

from agent.assign.certificate import certify
from agent.assign.instance import build_instance, spread
from agent.assign.model import GroupPlan, GroupProblem
from agent.assign.plan import band, greedy_plan, settled_plan
from agent.assign.why import explain, limited_by


def solve(problem: GroupProblem) -> GroupPlan:
    """Plan one group; the same problem gives the same plan, whatever it was listed like."""
    marks = [perf_counter()]
    instance = build_instance(problem)
    bound, cap = band(instance, problem.options.imbalance)
    marks.append(perf_counter())
    greedy = greedy_plan(instance, cap)
    marks.append(perf_counter())
    state = settled_plan(instance, bound, cap, greedy)
    owner = spread(problem, instance, state.place)
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
