"""The problem of one Streams application, in dense integers.

Promise: whatever `Problem` holds has been checked, is in Kafka's own order and no longer knows a
name. Tasks are sorted by (subtopology, partition), clients by Kafka's process id order, racks by
name; every reference is an index into those lists. Two documents that differ only in the order of
their lists give the same `Problem`, and so the same answer.

It does not promise that the assignment handed in is good, or that racks are known: -1 stands for
an unknown rack of a client, and `racks_known` says whether KIP-925's all-or-nothing gate is open.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from agent import limits

Strategy = Literal["none", "min_traffic", "balance_subtopology"]
Assignor = Literal["engine", "high-availability", "sticky", "plimsoll"]
StandbyOptimizer = Literal["flow", "rack_then_flow", "swap"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

Partitions = tuple[tuple[str, int], ...]
"""Partitions of a task: topic and number."""

RUNNING: Final = -2
"""Lag sentinel `Task.LATEST_OFFSET`: the client runs the active task."""

UNKNOWN: Final = -3
"""Lag sentinel `UNKNOWN_OFFSET_SUM`: the client has the state but could not say how much."""

STATELESS_TRAFFIC_COST: Final = 1
STATELESS_NON_OVERLAP_COST: Final = 0


@dataclass(frozen=True, slots=True)
class Config:
    """What an operator sets. Costs are None where Kafka's default of the assignor applies."""

    assignor: Assignor
    strategy: Strategy
    traffic_cost: int | None
    non_overlap_cost: int | None
    num_standby_replicas: int
    max_warmup_replicas: int
    acceptable_recovery_lag: int
    rack_aware_assignment_tags: tuple[str, ...]
    standby_optimizer: StandbyOptimizer
    warmup_bytes_max: int | None

    def costs(self, traffic_default: int, non_overlap_default: int) -> tuple[int, int]:
        """Give (traffic, non-overlap) cost for stateful tasks."""
        traffic = traffic_default if self.traffic_cost is None else self.traffic_cost
        overlap = non_overlap_default if self.non_overlap_cost is None else self.non_overlap_cost
        return traffic, overlap

    @property
    def unbounded_lag(self) -> bool:
        """Whether every client counts as caught up, whatever its lag."""
        return self.acceptable_recovery_lag == limits.JAVA_LONG_MAX


@dataclass(frozen=True)
class Problem:
    """One application: T tasks, C clients, R racks."""

    id: str
    config: Config
    task_ids: tuple[str, ...]
    subtopology: Ints
    """(T,) subtopology of each task, as a number from 0 in Kafka's order."""
    stateful: Bools
    has_changelog: Bools
    """(T,) whether standbys of the task are possible: a store without a changelog has none."""
    load: Floats
    """(T,) load of the active task, any one unit."""
    state_bytes: Ints
    """(T,) bytes to restore for a copy from nothing; the end offset where bytes are not given."""
    end_offset: Ints
    source_away: Ints
    """(T, R + 1) source partitions with no replica in the rack; column R: rack unknown."""
    changelog_away: Ints
    """(T, R + 1) the same for changelog partitions."""
    sources: tuple[Partitions, ...]
    """Per task its source partitions."""
    changelogs: tuple[Partitions, ...]
    topics: Mapping[str, tuple[tuple[str, ...], ...]]
    """Per topic and partition the racks that hold a replica; none where they are unknown."""
    client_ids: tuple[str, ...]
    racks: tuple[str, ...]
    client_rack: Ints
    """(C,) rack of each client, R where unknown."""
    threads: Ints
    tags: tuple[tuple[tuple[str, str], ...], ...]
    """Per client its tags, sorted by key."""
    prev_active: tuple[tuple[int, ...], ...]
    prev_standby: tuple[tuple[int, ...], ...]
    lags: tuple[dict[int, int], ...]
    """Per client the lags it reported; a stateful task not listed lags by its end offset."""
    initial_active: Ints | None
    """(T,) client of each task in the assignment handed in."""
    initial_standby: tuple[tuple[int, ...], ...] | None
    rack_holes: tuple[str, ...]
    """What keeps KIP-925's gate shut: `client ID`, `source T-P` or `changelog T-P` without rack."""

    @property
    def tasks(self) -> int:
        """Number of tasks, T."""
        return len(self.task_ids)

    @property
    def clients(self) -> int:
        """Number of clients, C."""
        return len(self.client_ids)

    @property
    def is_large(self) -> bool:
        """Whether weighing many plans, Kafka's among them, costs more than it tells."""
        return self.tasks * self.clients > limits.STREAMS_YARDSTICK_CELLS_MAX

    @property
    def rack_aware(self) -> bool:
        """Whether KIP-925 may optimise: a strategy is set and not one rack is missing."""
        return self.config.strategy != "none" and not self.rack_holes

    @cached_property
    def stateful_tasks(self) -> tuple[int, ...]:
        """Indexes of the stateful tasks, ascending."""
        return tuple(int(t) for t in np.flatnonzero(self.stateful))

    @cached_property
    def replicated_tasks(self) -> tuple[int, ...]:
        """Indexes of the tasks that can have standbys: stateful ones with a changelog."""
        return tuple(int(t) for t in np.flatnonzero(self.stateful & self.has_changelog))

    @cached_property
    def stateless_tasks(self) -> tuple[int, ...]:
        """Indexes of the stateless tasks, ascending."""
        return tuple(int(t) for t in np.flatnonzero(~self.stateful))

    @cached_property
    def source_away_of(self) -> Ints:
        """(T, C) cross-rack source partitions of task t on client c."""
        return self.source_away[:, self.client_rack]

    @cached_property
    def changelog_away_of(self) -> Ints:
        """(T, C) cross-rack changelog partitions of task t on client c."""
        return self.changelog_away[:, self.client_rack]

    @cached_property
    def copies(self) -> int:
        """Copies of a stateful task with a changelog: as many as asked for and hosts allow."""
        return min(self.clients, 1 + self.config.num_standby_replicas)

    @cached_property
    def previous_active(self) -> Ints:
        """(T,) the live client that ran the task before, -1 where none did."""
        owner = np.full(self.tasks, -1, dtype=np.int64)
        for client, tasks in enumerate(self.prev_active):
            owner[list(tasks)] = client
        return owner

    @cached_property
    def held(self) -> tuple[frozenset[int], ...]:
        """Per task the clients that held a copy before, active or standby."""
        holders: list[set[int]] = [set() for _ in range(self.tasks)]
        for per_client in (self.prev_active, self.prev_standby):
            for client, tasks in enumerate(per_client):
                for task in tasks:
                    holders[task].add(client)
        return tuple(frozenset(clients) for clients in holders)

    def lag(self, client: int, task: int) -> int:
        """Give the lag of a stateful task on a client, sentinels included."""
        return self.lags[client].get(task, int(self.end_offset[task]))


@dataclass(frozen=True, slots=True)
class Placement:
    """Where every copy stands."""

    active: tuple[int, ...]
    """Client of each task."""
    standby: tuple[tuple[int, ...], ...]
    """Per task its other copies, warmups included, ascending."""
    warmup: tuple[tuple[int, ...], ...]
    """Per task those of `standby` that are extra."""
    followup: bool
    """Whether a probing rebalance is wanted."""
