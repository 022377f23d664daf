"""The door: a decoded JSON document of kind `streams-tasks` in, a checked `Problem` out.

Promise: names, ranges and cross references are checked here and nowhere else; a refusal names the
path in the sender's own document. Foreign order is forgotten here (see `problem`).
"""

import itertools
import re
import uuid
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from agent import limits
from agent.errors import TheirFault
from agent.streams.problem import (
    RUNNING,
    UNKNOWN,
    Assignor,
    Config,
    Ints,
    Problem,
    StandbyOptimizer,
    Strategy,
)

TASK_ID = re.compile(r"(0|[1-9][0-9]{0,8})_(0|[1-9][0-9]{0,8})")

Count = Annotated[int, msgspec.Meta(ge=0, le=limits.JAVA_INT_MAX)]
Long = Annotated[int, msgspec.Meta(ge=0, le=limits.JAVA_LONG_MAX)]
Lag = Annotated[int, msgspec.Meta(ge=-limits.JAVA_LONG_MAX, le=limits.JAVA_LONG_MAX)]
Cost = Annotated[int, msgspec.Meta(ge=0, le=limits.STREAMS_COST_MAX)]
Threads = Annotated[int, msgspec.Meta(ge=1, le=limits.JAVA_INT_MAX)]
Load = Annotated[float, msgspec.Meta(ge=0, le=limits.STREAMS_LOAD_MAX)]
Partition = tuple[str, Count]


class ConfigIn(msgspec.Struct, frozen=True):
    """`config` of the document."""

    assignor: Assignor
    rack_aware_strategy: Strategy = "none"
    traffic_cost: Cost | None = None
    non_overlap_cost: Cost | None = None
    num_standby_replicas: Count = 0
    max_warmup_replicas: Count = 2
    acceptable_recovery_lag: Long = 10_000
    rack_aware_assignment_tags: tuple[str, ...] = ()
    standby_optimizer: StandbyOptimizer = "flow"
    warmup_bytes_max: Long | None = None


class TopicIn(msgspec.Struct, frozen=True):
    """A topic with the racks of each partition's replicas."""

    name: str
    partitions: tuple[tuple[str, ...], ...]


class TaskIn(msgspec.Struct, frozen=True):
    """A task."""

    id: str
    stateful: bool
    source: tuple[Partition, ...] = ()
    changelog: tuple[Partition, ...] = ()
    end_offset: Long | None = None
    load: Load = 1.0
    state_bytes: Long | None = None


class ClientIn(msgspec.Struct, frozen=True):
    """A Streams process."""

    id: str
    threads: Threads
    rack: str | None = None
    tags: dict[str, str] = {}
    prev_active: tuple[str, ...] = ()
    prev_standby: tuple[str, ...] = ()
    lags: dict[str, Lag] = {}


class InitialIn(msgspec.Struct, frozen=True):
    """The assignment that `engine` optimises."""

    active: dict[str, str]
    standby: dict[str, tuple[str, ...]] = {}


class DocumentIn(msgspec.Struct, frozen=True):
    """The document."""

    kind: Literal["streams-tasks"]
    id: str
    config: ConfigIn
    topics: tuple[TopicIn, ...]
    tasks: Annotated[
        tuple[TaskIn, ...], msgspec.Meta(min_length=1, max_length=limits.STREAMS_TASKS_MAX)
    ]
    clients: Annotated[
        tuple[ClientIn, ...], msgspec.Meta(min_length=1, max_length=limits.STREAMS_CLIENTS_MAX)
    ]
    initial: InitialIn | None = None


def read(document: object) -> Problem:
    """Check a decoded document and turn it into a `Problem`, or raise `TheirFault`."""
    try:
        parsed = msgspec.convert(document, DocumentIn)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `")
        raise TheirFault(
            path.removesuffix("`").removeprefix("$").removeprefix("."), message
        ) from None
    return _Reader(parsed).problem()


def process_id_key(name: str, path: str) -> tuple[int, int]:
    """Give Kafka's sort key of a process id: both halves of the UUID, signed."""
    try:
        number = uuid.UUID(name).int
    except ValueError:
        raise TheirFault(path, f"{name!r} is not a UUID") from None
    high, low = number >> 64, number & (2**64 - 1)
    return (high - 2**64 if high >> 63 else high, low - 2**64 if low >> 63 else low)


def _task_key(name: str, path: str) -> tuple[int, int]:
    match = TASK_ID.fullmatch(name)
    if match is None:
        raise TheirFault(path, f"{name!r} is not SUBTOPOLOGY_PARTITION")
    return int(match[1]), int(match[2])


