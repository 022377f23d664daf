"""KIP-924 in Python: the shapes that a `TaskAssignor` sees and returns.

Names are those of `org.apache.kafka.streams.processor.assignment` in Python's case; getters
without an argument are attributes. Write an assignor against these shapes and `run` it over a
recorded state:

    class Mine:
        def assign(self, application_state: ApplicationState) -> TaskAssignment: ...

    answer = run(Mine(), document)
"""

import enum
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import total_ordering
from typing import NamedTuple, Protocol

from agent.streams.problem import RUNNING, Strategy


class TaskId(NamedTuple):
    """A task; ordered by subtopology, then partition."""

    subtopology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"


@total_ordering
@dataclass(frozen=True, slots=True)
class ProcessId:
    """A KafkaStreams process; ordered as Java orders UUIDs, by signed halves."""

    id: uuid.UUID

    @property
    def sort_key(self) -> tuple[int, int]:
        """Both halves, signed."""
        high, low = self.id.int >> 64, self.id.int & (2**64 - 1)
        return (high - 2**64 if high >> 63 else high, low - 2**64 if low >> 63 else low)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, ProcessId):
            return NotImplemented
        return self.sort_key < other.sort_key

    def __str__(self) -> str:
        return str(self.id)


@dataclass(frozen=True, slots=True)
class TaskTopicPartition:
    """A partition that a task reads or logs its state to."""

    topic: str
    partition: int
    is_source: bool
    is_changelog: bool
    rack_ids: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task and its partitions."""

    id: TaskId
    is_stateful: bool
    state_store_names: frozenset[str]
    topic_partitions: tuple[TaskTopicPartition, ...]

    @property
    def has_changelog(self) -> bool:
        """Whether standbys of the task are possible."""
        return any(partition.is_changelog for partition in self.topic_partitions)


@dataclass(frozen=True, slots=True)
class KafkaStreamsState:
    """A process as it joins the rebalance."""

    process_id: ProcessId
    num_processing_threads: int
    previous_active_tasks: frozenset[TaskId]
    previous_standby_tasks: frozenset[TaskId]
    client_tags: Mapping[str, str]
    rack_id: str | None
    consumer_client_ids: tuple[str, ...] = ()
    host_info: tuple[str, int] | None = None
    task_lags: Mapping[TaskId, int] | None = None
    """Lag of every stateful task; None when lags were not asked for."""
    tasks_by_consumer: Mapping[str, frozenset[TaskId]] = field(default_factory=dict)

    @property
    def stateful_tasks_to_lag_sums(self) -> Mapping[TaskId, int]:
        """Lags of the stateful tasks that the process has state of."""
        held = self.previous_active_tasks | self.previous_standby_tasks
        return {task: lag for task, lag in self._lags().items() if task in held}

    def lag_for(self, task: TaskId) -> int:
        """Give the lag of a stateful task; `RUNNING` (-2) where it is active here."""
        lags = self._lags()
        if task not in lags:
            raise LookupError(f"no lag is known for task {task}")
        return lags[task]

    def prev_tasks_by_lag(self, consumer_client_id: str) -> list[TaskId]:
        """Give the previous stateful tasks of a consumer, least lag first."""
        lags = self._lags()
        tasks = self.tasks_by_consumer.get(consumer_client_id, frozenset())
        return sorted((t for t in tasks if t in lags), key=lambda t: (lags[t], t))

    def runs(self, task: TaskId) -> bool:
        """Whether the task is active and running here."""
        return self._lags().get(task) == RUNNING

    def _lags(self) -> Mapping[TaskId, int]:
        if self.task_lags is None:
            raise TypeError("lags were not asked for: kafka_streams_states(compute_task_lags=True)")
        return self.task_lags


@dataclass(frozen=True, slots=True)
class AssignmentConfigs:
    """What an operator sets."""

    acceptable_recovery_lag: int = 10_000
    max_warmup_replicas: int = 2
    num_standby_replicas: int = 0
    probing_rebalance_interval_ms: int = 600_000
    rack_aware_assignment_tags: tuple[str, ...] = ()
    rack_aware_traffic_cost: int | None = None
    rack_aware_non_overlap_cost: int | None = None
    rack_aware_assignment_strategy: Strategy = "none"


class ApplicationState(Protocol):
    """Everything an assignor may know."""

    @property
    def assignment_configs(self) -> AssignmentConfigs:
        """Give the configuration."""

    @property
    def all_tasks(self) -> Mapping[TaskId, TaskInfo]:
        """Give the tasks."""

    def kafka_streams_states(
        self, *, compute_task_lags: bool
    ) -> Mapping[ProcessId, KafkaStreamsState]:
        """Give the processes, with lags or without."""


@dataclass(frozen=True, slots=True)
class RecordedState:
    """An `ApplicationState` that was recorded: nothing is fetched."""

    assignment_configs: AssignmentConfigs
    all_tasks: Mapping[TaskId, TaskInfo]
    states: Mapping[ProcessId, KafkaStreamsState]
    """Processes with their lags."""

    def kafka_streams_states(
        self, *, compute_task_lags: bool
    ) -> Mapping[ProcessId, KafkaStreamsState]:
        """Give the processes, with lags or without."""
        if compute_task_lags:
            return self.states
        return {process: _without_lags(state) for process, state in self.states.items()}


def _without_lags(state: KafkaStreamsState) -> KafkaStreamsState:
    return KafkaStreamsState(
        process_id=state.process_id,
        num_processing_threads=state.num_processing_threads,
        previous_active_tasks=state.previous_active_tasks,
        previous_standby_tasks=state.previous_standby_tasks,
        client_tags=state.client_tags,
        rack_id=state.rack_id,
        consumer_client_ids=state.consumer_client_ids,
        host_info=state.host_info,
        tasks_by_consumer=state.tasks_by_consumer,
    )


class TaskType(enum.Enum):
    """Role of an assigned task."""

    ACTIVE = "active"
    STANDBY = "standby"


@dataclass(frozen=True, slots=True)
class AssignedTask:
    """A task in a role."""

    id: TaskId
    type: TaskType


class KafkaStreamsAssignment:
    """The tasks of one process; a task has one role on it."""

    __slots__ = ("_tasks", "followup_rebalance_deadline", "process_id")

    def __init__(
        self,
        process_id: ProcessId,
        tasks: Iterable[AssignedTask],
        followup_rebalance_deadline: int | None = None,
    ) -> None:
        self.process_id = process_id
        self._tasks = {task.id: task for task in tasks}
        self.followup_rebalance_deadline = followup_rebalance_deadline
        """Epoch milliseconds at which to assign again, or None."""

    @classmethod
    def of(
        cls, process_id: ProcessId, tasks: Iterable[AssignedTask] = ()
    ) -> "KafkaStreamsAssignment":
        """Make an assignment of a process."""
        return cls(process_id, tasks)

    def with_followup_rebalance(self, deadline_ms: int) -> "KafkaStreamsAssignment":
        """Give the same tasks with a deadline for the next assignment."""
        return KafkaStreamsAssignment(self.process_id, self._tasks.values(), deadline_ms)

    @property
    def tasks(self) -> Mapping[TaskId, AssignedTask]:
        """Give the tasks by id."""
        return self._tasks

    def assign_task(self, task: AssignedTask) -> None:
        """Add a task, or change its role."""
        self._tasks[task.id] = task

    def remove_task(self, task: AssignedTask) -> None:
        """Take a task away, whatever its role."""
        self._tasks.pop(task.id, None)

    def of_type(self, kind: TaskType) -> list[TaskId]:
        """Give the tasks in one role, sorted."""
        return sorted(task.id for task in self._tasks.values() if task.type is kind)


@dataclass(frozen=True, slots=True)
class TaskAssignment:
    """What an assignor returns."""

    assignment: Collection[KafkaStreamsAssignment]


class AssignmentError(enum.Enum):
    """What is wrong with an assignment; the last two are errors that Kafka does not look for."""

    NONE = enum.auto()
    ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES = enum.auto()
    INVALID_STANDBY_TASK = enum.auto()
    MISSING_PROCESS_ID = enum.auto()
    UNKNOWN_PROCESS_ID = enum.auto()
    UNKNOWN_TASK_ID = enum.auto()
    UNASSIGNED_TASK = enum.auto()
    MISSING_STANDBY_TASK = enum.auto()


class TaskAssignor(Protocol):
    """An assignor."""

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Assign all tasks of an application to its processes."""
