"""`sticky`: KIP-924's public StickyTaskAssignor, written against the Python API.

Keep what each process had while it has room, then prefer former standbys, then the least loaded
process on which the task meets a new neighbour (so that pairs of heavy tasks do not stay together
for ever); then optimise for racks, place standbys by the same rule, optimise those.

Ties are broken as in Kafka, by the order of its hash sets of ids, so that counts per process are
Kafka's own.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.streams import hashing, kafka_sticky
from agent.streams import task_assignment_utils as utils
from agent.streams.kip924 import (
    ApplicationState,
    AssignedTask,
    KafkaStreamsAssignment,
    ProcessId,
    TaskAssignment,
    TaskId,
    TaskType,
)
from agent.streams.problem import STATELESS_NON_OVERLAP_COST, STATELESS_TRAFFIC_COST
from agent.streams.task_assignment_utils import RackAwareOptimizationParams

TRAFFIC_COST = 1
NON_OVERLAP_COST = 10


class StickyTaskAssignor:
    """A task stays where it was."""

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Assign all tasks."""
        ours = self._ours(application_state)
        if application_state.assignment_configs.rack_aware_assignment_strategy == "none":
            return ours.assignment
        yardstick = self._undercut(application_state)
        if _merit(ours, self._params(application_state)).no_worse(
            _merit(yardstick, self._params(application_state))
        ):
            return ours.assignment
        return yardstick.assignment

    def _ours(self, application_state: ApplicationState) -> "_Work":
        """Charge against previous owners, protect tags, level what racks have made uneven."""
        work = _Work(application_state)
        work.place_actives()
        self._optimise_actives(application_state, work)
        if application_state.assignment_configs.num_standby_replicas > 0:
            work.place_standbys()
            if application_state.assignment_configs.rack_aware_assignment_strategy != "none":
                work.level_standbys()
            utils.optimize_rack_aware_standby_tasks(
                self._params(application_state), work.assignments
            )
        return work

    def _undercut(self, application_state: ApplicationState) -> "_Work":
        """Place as Kafka does up to its last step, and do that one at the optimum.

        Kafka moves standbys between pairs of processes, and its predicate protects no tags: one
        flow over the same counts costs no more.
        """
        work = _Work(application_state)
        work.place_actives()
        kafka_sticky.optimise_actives(application_state, work.assignments, work.hash_order)
        if application_state.assignment_configs.num_standby_replicas > 0:
            work.place_standbys()
            utils.optimize_rack_aware_standby_tasks(
                self._params(application_state).without_tags(), work.assignments
            )
        return work

    def _optimise_actives(self, application_state: ApplicationState, work: "_Work") -> None:
        utils.optimize_rack_aware_active_tasks(
            self._params(application_state).for_stateful_tasks(), work.assignments
        )
        utils.optimize_rack_aware_active_tasks(
            RackAwareOptimizationParams.of(application_state)
            .for_stateless_tasks()
            .with_traffic_cost_override(STATELESS_TRAFFIC_COST)
            .with_non_overlap_cost_override(STATELESS_NON_OVERLAP_COST),
            work.assignments,
        )

    def _params(self, application_state: ApplicationState) -> RackAwareOptimizationParams:
        configs = application_state.assignment_configs
        params = RackAwareOptimizationParams.of(application_state)
        params = params.with_non_overlap_against_previous()
        if configs.rack_aware_traffic_cost is None:
            params = params.with_traffic_cost_override(TRAFFIC_COST)
        if configs.rack_aware_non_overlap_cost is None:
            params = params.with_non_overlap_cost_override(NON_OVERLAP_COST)
        return params


@dataclass(frozen=True, slots=True)
class _Merit:
    """What two plans are compared by; less is better throughout."""

    cost: int
    load_max: float
    load_spread: float

    def no_worse(self, other: "_Merit") -> bool:
        return (
            self.cost <= other.cost
            and self.load_max <= other.load_max
            and self.load_spread <= other.load_spread
        )


def _merit(work: "_Work", params: RackAwareOptimizationParams) -> _Merit:
    loads = [
        len(work.assignments[process].tasks) / threads
        for process, threads in zip(work.processes, work.threads, strict=True)
    ]
    cost = kafka_sticky.cost(work.states, work.infos, work.assignments, params.costs)
    return _Merit(cost, max(loads), max(loads) - min(loads))


