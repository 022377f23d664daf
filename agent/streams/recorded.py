"""Recorded states: between the dense problem and KIP-924's shapes, both ways.

`run` lets any `TaskAssignor` written in Python answer a document of kind `streams-tasks`.
"""

import uuid
from collections.abc import Callable, Mapping

import numpy as np

from agent.errors import OurFault
from agent.streams.kip924 import (
    ApplicationState,
    AssignmentConfigs,
    KafkaStreamsState,
    ProcessId,
    RecordedState,
    TaskAssignment,
    TaskAssignor,
    TaskId,
    TaskInfo,
    TaskTopicPartition,
    TaskType,
)
from agent.streams.problem import Config, Ints, Partitions, Placement, Problem


def task_id(name: str) -> TaskId:
    """Parse a task id that has been checked."""
    subtopology, _, partition = name.partition("_")
    return TaskId(int(subtopology), int(partition))


def process_id(name: str) -> ProcessId:
    """Parse a process id that has been checked."""
    return ProcessId(uuid.UUID(name))


def to_state(problem: Problem) -> RecordedState:
    """Give the application state of a problem."""
    tasks = [task_id(name) for name in problem.task_ids]
    config = problem.config
    stateful = [(t, tasks[t]) for t in problem.stateful_tasks]
    states = {}
    for client, name in enumerate(problem.client_ids):
        process = process_id(name)
        rack = int(problem.client_rack[client])
        states[process] = KafkaStreamsState(
            process_id=process,
            num_processing_threads=int(problem.threads[client]),
            previous_active_tasks=frozenset(tasks[t] for t in problem.prev_active[client]),
            previous_standby_tasks=frozenset(tasks[t] for t in problem.prev_standby[client]),
            client_tags=dict(problem.tags[client]),
            rack_id=problem.racks[rack] if rack < len(problem.racks) else None,
            consumer_client_ids=(name,),
            task_lags={task: problem.lag(client, t) for t, task in stateful},
            tasks_by_consumer={
                name: frozenset(
                    tasks[t] for t in (*problem.prev_active[client], *problem.prev_standby[client])
                )
            },
        )
    return RecordedState(
        assignment_configs=AssignmentConfigs(
            acceptable_recovery_lag=config.acceptable_recovery_lag,
            max_warmup_replicas=config.max_warmup_replicas,
            num_standby_replicas=config.num_standby_replicas,
            rack_aware_assignment_tags=config.rack_aware_assignment_tags,
            rack_aware_traffic_cost=config.traffic_cost,
            rack_aware_non_overlap_cost=config.non_overlap_cost,
            rack_aware_assignment_strategy=config.strategy,
        ),
        all_tasks={
            task: TaskInfo(
                id=task,
                is_stateful=bool(problem.stateful[t]),
                state_store_names=frozenset(topic for topic, _ in problem.changelogs[t]),
                topic_partitions=_partitions(problem, t),
            )
            for t, task in enumerate(tasks)
        },
        states=states,
    )


def _partitions(problem: Problem, task: int) -> tuple[TaskTopicPartition, ...]:
    source, changelog = problem.sources[task], problem.changelogs[task]
    return tuple(
        TaskTopicPartition(
            topic=topic,
            partition=partition,
            is_source=(topic, partition) in source,
            is_changelog=(topic, partition) in changelog,
            rack_ids=frozenset(problem.topics[topic][partition]) or None,
        )
        for topic, partition in dict.fromkeys((*source, *changelog))
    )