def _order(keys: Sequence[tuple[int, int]], list_name: str) -> list[int]:
    """Sort positions by key and refuse a key that occurs twice."""
    order = sorted(range(len(keys)), key=keys.__getitem__)
    for before, after in itertools.pairwise(order):
        if keys[before] == keys[after]:
            raise TheirFault(f"{list_name}[{after}].id", f"same id as {list_name}[{before}]")
    return order


class _Reader:
    """The second half of reading: everything that needs more than one field."""

    def __init__(self, document: DocumentIn) -> None:
        self.document = document
        tasks, clients = document.tasks, document.clients
        self.task_keys = [_task_key(task.id, f"tasks[{i}].id") for i, task in enumerate(tasks)]
        self.task_order = _order(self.task_keys, "tasks")
        client_keys = [process_id_key(c.id, f"clients[{i}].id") for i, c in enumerate(clients)]
        self.client_order = _order(client_keys, "clients")
        self.task_index = {tasks[at].id: i for i, at in enumerate(self.task_order)}
        self.client_index = {clients[at].id: i for i, at in enumerate(self.client_order)}
        self.topics = {topic.name: topic.partitions for topic in document.topics}
        if len(self.topics) != len(document.topics):
            raise TheirFault("topics", "a topic is listed twice")
        self.racks = tuple(
            sorted(
                {rack for topic in document.topics for racks in topic.partitions for rack in racks}
                | {client.rack for client in clients if client.rack is not None}
            )
        )
        self.rack_index = {rack: i for i, rack in enumerate(self.racks)}
        self.holes: list[str] = []

    def problem(self) -> Problem:
        document = self.document
        tasks = [document.tasks[at] for at in self.task_order]
        clients = [document.clients[at] for at in self.client_order]
        self._client_holes()
        source = self._away("source", holes=True)
        changelog = self._away("changelog", holes=document.config.num_standby_replicas > 0)
        subtopologies = {s: i for i, s in enumerate(sorted({key[0] for key in self.task_keys}))}
        offsets = [task.end_offset or 0 for task in tasks]
        prev_active, prev_standby = self._previous()
        return Problem(
            id=document.id,
            config=self._config(),
            task_ids=tuple(task.id for task in tasks),
            subtopology=np.array(
                [subtopologies[self.task_keys[at][0]] for at in self.task_order], dtype=np.int64
            ),
            stateful=np.array([task.stateful for task in tasks], dtype=np.bool_),
            has_changelog=np.array([bool(task.changelog) for task in tasks], dtype=np.bool_),
            load=np.array([task.load for task in tasks], dtype=np.float64),
            state_bytes=np.array(
                [
                    offset if task.state_bytes is None else task.state_bytes
                    for task, offset in zip(tasks, offsets, strict=True)
                ],
                dtype=np.int64,
            ),
            end_offset=np.array(offsets, dtype=np.int64),
            source_away=source,
            changelog_away=changelog,
            sources=tuple(task.source for task in tasks),
            changelogs=tuple(task.changelog for task in tasks),
            topics=self.topics,
            client_ids=tuple(client.id for client in clients),
            racks=self.racks,
            client_rack=np.array(
                [
                    len(self.racks) if client.rack is None else self.rack_index[client.rack]
                    for client in clients
                ],
                dtype=np.int64,
            ),
            threads=np.array([client.threads for client in clients], dtype=np.int64),
            tags=tuple(tuple(sorted(client.tags.items())) for client in clients),
            prev_active=prev_active,
            prev_standby=prev_standby,
            lags=self._lags(),
            initial_active=self._initial_active(),
            initial_standby=self._initial_standby(),
            rack_holes=tuple(self.holes),
        )

    def _config(self) -> Config:
        given = self.document.config
        return Config(
            assignor=given.assignor,
            strategy=given.rack_aware_strategy,
            traffic_cost=given.traffic_cost,
            non_overlap_cost=given.non_overlap_cost,
            num_standby_replicas=given.num_standby_replicas,
            max_warmup_replicas=given.max_warmup_replicas,
            acceptable_recovery_lag=given.acceptable_recovery_lag,
            rack_aware_assignment_tags=given.rack_aware_assignment_tags,
            standby_optimizer=given.standby_optimizer,
            warmup_bytes_max=given.warmup_bytes_max,
        )

    def _client_holes(self) -> None:
        for client in self.document.clients:
            if client.rack is None:
                self.holes.append(f"client {client.id}")

    def _away(self, field: Literal["source", "changelog"], *, holes: bool) -> Ints:
        """Count per task and rack the partitions that have no replica there.

        A partition whose racks are unknown counts for no rack; a client whose rack is unknown is
        away from every partition that is known.
        """
        document, columns = self.document, len(self.racks) + 1
        row_of_topic: dict[str, list[list[int] | None]] = {}
        for name, partitions in self.topics.items():
            rows: list[list[int] | None] = []
            for replicas in partitions:
                row = None
                if replicas:
                    row = [1] * columns
                    for rack in replicas:
                        row[self.rack_index[rack]] = 0
                rows.append(row)
            row_of_topic[name] = rows
        away = np.zeros((len(document.tasks), columns), dtype=np.int64)
        flat: list[int] = []
        values: list[list[int]] = []
        for position, at in enumerate(self.task_order):
            task: Any = document.tasks[at]
            for k, (topic, partition) in enumerate(getattr(task, field)):
                rows = row_of_topic.get(topic, [])
                if partition >= len(rows):
                    raise TheirFault(
                        f"tasks[{at}].{field}[{k}]", f"unknown partition {topic}-{partition}"
                    )
                found = rows[partition]
                if found is None:
                    if holes:
                        self.holes.append(f"{field} {topic}-{partition}")
                    continue
                flat.append(position)
                values.append(found)
        if flat:
            np.add.at(away, np.array(flat), np.array(values, dtype=np.int64))
        return away

    def _previous(self) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
        """Read previous copies; a task that no longer exists is forgotten, as in Kafka."""
        known, clients = self.task_index, self.document.clients
        owner: dict[str, int] = {}
        active, standby = [], []
        for at in self.client_order:
            client = clients[at]
            for k, task in enumerate(client.prev_active):
                if task in owner:
                    other = f"clients[{owner[task]}]"
                    raise TheirFault(
                        f"clients[{at}].prev_active[{k}]", f"task {task} is active on {other} too"
                    )
                owner[task] = at
            for k, task in enumerate(client.prev_standby):
                if owner.get(task) == at:
                    raise TheirFault(
                        f"clients[{at}].prev_standby[{k}]", f"task {task} is active here too"
                    )
            active.append(tuple(sorted(known[t] for t in client.prev_active if t in known)))
            standby.append(tuple(sorted({known[t] for t in client.prev_standby if t in known})))
        return tuple(active), tuple(standby)

    def _lags(self) -> tuple[dict[int, int], ...]:
        known = self.task_index
        all_lags = []
        for at in self.client_order:
            lags = {}
            for task, lag in self.document.clients[at].lags.items():
                if lag < 0 and lag not in {RUNNING, UNKNOWN}:
                    raise TheirFault(
                        f"clients[{at}].lags[{task!r}]",
                        f"{lag} is neither a lag nor one of the sentinels -2 (running) and"
                        " -3 (unknown)",
                    )
                if task in known:
                    lags[known[task]] = lag
            all_lags.append(lags)
        return tuple(all_lags)

    def _initial_active(self) -> Ints | None:
        initial = self.document.initial
        if initial is None:
            if self.document.config.assignor == "engine":
                raise TheirFault("initial", "the engine optimises an initial assignment")
            return None
        active = np.full(len(self.task_order), -1, dtype=np.int64)
        for name, client in initial.active.items():
            path = f"initial.active[{name!r}]"
            active[self._task(name, path)] = self._client(client, path)
        for task, owner in enumerate(active.tolist()):
            if owner < 0:
                name = self.document.tasks[self.task_order[task]].id
                raise TheirFault("initial.active", f"task {name} is not assigned to any client")
        return active

    def _initial_standby(self) -> tuple[tuple[int, ...], ...] | None:
        initial = self.document.initial
        if initial is None:
            return None
        standby: list[tuple[int, ...]] = [()] * len(self.task_order)
        for name, holders in initial.standby.items():
            path = f"initial.standby[{name!r}]"
            task = self._task(name, path)
            if holders and not self.document.tasks[self.task_order[task]].stateful:
                raise TheirFault(path, "a stateless task has no standby")
            found = sorted(self._client(client, path) for client in holders)
            if len(set(found)) < len(found):
                raise TheirFault(path, "two copies on one client")
            if initial.active.get(name) in holders:
                raise TheirFault(path, "active and standby on one client")
            standby[task] = tuple(found)
        return tuple(standby)

    def _task(self, name: str, path: str) -> int:
        if name not in self.task_index:
            raise TheirFault(path, f"unknown task {name!r}")
        return self.task_index[name]

    def _client(self, name: str, path: str) -> int:
        if name not in self.client_index:
            raise TheirFault(path, f"unknown client {name!r}")
        return self.client_index[name]
