"""KIP-924's `TaskAssignmentUtils`.

Where Kafka 4.3's own utilities depart from the KIPs, this module does what the KIPs say:

* Cost overrides apply even when the cost configuration is empty (Kafka then skips optimising).
* The cost of an active counts the source partitions only (Kafka counts changelogs too).
* The predicate that protects tags is asked about the real destination (Kafka passes the source
  twice, so it protects nothing).
* Without tags, standbys are optimised over all processes at once instead of pair by pair; with
  tags, pair by pair in the order of process ids, always as `min_traffic`.
* Optimising actives beside standbys keeps all standbys: one whose place an active takes goes to
  where the active came from (Kafka drops it).
* `validate_task_assignment` also finds unassigned tasks and missing standbys.
"""

from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from agent.streams import network, recorded, standbys, swap, tags
from agent.streams.kip924 import (
    ApplicationState,
    AssignedTask,
    AssignmentError,
    KafkaStreamsAssignment,
    ProcessId,
    TaskAssignment,
    TaskId,
    TaskType,
)
from agent.streams.ledger import Ledger
from agent.streams.problem import Problem
from agent.streams.queue import LeastLoaded

Assignments = MutableMapping[ProcessId, KafkaStreamsAssignment]


@dataclass(frozen=True, slots=True)
class RackAwareOptimizationParams:
    """What to optimise, and at what price."""

    application_state: ApplicationState
    traffic_cost_override: int | None = None
    non_overlap_cost_override: int | None = None
    tasks_to_optimize: frozenset[TaskId] | None = None
    against_previous: bool = False
    """Whether the non-overlap cost is due for what is new to a process, rather than for what
    differs from the assignment handed in: an extension of the KIP."""
    protect_tags: bool = True
    """Whether moving a standby may not lessen how far tags spread its task."""

    @classmethod
    def of(cls, application_state: ApplicationState) -> "RackAwareOptimizationParams":
        """Optimise all tasks at the configured costs."""
        return cls(application_state)

    def for_tasks(self, tasks: Iterable[TaskId]) -> "RackAwareOptimizationParams":
        """Optimise these tasks only."""
        return replace(self, tasks_to_optimize=frozenset(tasks))

    def for_stateful_tasks(self) -> "RackAwareOptimizationParams":
        """Optimise stateful tasks only."""
        tasks = self.application_state.all_tasks.values()
        return self.for_tasks(task.id for task in tasks if task.is_stateful)

    def for_stateless_tasks(self) -> "RackAwareOptimizationParams":
        """Optimise stateless tasks only."""
        tasks = self.application_state.all_tasks.values()
        return self.for_tasks(task.id for task in tasks if not task.is_stateful)

    def with_traffic_cost_override(self, cost: int) -> "RackAwareOptimizationParams":
        """Use this traffic cost, whatever is configured."""
        return replace(self, traffic_cost_override=cost)

    def with_non_overlap_cost_override(self, cost: int) -> "RackAwareOptimizationParams":
        """Use this non-overlap cost, whatever is configured."""
        return replace(self, non_overlap_cost_override=cost)

    def with_non_overlap_against_previous(self) -> "RackAwareOptimizationParams":
        """Charge the non-overlap cost against previous processes: real stickiness."""
        return replace(self, against_previous=True)

    def without_tags(self) -> "RackAwareOptimizationParams":
        """Let standbys move whatever their tags, as Kafka does."""
        return replace(self, protect_tags=False)

    @property
    def costs(self) -> tuple[int, int] | None:
        """(traffic, non-overlap) cost; None where neither override nor configuration says."""
        configs = self.application_state.assignment_configs
        traffic = self.traffic_cost_override
        overlap = self.non_overlap_cost_override
        traffic = configs.rack_aware_traffic_cost if traffic is None else traffic
        overlap = configs.rack_aware_non_overlap_cost if overlap is None else overlap
        return None if traffic is None or overlap is None else (traffic, overlap)

    def selected(self, assignments: Assignments, kind: TaskType) -> list[TaskId]:
        """Tasks to optimise that are assigned in the role, sorted."""
        assigned = {task for a in assignments.values() for task in a.of_type(kind)}
        if self.tasks_to_optimize is not None:
            assigned &= self.tasks_to_optimize
        return sorted(assigned)