def to_problem(state: ApplicationState) -> Problem:
    """Give the problem of an application state; offsets, loads and bytes are not in it."""
    configs = state.assignment_configs
    states = state.kafka_streams_states(compute_task_lags=False)
    processes = sorted(states)
    tasks = sorted(state.all_tasks)
    infos = [state.all_tasks[task] for task in tasks]
    racks = tuple(sorted({s.rack_id for s in states.values() if s.rack_id is not None}))
    position = {task: i for i, task in enumerate(tasks)}
    subtopologies = {s: i for i, s in enumerate(sorted({task.subtopology for task in tasks}))}
    return Problem(
        id="",
        config=Config(
            assignor="sticky",
            strategy=configs.rack_aware_assignment_strategy,
            traffic_cost=configs.rack_aware_traffic_cost,
            non_overlap_cost=configs.rack_aware_non_overlap_cost,
            num_standby_replicas=configs.num_standby_replicas,
            max_warmup_replicas=configs.max_warmup_replicas,
            acceptable_recovery_lag=configs.acceptable_recovery_lag,
            rack_aware_assignment_tags=configs.rack_aware_assignment_tags,
            standby_optimizer="flow",
            warmup_bytes_max=None,
        ),
        task_ids=tuple(str(task) for task in tasks),
        subtopology=np.array([subtopologies[t.subtopology] for t in tasks], dtype=np.int64),
        stateful=np.array([info.is_stateful for info in infos], dtype=np.bool_),
        has_changelog=np.array([info.has_changelog for info in infos], dtype=np.bool_),
        load=np.ones(len(tasks)),
        state_bytes=np.zeros(len(tasks), dtype=np.int64),
        end_offset=np.zeros(len(tasks), dtype=np.int64),
        source_away=_away(infos, racks, changelogs=False),
        changelog_away=_away(infos, racks, changelogs=True),
        sources=_named(infos, changelogs=False),
        changelogs=_named(infos, changelogs=True),
        topics={},
        client_ids=tuple(str(process) for process in processes),
        racks=racks,
        client_rack=np.array(
            [_rack(racks, states[process].rack_id) for process in processes], dtype=np.int64
        ),
        threads=np.array([states[p].num_processing_threads for p in processes], dtype=np.int64),
        tags=tuple(tuple(sorted(states[p].client_tags.items())) for p in processes),
        prev_active=tuple(_known(position, states[p].previous_active_tasks) for p in processes),
        prev_standby=tuple(_known(position, states[p].previous_standby_tasks) for p in processes),
        lags=({},) * len(processes),
        initial_active=None,
        initial_standby=None,
        rack_holes=_holes(states, infos),
    )


def _rack(racks: tuple[str, ...], rack: str | None) -> int:
    return len(racks) if rack is None else racks.index(rack)


def _known(position: Mapping[TaskId, int], tasks: frozenset[TaskId]) -> tuple[int, ...]:
    return tuple(sorted(position[task] for task in tasks if task in position))


def _listed(infos: list[TaskInfo], *, changelogs: bool) -> list[list[TaskTopicPartition]]:
    return [
        [p for p in info.topic_partitions if (p.is_changelog if changelogs else p.is_source)]
        for info in infos
    ]


def _named(infos: list[TaskInfo], *, changelogs: bool) -> tuple[Partitions, ...]:
    return tuple(
        tuple((p.topic, p.partition) for p in partitions)
        for partitions in _listed(infos, changelogs=changelogs)
    )


def _away(infos: list[TaskInfo], racks: tuple[str, ...], *, changelogs: bool) -> Ints:
    table = np.zeros((len(infos), len(racks) + 1), dtype=np.int64)
    for row, partitions in enumerate(_listed(infos, changelogs=changelogs)):
        for partition in partitions:
            if partition.rack_ids:
                here = [i for i, rack in enumerate(racks) if rack in partition.rack_ids]
                table[row] += 1
                table[row, here] -= 1
    return table


def _holes(states: Mapping[ProcessId, KafkaStreamsState], infos: list[TaskInfo]) -> tuple[str, ...]:
    holes = [f"client {p}" for p, state in sorted(states.items()) if state.rack_id is None]
    for field, changelogs in (("source", False), ("changelog", True)):
        holes += [
            f"{field} {partition.topic}-{partition.partition}"
            for partitions in _listed(infos, changelogs=changelogs)
            for partition in partitions
            if not partition.rack_ids
        ]
    return tuple(holes)


def to_placement(problem: Problem, assignment: TaskAssignment) -> Placement:
    """Give the placement of a valid assignment."""
    position = {task_id(name): i for i, name in enumerate(problem.task_ids)}
    client_of = {process_id(name): i for i, name in enumerate(problem.client_ids)}
    active = [-1] * problem.tasks
    standby: list[list[int]] = [[] for _ in range(problem.tasks)]
    for mine in assignment.assignment:
        client = client_of[mine.process_id]
        for task in mine.of_type(TaskType.ACTIVE):
            active[position[task]] = client
        for task in mine.of_type(TaskType.STANDBY):
            standby[position[task]].append(client)
    if -1 in active:
        raise OurFault(f"the assignor left task {problem.task_ids[active.index(-1)]} unassigned")
    return Placement(
        active=tuple(active),
        standby=tuple(tuple(sorted(clients)) for clients in standby),
        warmup=((),) * problem.tasks,
        followup=any(
            mine.followup_rebalance_deadline is not None for mine in assignment.assignment
        ),
    )


def adapt(assignor: TaskAssignor) -> Callable[[Problem], Placement]:
    """Let a `TaskAssignor` place a problem."""

    def place(problem: Problem) -> Placement:
        return to_placement(problem, assignor.assign(to_state(problem)))

    return place