class _Work:
    """An assignment in the making, in dense integers."""

    def __init__(self, application_state: ApplicationState) -> None:
        configs = application_state.assignment_configs
        self.standbys = configs.num_standby_replicas
        self.states = application_state.kafka_streams_states(compute_task_lags=False)
        self.processes: list[ProcessId] = sorted(self.states)
        self.tasks: list[TaskId] = sorted(application_state.all_tasks)
        self.infos = application_state.all_tasks
        self.assignments = {p: KafkaStreamsAssignment.of(p) for p in self.processes}
        self.task_hash = [hashing.task_hash(str(task)) for task in self.tasks]
        self.hash = [hashing.process_hash(str(process)) for process in self.processes]
        self.order = order = self._walk(range(len(self.processes)))
        self.hash_order = [self.processes[c] for c in order]
        self.rank = [order.index(c) for c in range(len(order))]
        """Per process its place in Kafka's hash set: ties go to the first."""
        self.threads = [self.states[p].num_processing_threads for p in self.processes]
        self.count = [0] * len(self.processes)
        self.owner: dict[int, int] = {}
        self.met = [0] * len(self.processes)
        """Per process its tasks, as bits."""
        self.met_before: dict[int, int] = {}
        """Per task those it was beside before racks were optimised, as bits: Kafka forgets none."""
        self.joined = [0] * len(self.processes)
        """Per process the standbys placed there, as bits."""
        self.previous_active: dict[int, int] = {}
        self.previous_standby: dict[int, list[int]] = {}
        number = {task: i for i, task in enumerate(self.tasks)}
        for client in order:
            state = self.states[self.processes[client]]
            for task in sorted(state.previous_active_tasks & number.keys()):
                self.previous_active[number[task]] = client
            for task in sorted(state.previous_standby_tasks & number.keys()):
                self.previous_standby.setdefault(number[task], []).append(client)
        self.queue: list[tuple[float, int, int]] = []
        """Heap of (load, rank, process); entries whose load is out of date are dropped."""

    @property
    def assignment(self) -> TaskAssignment:
        """The assignment of all processes."""
        return TaskAssignment([self.assignments[process] for process in self.processes])

    def load(self, client: int) -> float:
        return self.count[client] / self.threads[client]

    def place(self, task: int, client: int, kind: TaskType) -> None:
        self.assignments[self.processes[client]].assign_task(AssignedTask(self.tasks[task], kind))
        self.met[client] |= 1 << task
        if kind is TaskType.STANDBY:
            self.joined[client] |= 1 << task
        else:
            self.owner[task] = client
        self.count[client] += 1
        heapq.heappush(self.queue, (self.load(client), self.rank[client], client))

    def place_actives(self) -> None:
        """Give actives back while there is room, then to former standbys, then to the best."""
        per_thread = len(self.tasks) // sum(self.threads)
        room = [threads * per_thread for threads in self.threads]
        self._refill()
        left = set(range(len(self.tasks)))
        for task in self._by_hash(self.previous_active):
            client = self.previous_active[task]
            if room[client] > 0:
                room[client] -= 1
                left.remove(task)
                self.place(task, client, TaskType.ACTIVE)
        for task in self._by_hash(range(len(self.tasks)), copied=True):
            holders = self.previous_standby.get(task, ()) if task in left else ()
            able = [c for c in sorted(holders, key=self.rank.__getitem__) if room[c] > 0]
            if able:
                room[able[0]] -= 1
                left.remove(task)
                self.place(task, able[0], TaskType.ACTIVE)
        for task in sorted(left):
            best = self._best(task, ())
            if best is not None:
                self.place(task, best, TaskType.ACTIVE)

    def place_standbys(self) -> None:
        """Place all standbys of one task before those of the next."""
        number = {task: i for i, task in enumerate(self.tasks)}
        self.met_before = {task: self.met[client] for task, client in self.owner.items()}
        owner: dict[int, int] = {}
        for client, process in enumerate(self.processes):
            mine = [number[task] for task in self.assignments[process].tasks]
            owner.update(dict.fromkeys(mine, client))
            self.met[client] = sum(1 << task for task in mine)
        everything = self._by_hash(range(len(self.tasks)))
        wanted = [t for t in everything if self.infos[self.tasks[t]].has_changelog]
        for task in self._by_hash(wanted):
            holders = [owner[task]]
            for _ in range(self.standbys):
                best = self._best(task, holders)
                if best is None:
                    break
                self.place(task, best, TaskType.STANDBY)
                holders.append(best)

    def level_standbys(self) -> None:
        """Even out what moving actives for racks has left uneven, by standbys alone."""
        while True:
            clients = sorted(range(len(self.processes)), key=lambda c: (self.load(c), self.rank[c]))
            hot = clients[-1]
            if not any(self._hand_over(hot, cold) for cold in clients[:-1]):
                return

    def _hand_over(self, hot: int, cold: int) -> bool:
        """Move one standby, if both loads then lie between what they were; rather back home."""
        if (self.count[cold] + 1) / self.threads[cold] >= self.load(hot):
            return False
        if (self.count[hot] - 1) / self.threads[hot] < self.load(cold):
            return False
        source = self.assignments[self.processes[hot]]
        target = self.assignments[self.processes[cold]]
        tasks = [task for task in source.of_type(TaskType.STANDBY) if task not in target.tasks]
        if not tasks:
            return False
        had = self.states[self.processes[cold]], self.states[self.processes[hot]]

        def regret(task: TaskId) -> tuple[int, TaskId]:
            back, kept = (
                task in state.previous_active_tasks or task in state.previous_standby_tasks
                for state in had
            )
            return kept - back, task

        task = min(tasks, key=regret)
        source.remove_task(AssignedTask(task, TaskType.STANDBY))
        target.assign_task(AssignedTask(task, TaskType.STANDBY))
        self.count[hot] -= 1
        self.count[cold] += 1
        return True

    def _refill(self) -> None:
        self.queue = [(self.load(c), self.rank[c], c) for c in range(len(self.processes))]
        heapq.heapify(self.queue)

    def _by_hash(self, tasks: Iterable[int], *, copied: bool = False) -> list[int]:
        return hashing.walk(((self.task_hash[t], t) for t in tasks), copied=copied)

    def _best(self, task: int, holders: Sequence[int]) -> int | None:
        """Find the process for a copy, among those that hold none; None if all do."""
        before = self.previous_active.get(task)
        if before is not None and before not in holders:
            if not self._should_level(before):
                return before
            before = None
        holding = self.previous_standby.get(task, ())
        standbys = [c for c in self._walk(holding, copied=True) if c not in holders]
        if standbys:
            former = self._lightest(task, standbys, holders)
            if not self._should_level(former):
                return former
        return self._least_loaded(task, holders)

    def _walk(self, clients: Iterable[int], *, copied: bool = False) -> list[int]:
        return hashing.walk(((self.hash[c], c) for c in clients), copied=copied)

    def _known(self, task: int, holders: Sequence[int]) -> int:
        """Give the tasks that this one has met, as bits; its holders are active, then standbys."""
        if not holders:
            return 0
        known = self.met_before[task] | self.joined[holders[0]]
        for holder in holders[1:]:
            known |= self.met[holder]
        return known

    def _lightest(self, task: int, clients: Sequence[int], holders: Sequence[int]) -> int:
        """Find the first least loaded of some processes, if possible with a new neighbour."""
        known = self._known(task, holders)
        meeting = [c for c in clients if self.met[c] == 0 or self.met[c] & ~known]
        return min(meeting or clients, key=self.load)

    def _should_level(self, client: int) -> bool:
        """Whether the process has a task per thread and someone has less."""
        load = self.load(client)
        return load >= 1 and self._peek() < load

    def _peek(self) -> float:
        while self.queue[0][0] != self.load(self.queue[0][2]):
            heapq.heappop(self.queue)
        return self.queue[0][0]

    def _least_loaded(self, task: int, holders: Sequence[int]) -> int | None:
        """Find the least loaded process where a copy meets a new neighbour, else any."""
        everyone = len(self.processes)
        if hashing.buckets(everyone - len(holders)) != hashing.buckets(everyone):
            # The smaller set of candidates has fewer buckets, and so an order of its own.
            others = self._walk(c for c in self.order if c not in holders)
            return self._lightest(task, others, holders) if others else None
        known = self._known(task, holders)
        passed: list[tuple[float, int, int]] = []
        any_of_them: int | None = None
        found: int | None = None
        while self.queue and found is None:
            entry = heapq.heappop(self.queue)
            client = entry[2]
            if entry[0] != self.load(client):
                continue
            passed.append(entry)
            if client in holders:
                continue
            met = self.met[client]
            if met == 0 or met & ~known:
                found = client
            elif any_of_them is None:
                any_of_them = client
        for entry in passed:
            heapq.heappush(self.queue, entry)
        return any_of_them if found is None else found