def identity_assignment(
    application_state: ApplicationState,
) -> dict[ProcessId, KafkaStreamsAssignment]:
    """Assign to everyone what it had."""
    states = application_state.kafka_streams_states(compute_task_lags=False)
    return {
        process: KafkaStreamsAssignment.of(
            process,
            [AssignedTask(task, TaskType.STANDBY) for task in sorted(state.previous_standby_tasks)]
            + [AssignedTask(task, TaskType.ACTIVE) for task in sorted(state.previous_active_tasks)],
        )
        for process, state in sorted(states.items())
    }


def optimize_rack_aware_active_tasks(
    params: RackAwareOptimizationParams, assignments: Assignments
) -> None:
    """Move actives, in place, to the cheapest placement that keeps each process's count."""
    costs = params.costs
    board = _Board(params.application_state, assignments)
    tasks = board.indexes(params.selected(assignments, TaskType.ACTIVE))
    if not tasks or costs is None or not _enabled(board.problem, changelogs=False):
        return
    owner = board.ledger.owners(board.problem.tasks)[tasks]
    balance = board.problem.config.strategy == "balance_subtopology"
    _, group = np.unique(board.problem.subtopology[tasks], return_inverse=True)
    best = network.place(
        network.Actives(
            tasks=tasks,
            owner=owner,
            group=group if balance else np.zeros(len(tasks), dtype=np.int64),
            away=board.problem.source_away[tasks],
            client_rack=board.problem.client_rack,
            traffic_cost=costs[0],
            non_overlap_cost=costs[1],
            balance=balance,
            home=board.problem.previous_active[tasks] if params.against_previous else None,
        )
    )
    board.ledger.set_active(tasks, best.tolist())
    for task, before, after in zip(tasks, owner.tolist(), best.tolist(), strict=True):
        if task in board.ledger.standby[after]:
            board.ledger.standby[after].remove(task)
            board.ledger.standby[before].add(task)
    board.write()


def optimize_rack_aware_standby_tasks(
    params: RackAwareOptimizationParams, assignments: Assignments
) -> None:
    """Move standbys, in place, to a cheaper placement that keeps counts and tag spread."""
    costs = params.costs
    board = _Board(params.application_state, assignments)
    problem, ledger = board.problem, board.ledger
    tasks = board.indexes(params.selected(assignments, TaskType.STANDBY))
    if not tasks or costs is None or not _enabled(problem, changelogs=True):
        return
    if problem.config.rack_aware_assignment_tags and params.protect_tags:
        swap.optimise(problem, ledger, costs)
    else:
        homes = [problem.held[t] for t in tasks] if params.against_previous else None
        _place_standbys(problem, ledger, tasks, costs, homes)
    board.write()


def _place_standbys(
    problem: Problem,
    ledger: Ledger,
    tasks: Sequence[int],
    costs: tuple[int, int],
    homes: Sequence[frozenset[int]] | None,
) -> None:
    clients = range(problem.clients)
    best = standbys.place(
        standbys.Standbys(
            tasks=tasks,
            holders=[tuple(c for c in clients if task in ledger.standby[c]) for task in tasks],
            active=ledger.owners(problem.tasks)[list(tasks)].tolist(),
            away=problem.changelog_away[list(tasks)],
            client_rack=problem.client_rack,
            traffic_cost=costs[0],
            non_overlap_cost=costs[1],
            racks_first=False,
            homes=homes,
        )
    )
    for held in ledger.standby:
        held.difference_update(tasks)
    for task, copies in zip(tasks, best, strict=True):
        for client in copies:
            ledger.standby[client].add(task)


