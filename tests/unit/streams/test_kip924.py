"""KIP-924's shapes and utilities in Python."""

import uuid

import pytest

from agent.streams import task_assignment_utils as utils
from agent.streams.kip924 import (
    AssignedTask,
    AssignmentConfigs,
    AssignmentError,
    KafkaStreamsAssignment,
    KafkaStreamsState,
    ProcessId,
    RecordedState,
    TaskAssignment,
    TaskId,
    TaskInfo,
    TaskTopicPartition,
    TaskType,
)
from agent.streams.task_assignment_utils import RackAwareOptimizationParams

ACTIVE, STANDBY = TaskType.ACTIVE, TaskType.STANDBY
ONE, TWO, THREE = (ProcessId(uuid.UUID(int=n)) for n in (1, 2, 3))


def task(subtopology: int, partition: int, source: str, changelog: str | None) -> TaskInfo:
    """Make a task whose source, and changelog if any, have one replica each."""
    partitions = [TaskTopicPartition("in", partition, True, False, frozenset({source}))]
    if changelog is not None:
        partitions.append(TaskTopicPartition("log", partition, False, True, frozenset({changelog})))
    return TaskInfo(
        TaskId(subtopology, partition), changelog is not None, frozenset(), tuple(partitions)
    )


def state(
    process: ProcessId, rack: str | None, active: tuple[TaskId, ...] = (), **tags: str
) -> KafkaStreamsState:
    """Make a process with one thread."""
    return KafkaStreamsState(process, 1, frozenset(active), frozenset(), tags, rack)


def application(
    states: list[KafkaStreamsState], tasks: list[TaskInfo], configs: AssignmentConfigs
) -> RecordedState:
    """Make an application state."""
    return RecordedState(configs, {t.id: t for t in tasks}, {s.process_id: s for s in states})


def assignments(**roles: list[AssignedTask]) -> dict[ProcessId, KafkaStreamsAssignment]:
    """Make assignments of processes one, two and three."""
    named = {"one": ONE, "two": TWO, "three": THREE}
    return {
        named[name]: KafkaStreamsAssignment.of(named[name], tasks) for name, tasks in roles.items()
    }


def test_process_ids_are_ordered_by_signed_halves() -> None:
    """A UUID with the highest bit set comes first, as in Java."""
    high = ProcessId(uuid.UUID(int=1 << 127))
    assert sorted([ONE, high]) == [high, ONE]


def test_lags_must_be_asked_for() -> None:
    """Without lags in the state, asking for one is an error; with them it is answered."""
    info = task(0, 0, "a", "a")
    holder = KafkaStreamsState(
        ONE, 1, frozenset({info.id}), frozenset(), {}, "a", task_lags={info.id: -2}
    )
    app = application([holder], [info], AssignmentConfigs())
    assert app.kafka_streams_states(compute_task_lags=True)[ONE].lag_for(info.id) == -2
    with pytest.raises(TypeError):
        app.kafka_streams_states(compute_task_lags=False)[ONE].lag_for(info.id)


def test_overrides_apply_without_configured_costs() -> None:
    """Cost overrides are enough to optimise (Kafka skips optimising then)."""
    infos = [task(0, 0, "b", None), task(0, 1, "a", None)]
    app = application(
        [state(ONE, "a"), state(TWO, "b")],
        infos,
        AssignmentConfigs(rack_aware_assignment_strategy="min_traffic"),
    )
    given = assignments(
        one=[AssignedTask(infos[0].id, ACTIVE)], two=[AssignedTask(infos[1].id, ACTIVE)]
    )
    params = RackAwareOptimizationParams.of(app).for_stateless_tasks()
    utils.optimize_rack_aware_active_tasks(params, given)
    assert infos[0].id in given[ONE].tasks
    params = params.with_traffic_cost_override(1).with_non_overlap_cost_override(0)
    utils.optimize_rack_aware_active_tasks(params, given)
    assert infos[1].id in given[ONE].tasks


def test_active_cost_counts_sources_only() -> None:
    """A task goes to its source's rack although its changelog is elsewhere (Kafka's would stay)."""
    infos = [task(0, 0, "b", "a"), task(0, 1, "a", "b")]
    app = application(
        [state(ONE, "a"), state(TWO, "b")],
        infos,
        AssignmentConfigs(
            rack_aware_assignment_strategy="min_traffic",
            rack_aware_traffic_cost=10,
            rack_aware_non_overlap_cost=1,
        ),
    )
    given = assignments(
        one=[AssignedTask(infos[0].id, ACTIVE)], two=[AssignedTask(infos[1].id, ACTIVE)]
    )
    utils.optimize_rack_aware_active_tasks(RackAwareOptimizationParams.of(app), given)
    assert infos[0].id in given[TWO].tasks


