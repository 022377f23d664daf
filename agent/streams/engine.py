"""`engine`: KIP-925 on an assignment that is handed in, actives first, then standbys.

Counts are frozen: each client ends with as many stateful actives, stateless actives and standbys
as it had. If one rack is missing, or the strategy is `none`, the assignment comes back untouched:
the KIP's all-or-nothing gate.
"""

from agent.errors import OurFault
from agent.streams import actives, network, standbys, swap
from agent.streams.high_availability import NON_OVERLAP_COST, TRAFFIC_COST
from agent.streams.ledger import Ledger
from agent.streams.problem import Ints, Placement, Problem

Copies = tuple[tuple[int, ...], ...]


def assign(problem: Problem) -> Placement:
    """Optimise the initial assignment."""
    if problem.initial_active is None or problem.initial_standby is None:
        raise OurFault("the door lets no engine problem in without an initial assignment")
    owner, copies = problem.initial_active, problem.initial_standby
    if problem.rack_aware:
        owner = optimise_actives(problem, owner)
        if problem.config.standby_optimizer == "swap":
            copies = _swap(problem, owner, copies)
        else:
            copies = tuple(standbys.place(standby_flow(problem, owner, copies)))
    return Placement(
        active=tuple(owner.tolist()),
        standby=copies,
        warmup=((),) * problem.tasks,
        followup=False,
    )


def optimise_actives(problem: Problem, owner: Ints) -> Ints:
    """Give the cheapest owners (T,) for the counts of `owner`."""
    costs = problem.config.costs(TRAFFIC_COST, NON_OVERLAP_COST)
    best = owner.copy()
    for flow in (actives.stateful(problem, owner, costs), actives.stateless(problem, owner)):
        if len(flow.tasks):
            best[list(flow.tasks)] = network.place(flow)
    return best


def standby_flow(problem: Problem, owner: Ints, copies: Copies) -> standbys.Standbys:
    """Describe the copies of an assignment as a flow problem."""
    traffic, overlap = problem.config.costs(TRAFFIC_COST, NON_OVERLAP_COST)
    return standbys.Standbys(
        tasks=range(problem.tasks),
        holders=list(copies),
        active=owner.tolist(),
        away=problem.changelog_away,
        client_rack=problem.client_rack,
        traffic_cost=traffic,
        non_overlap_cost=overlap,
        racks_first=problem.config.standby_optimizer == "rack_then_flow",
    )


def _swap(problem: Problem, owner: Ints, copies: Copies) -> Copies:
    """Swap standbys between pairs; one whose place an active took goes to where that came from."""
    if problem.initial_active is None:
        raise OurFault("nothing to swap without an initial assignment")
    ledger = Ledger(problem)
    ledger.set_active(range(problem.tasks), owner.tolist())
    came_from = problem.initial_active.tolist()
    for task, clients in enumerate(copies):
        for client in clients:
            ledger.standby[came_from[task] if client == owner[task] else client].add(task)
    swap.optimise(problem, ledger, problem.config.costs(TRAFFIC_COST, NON_OVERLAP_COST))
    return ledger.placement(problem.tasks, (), followup=False).standby