def default_standby_task_assignment(
    application_state: ApplicationState, assignments: Assignments
) -> None:
    """Add standbys, in place: on unused tags if tags are configured, else on the least loaded."""
    board = _Board(application_state, assignments)
    problem, ledger = board.problem, board.ledger
    if problem.config.rack_aware_assignment_tags:
        tags.assign_standbys(problem, ledger)
    else:
        queue = LeastLoaded(ledger.load)
        queue.offer_all(range(problem.clients))
        for task in problem.replicated_tasks:
            tags.least_loaded(ledger, queue, task, problem.config.num_standby_replicas)
    board.write()


def validate_task_assignment(
    application_state: ApplicationState, task_assignment: TaskAssignment
) -> AssignmentError:
    """Give the first error of an assignment, in Kafka's order, then those that Kafka misses."""
    tasks = application_state.all_tasks
    states = application_state.kafka_streams_states(compute_task_lags=False)
    active: set[TaskId] = set()
    standby: dict[TaskId, int] = {}
    for assignment in task_assignment.assignment:
        for task in assignment.tasks.values():
            if task.id not in tasks:
                return AssignmentError.UNKNOWN_TASK_ID
            if task.type is TaskType.STANDBY:
                standby[task.id] = standby.get(task.id, 0) + 1
            elif task.id in active:
                return AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES
            else:
                active.add(task.id)
    processes = {assignment.process_id for assignment in task_assignment.assignment}
    if any(not tasks[task].is_stateful for task in standby):
        return AssignmentError.INVALID_STANDBY_TASK
    if states.keys() - processes:
        return AssignmentError.MISSING_PROCESS_ID
    if processes - states.keys():
        return AssignmentError.UNKNOWN_PROCESS_ID
    if tasks.keys() - active:
        return AssignmentError.UNASSIGNED_TASK
    wanted = min(application_state.assignment_configs.num_standby_replicas, max(0, len(states) - 1))
    if any(info.has_changelog and standby.get(t, 0) < wanted for t, info in tasks.items()):
        return AssignmentError.MISSING_STANDBY_TASK
    return AssignmentError.NONE


def _enabled(problem: Problem, *, changelogs: bool) -> bool:
    """Whether KIP-925's gate is open for actives, or for standbys."""
    if problem.config.strategy == "none":
        return False
    prefix = "changelog " if changelogs else "source "
    return not any(hole.startswith(("client ", prefix)) for hole in problem.rack_holes)


class _Board:
    """Assignments as a ledger over the dense problem of an application state."""

    def __init__(self, application_state: ApplicationState, assignments: Assignments) -> None:
        self.problem = recorded.to_problem(application_state)
        self.assignments = assignments
        self.tasks = [recorded.task_id(name) for name in self.problem.task_ids]
        self.processes = [recorded.process_id(name) for name in self.problem.client_ids]
        self.position = {task: i for i, task in enumerate(self.tasks)}
        self.ledger = Ledger(self.problem)
        for client, process in enumerate(self.processes):
            if process not in assignments:
                assignments[process] = KafkaStreamsAssignment.of(process)
            mine = assignments[process]
            self.ledger.active[client].update(self.indexes(mine.of_type(TaskType.ACTIVE)))
            self.ledger.standby[client].update(self.indexes(mine.of_type(TaskType.STANDBY)))

    def indexes(self, tasks: Sequence[TaskId]) -> list[int]:
        """Give the positions of tasks, sorted."""
        return sorted(self.position[task] for task in tasks)

    def write(self) -> None:
        """Write the ledger back into the assignments."""
        for client, process in enumerate(self.processes):
            mine = self.assignments[process]
            for task in list(mine.tasks.values()):
                mine.remove_task(task)
            for kind, held in (
                (TaskType.STANDBY, self.ledger.standby[client]),
                (TaskType.ACTIVE, self.ledger.active[client]),
            ):
                for i in sorted(held):
                    mine.assign_task(AssignedTask(self.tasks[i], kind))