def test_optimising_actives_drops_no_standby() -> None:
    """A standby whose place an active takes goes to where the active came from."""
    infos = [task(0, 0, "b", "b"), task(0, 1, "a", "a")]
    app = application(
        [state(ONE, "a"), state(TWO, "b")],
        infos,
        AssignmentConfigs(
            rack_aware_assignment_strategy="min_traffic",
            rack_aware_traffic_cost=10,
            rack_aware_non_overlap_cost=1,
        ),
    )
    given = assignments(
        one=[AssignedTask(infos[0].id, ACTIVE), AssignedTask(infos[1].id, STANDBY)],
        two=[AssignedTask(infos[1].id, ACTIVE), AssignedTask(infos[0].id, STANDBY)],
    )
    utils.optimize_rack_aware_active_tasks(RackAwareOptimizationParams.of(app), given)
    assert given[ONE].of_type(ACTIVE) == [infos[1].id]
    assert given[ONE].of_type(STANDBY) == [infos[0].id]


def test_tags_are_protected_when_standbys_move() -> None:
    """No standby leaves its zone for traffic's sake when that would lose a zone."""
    infos = [task(0, 0, "a", "a"), task(0, 1, "a", "b")]
    processes = [
        state(ONE, "a", zone="x"),
        state(TWO, "a", zone="x"),
        state(THREE, "b", zone="y"),
    ]
    app = application(
        processes,
        infos,
        AssignmentConfigs(
            num_standby_replicas=1,
            rack_aware_assignment_tags=("zone",),
            rack_aware_assignment_strategy="min_traffic",
            rack_aware_traffic_cost=10,
            rack_aware_non_overlap_cost=1,
        ),
    )
    given = assignments(
        one=[AssignedTask(infos[0].id, ACTIVE), AssignedTask(infos[1].id, ACTIVE)],
        two=[AssignedTask(infos[1].id, STANDBY)],
        three=[AssignedTask(infos[0].id, STANDBY)],
    )
    utils.optimize_rack_aware_standby_tasks(RackAwareOptimizationParams.of(app), given)
    assert given[THREE].of_type(STANDBY) == [infos[0].id]


def test_default_standbys_use_unused_zones_first() -> None:
    """A standby goes to another zone than its active, whatever the load there."""
    infos = [task(0, 0, "a", "a")]
    processes = [
        state(ONE, None, zone="x"),
        state(TWO, None, zone="x"),
        state(THREE, None, zone="y"),
    ]
    app = application(
        processes,
        infos,
        AssignmentConfigs(num_standby_replicas=1, rack_aware_assignment_tags=("zone",)),
    )
    given = assignments(one=[AssignedTask(infos[0].id, ACTIVE)])
    utils.default_standby_task_assignment(app, given)
    assert given[THREE].of_type(STANDBY) == [infos[0].id]


def test_identity_keeps_everything() -> None:
    """The identity assignment is what everyone had."""
    info = task(0, 0, "a", "a")
    app = application([state(ONE, "a", (info.id,)), state(TWO, "a")], [info], AssignmentConfigs())
    kept = utils.identity_assignment(app)
    assert kept[ONE].of_type(ACTIVE) == [info.id]
    assert not kept[TWO].tasks


@pytest.mark.parametrize(
    ("error", "roles"),
    [
        ("NONE", {"one": "A", "two": "S"}),
        ("UNKNOWN_TASK_ID", {"one": "A?", "two": "S"}),
        ("ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES", {"one": "A", "two": "A"}),
        ("INVALID_STANDBY_TASK", {"one": "A", "two": "Ss"}),
        ("MISSING_PROCESS_ID", {"one": "A"}),
        ("UNKNOWN_PROCESS_ID", {"one": "A", "two": "S", "three": ""}),
        ("UNASSIGNED_TASK", {"one": "", "two": "S"}),
        ("MISSING_STANDBY_TASK", {"one": "A", "two": ""}),
    ],
)
def test_validation_finds_each_error(error: str, roles: dict[str, str]) -> None:
    """Each kind of error is found, those that Kafka misses too."""
    logged, plain = task(0, 0, "a", "a"), task(1, 0, "a", None)
    kinds = {
        "A": AssignedTask(logged.id, ACTIVE),
        "S": AssignedTask(logged.id, STANDBY),
        "s": AssignedTask(plain.id, STANDBY),
        "?": AssignedTask(TaskId(9, 9), ACTIVE),
    }
    given = assignments(**{name: [kinds[k] for k in text] for name, text in roles.items()})
    if not any("s" in text for text in roles.values()):
        given[ONE].assign_task(AssignedTask(plain.id, ACTIVE))
    app = application(
        [state(ONE, "a"), state(TWO, "a")],
        [logged, plain],
        AssignmentConfigs(num_standby_replicas=1),
    )
    found = utils.validate_task_assignment(app, TaskAssignment(list(given.values())))
    assert found is AssignmentError[error]
