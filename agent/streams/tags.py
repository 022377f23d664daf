"""KIP-708: standbys spread over client tags."""

from collections.abc import Callable, Iterable
from functools import partial

from agent.streams import hashing
from agent.streams.ledger import Ledger
from agent.streams.problem import Problem
from agent.streams.queue import LeastLoaded

TagPair = tuple[str, str]


def coarse_move_allowed(problem: Problem, source: int, destination: int) -> bool:
    """Whether the destination has every tag of the source, with the same value."""
    return set(problem.tags[source]) <= set(problem.tags[destination])


def keeps_spread(
    problem: Problem,
    holders: Callable[[int], Iterable[int]],
    source: int,
    destination: int,
    task: int,
) -> bool:
    """Whether moving a copy leaves at least as many distinct tags over all copies."""
    others: set[TagPair] = set()
    for client in holders(task):
        if client not in {source, destination}:
            others.update(problem.tags[client])
    return len(others.union(problem.tags[destination])) >= len(others.union(problem.tags[source]))


def assign_standbys(problem: Problem, ledger: Ledger) -> None:
    """Kafka's `ClientTagAwareStandbyTaskAssignor`.

    What finds no client on unused tags goes to the least loaded ones, in the order of a Java hash
    map of task ids, because that is the order Kafka takes them in.
    """
    configured = set(problem.config.rack_aware_assignment_tags)
    values: dict[str, set[str]] = {}
    clients_of: dict[TagPair, set[int]] = {}
    for client, pairs in enumerate(problem.tags):
        for key, value in pairs:
            values.setdefault(key, set()).add(value)
            clients_of.setdefault((key, value), set()).add(client)
    queue = LeastLoaded(ledger.load)
    everyone = range(problem.clients)
    left_over: dict[int, int] = {}
    owner = ledger.owners(problem.tasks)
    for task in problem.stateful_tasks:
        remaining = problem.config.num_standby_replicas
        queue.offer_all(everyone)
        used: dict[TagPair, set[int]] = {}
        last, count = int(owner[task]), 1
        while remaining:
            for key, value in problem.tags[last]:
                if key not in configured:
                    continue
                if len(values[key]) <= count:
                    for other in values[key]:
                        used.pop((key, other), None)
                else:
                    used[key, value] = clients_of[key, value]
            taken: set[int] = set().union(*used.values())
            found = queue.poll(partial(_free_of, ledger, task, taken))
            if found is None:
                break
            ledger.standby[found].add(task)
            remaining -= 1
            count += 1
            last = found
        if remaining:
            left_over[task] = remaining
    if left_over:
        queue.offer_all(everyone)
        order = hashing.walk(
            (hashing.task_hash(problem.task_ids[task]), task) for task in problem.stateful_tasks
        )
        for task in order:
            least_loaded(ledger, queue, task, left_over.get(task, 0))


def _free_of(ledger: Ledger, task: int, taken: set[int], client: int) -> bool:
    return client not in taken and not ledger.has(client, task)


def least_loaded(ledger: Ledger, queue: LeastLoaded, task: int, count: int) -> None:
    """Give `count` standbys of a task to the least loaded clients without a copy."""
    active, standby = ledger.active, ledger.standby
    for _ in range(count):
        client = queue.poll(lambda c: task not in active[c] and task not in standby[c])
        if client is None:
            return
        standby[client].add(task)
        queue.offer(client)
