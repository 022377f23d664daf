"""What Kafka 4.3's own sticky assignor pays: the yardstick of `sticky`.

Kafka's utilities optimise actives only where both costs are configured, count changelogs beside
sources, charge against the assignment handed in, and number processes in the order of a hash map.
Its placement is replayed with all of that, so that ours can be held against it.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from agent import limits
from agent.errors import OurFault
from agent.streams import cycles, network
from agent.streams.kip924 import (
    ApplicationState,
    AssignedTask,
    KafkaStreamsAssignment,
    KafkaStreamsState,
    ProcessId,
    TaskId,
    TaskInfo,
    TaskTopicPartition,
    TaskType,
)
from agent.streams.problem import STATELESS_NON_OVERLAP_COST, STATELESS_TRAFFIC_COST, Ints

Assignments = Mapping[ProcessId, KafkaStreamsAssignment]
ACTIVE = TaskType.ACTIVE


def optimise_actives(
    application_state: ApplicationState, assignments: Assignments, order: Sequence[ProcessId]
) -> None:
    """Move actives, in place, to where Kafka's utilities move them."""
    configs = application_state.assignment_configs
    traffic, overlap = configs.rack_aware_traffic_cost, configs.rack_aware_non_overlap_cost
    infos = application_state.all_tasks
    states = application_state.kafka_streams_states(compute_task_lags=False)
    known = all(state.rack_id is not None for state in states.values()) and all(
        partition.rack_ids for info in infos.values() for partition in info.topic_partitions
    )
    if traffic is None or overlap is None or not known:
        return
    balance = configs.rack_aware_assignment_strategy == "balance_subtopology"
    racks = sorted({str(state.rack_id) for state in states.values()})
    client_rack = np.array([racks.index(str(states[p].rack_id)) for p in order], dtype=np.int64)
    owner = {task: c for c, p in enumerate(order) for task in assignments[p].of_type(ACTIVE)}
    for stateful, costs in (
        (True, (traffic, overlap)),
        (False, (STATELESS_TRAFFIC_COST, STATELESS_NON_OVERLAP_COST)),
    ):
        tasks = sorted(task for task in owner if infos[task].is_stateful is stateful)
        if not tasks:
            continue
        _, group = np.unique([task.subtopology for task in tasks], return_inverse=True)
        before = np.array([owner[task] for task in tasks], dtype=np.int64)
        after = _solve(
            network.Actives(
                tasks=range(len(tasks)),
                owner=before,
                group=group if balance else np.zeros(len(tasks), dtype=np.int64),
                away=_away(infos, tasks, racks),
                client_rack=client_rack,
                traffic_cost=costs[0],
                non_overlap_cost=costs[1],
                balance=balance,
            )
        )
        for task, old, new in zip(tasks, before.tolist(), after.tolist(), strict=True):
            assignments[order[old]].remove_task(AssignedTask(task, ACTIVE))
            assignments[order[new]].assign_task(AssignedTask(task, ACTIVE))


def _solve(problem: network.Actives) -> Ints:
    """Give Kafka's very optimum where that is affordable, else any."""
    cells = len(problem.tasks) * len(problem.client_rack)
    most = limits.STREAMS_REPLICA_CELLS_MAX
    if problem.balance:
        most = limits.STREAMS_REPLICA_BALANCED_CELLS_MAX
    return cycles.place(problem) if cells <= most else network.place(problem)


def _away(infos: Mapping[TaskId, TaskInfo], tasks: Sequence[TaskId], racks: Sequence[str]) -> Ints:
    return np.array(
        [
            [_cross(infos[task].topic_partitions, rack) for rack in racks]  # Changelogs, too.
            for task in tasks
        ],
        dtype=np.int64,
    )


def _cross(partitions: Sequence[TaskTopicPartition], rack: str | None) -> int:
    return sum(rack not in (partition.rack_ids or ()) for partition in partitions)


def cost(
    states: Mapping[ProcessId, KafkaStreamsState],
    infos: Mapping[TaskId, TaskInfo],
    assignments: Assignments,
    costs: tuple[int, int] | None,
) -> int:
    """Give KIP-925's cost against previous owners: sources of actives, changelogs of standbys."""
    if costs is None:
        raise OurFault("the sticky assignor has costs of its own where none are configured")
    away = moved = 0
    had = {task for state in states.values() for task in state.previous_active_tasks}
    for process, assignment in assignments.items():
        state = states[process]
        for task in assignment.tasks.values():
            active = task.type is ACTIVE
            partitions = [
                p
                for p in infos[task.id].topic_partitions
                if (p.is_source if active else p.is_changelog)
            ]
            away += _cross(partitions, state.rack_id)
            if active:
                moved += task.id in had and task.id not in state.previous_active_tasks
            else:
                moved += (
                    task.id not in state.previous_active_tasks
                    and task.id not in state.previous_standby_tasks
                )
    return costs[0] * away + costs[1] * moved
