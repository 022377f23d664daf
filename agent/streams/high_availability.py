"""KIP-441: Kafka's default assignor, placement for placement (Kafka 4.3).

The eight steps: stateful actives in turn, levelled, optimised for racks; standbys, levelled,
optimised; actives and standbys that are not caught up wait elsewhere; stateless actives. The
target of the first four ignores who held what before: that stability comes from determinism is
Kafka's choice, and here it is kept.

Promise: Kafka's placement and `followup`, to the copy. One exception: beyond
`limits.STREAMS_REPLICA_CELLS_MAX` the rack optimiser takes any one of the cheapest placements.
"""

from collections.abc import Callable

import numpy as np

from agent import limits
from agent.streams import actives, cycles, network, swap, tags
from agent.streams.ledger import Ledger
from agent.streams.movement import Movement
from agent.streams.problem import Bools, Floats, Placement, Problem
from agent.streams.queue import LeastLoaded

TRAFFIC_COST = 10
NON_OVERLAP_COST = 1


def assign(problem: Problem) -> Placement:
    """Assign as HighAvailabilityTaskAssignor does."""
    ledger = Ledger(problem)
    target_actives(problem, ledger)
    if problem.config.num_standby_replicas > 0:
        target_standbys(problem, ledger)
    movement = Movement(problem, ledger)
    moves = movement.actives() + movement.standbys()
    stateless_actives(problem, ledger)
    return ledger.placement(
        problem.tasks, movement.warmups | movement.transitional, followup=moves > 0
    )


def target_actives(problem: Problem, ledger: Ledger) -> None:
    """Take steps 1 to 3: stateful actives in turn, levelled over threads, optimised for racks."""
    for i, task in enumerate(problem.stateful_tasks):
        ledger.active[i % problem.clients].add(task)
    level(ledger, ledger.active, lambda _source, _destination: True)
    if problem.rack_aware:
        costs = problem.config.costs(TRAFFIC_COST, NON_OVERLAP_COST)
        owner = ledger.owners(problem.tasks)
        _optimise(ledger, actives.stateful(problem, owner, costs))


def target_standbys(problem: Problem, ledger: Ledger) -> None:
    """Take step 4: standbys, levelled, optimised."""
    allowed: Callable[[int, int], bool]
    if problem.config.rack_aware_assignment_tags:
        tags.assign_standbys(problem, ledger)

        def allowed(source: int, destination: int) -> bool:
            return tags.coarse_move_allowed(problem, source, destination)
    else:
        queue = LeastLoaded(ledger.load)
        queue.offer_all(range(problem.clients))
        for task in problem.stateful_tasks:
            tags.least_loaded(ledger, queue, task, problem.config.num_standby_replicas)

        def allowed(source: int, destination: int) -> bool:
            return source != destination

    level(ledger, ledger.standby, allowed)
    if problem.rack_aware:
        swap.optimise(problem, ledger, problem.config.costs(TRAFFIC_COST, NON_OVERLAP_COST))


def stateless_actives(problem: Problem, ledger: Ledger) -> None:
    """Take step 7: each to the client with the fewest actives per thread, then for racks."""
    queue = LeastLoaded(ledger.active_load)
    queue.offer_all(range(problem.clients))
    for task in problem.stateless_tasks:
        client = queue.poll(lambda _: True)
        if client is not None:
            ledger.active[client].add(task)
            queue.offer(client)
    if problem.rack_aware:
        _optimise(ledger, actives.stateless(problem, ledger.owners(problem.tasks)))


def _optimise(ledger: Ledger, flow: network.Actives) -> None:
    """Optimise actives for racks, in Kafka's very optimum where that is affordable."""
    cells = len(flow.tasks) * len(flow.client_rack)
    most = limits.STREAMS_REPLICA_CELLS_MAX
    if flow.balance:
        most = limits.STREAMS_REPLICA_BALANCED_CELLS_MAX
    solve = cycles.place if cells <= most else network.place
    ledger.set_active(flow.tasks, solve(flow).tolist())


def level(ledger: Ledger, held: list[set[int]], allowed: Callable[[int, int], bool]) -> None:
    """Sweep ordered pairs of clients, moving the first tasks while that lessens the skew."""
    threads = np.array(ledger.threads, dtype=np.float64)
    counts = np.array([ledger.count(c) for c in range(len(held))], dtype=np.float64)
    moved = True
    while moved:
        moved = False
        for source, tasks in enumerate(held):
            destination = -1
            while (destination := _next_lighter(counts, threads, source, destination)) < len(held):
                for task in sorted(tasks):
                    if not _lightens(counts, threads, source, destination):
                        break
                    if ledger.has(destination, task) or not allowed(source, destination):
                        continue
                    tasks.remove(task)
                    held[destination].add(task)
                    counts[source] -= 1
                    counts[destination] += 1
                    moved = True


def _next_lighter(counts: Floats, threads: Floats, source: int, after: int) -> int:
    """Find the next client that would gain from a task of the source; C if there is none."""
    rest = slice(after + 1, None)
    found = np.flatnonzero(_gain(counts, threads, source, rest))
    return after + 1 + int(found[0]) if len(found) else len(counts)


def _lightens(counts: Floats, threads: Floats, source: int, destination: int) -> bool:
    return bool(_gain(counts, threads, source, slice(destination, destination + 1))[0])


def _gain(counts: Floats, threads: Floats, source: int, rest: slice) -> Bools:
    """Whether moving one task from the source lessens the skew and does not turn it round."""
    skew = counts[source] / threads[source] - counts[rest] / threads[rest]
    proposed = (counts[source] - 1.0) / threads[source] - (counts[rest] + 1.0) / threads[rest]
    return np.asarray((skew > 0) & (proposed >= 0) & (proposed < skew))
