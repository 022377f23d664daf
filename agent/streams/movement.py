"""KIP-441, steps 5 and 6: where to run a task until its intended client has caught up.

Kafka's `TaskMovement`. The intended placement comes in, the one that can be used now goes out;
copies that only warm up are marked.
"""

from collections.abc import Callable
from functools import partial

from agent.errors import OurFault
from agent.streams import hashing
from agent.streams.ledger import Ledger
from agent.streams.problem import RUNNING, Problem
from agent.streams.queue import ArrayHeap, ShiftingLoads

_Move = tuple[int, int, int]
"""(caught-up clients, task, intended client); the first two rank it, Java's heap breaks ties."""


class Movement:
    """One pass of task movements over a ledger, with one budget of warmups."""

    def __init__(self, problem: Problem, ledger: Ledger) -> None:
        self.problem = problem
        self.ledger = ledger
        self.budget = problem.config.max_warmup_replicas
        self.warmups: set[tuple[int, int]] = set()
        """(client, task) of copies that stand in for an active on its way."""
        self.transitional: set[tuple[int, int]] = set()
        """(client, task) of standbys that stay as extra copies until the stand-in can go."""
        self.hashes = [hashing.process_hash(name) for name in problem.client_ids]
        self.lag_of = self._lags_by_task()

    def _lags_by_task(self) -> dict[int, dict[int, int]]:
        """Per task the clients that reported a lag; all others lag by the end offset."""
        by_task: dict[int, dict[int, int]] = {}
        for client, lags in enumerate(self.problem.lags):
            for task, lag in lags.items():
                by_task.setdefault(task, {})[client] = lag
        return by_task

    def caught_up(self, client: int, task: int) -> bool:
        """Whether the client may run the task at once."""
        if self.problem.config.unbounded_lag:
            return True
        lag = self.problem.lag(client, task)
        return lag == RUNNING or 0 <= lag <= self.problem.config.acceptable_recovery_lag

    def _least_lag(self, task: int) -> int:
        lags = self.lag_of.get(task, {})
        least = min(lags.values(), default=int(self.problem.end_offset[task]))
        if len(lags) < self.problem.clients:
            least = min(least, int(self.problem.end_offset[task]))
        return least

    def _caught_up_count(self, task: int) -> int:
        return sum(1 for client in range(self.problem.clients) if self.caught_up(client, task))

    def _must_wait(self, client: int, task: int) -> bool:
        """Whether the client is not caught up while another one lags strictly less."""
        if self.caught_up(client, task):
            return False
        return self._least_lag(task) < self.problem.lag(client, task)

    def _most_caught_up(
        self, task: int, destination: int, may_take: Callable[[int], bool]
    ) -> int | None:
        """Find the client with the least lag that may take the task, before the destination."""
        lag = self.problem.lag
        for client in sorted(range(self.problem.clients), key=lambda c: (lag(c, task), c)):
            if client == destination:
                return None
            if may_take(client):
                return client
        return None

    def _ready(self, task: int, client: int) -> bool:
        return self.caught_up(client, task)

    def _free(self, task: int, client: int) -> bool:
        return not self.ledger.has(client, task)

    def _ready_standby(self, task: int, client: int) -> bool:
        return task in self.ledger.standby[client] and self.caught_up(client, task)

    def _ready_and_free(self, task: int, client: int) -> bool:
        return self.caught_up(client, task) and self._free(task, client)

    def _schedule(self, held: list[set[int]]) -> tuple[ArrayHeap[_Move], ShiftingLoads]:
        """Queue the moves that are wanted, and the clients by load."""
        moves = ArrayHeap[_Move](lambda a, b: a[:2] < b[:2])
        clients = ShiftingLoads(self.ledger.load, self.hashes)
        for client, tasks in enumerate(held):
            for task in sorted(tasks):
                if (client, task) not in self.warmups and self._must_wait(client, task):
                    moves.push((self._caught_up_count(task), task, client))
            clients.offer(client)
        return moves, clients

    def actives(self) -> int:
        """Move actives off clients that are not caught up; give how many wanted to move."""
        ledger = self.ledger
        moves, clients = self._schedule(ledger.active)
        wanted = len(moves.queue)
        while moves.queue:
            _, task, destination = moves.pop()

            source = clients.poll(partial(self._ready_standby, task))
            if source is None:
                source = clients.poll(partial(self._ready, task))
            if source is None:
                source = self._most_caught_up(task, destination, lambda _: True)
            if source is None:
                raise OurFault(f"task {task} was to move to a client that does not exist")
            ledger.active[destination].remove(task)
            if task in ledger.standby[source]:
                ledger.standby[source].remove(task)
                ledger.standby[destination].add(task)
            elif self.budget > 0:
                self.budget -= 1
                ledger.standby[destination].add(task)
                self.warmups.add((destination, task))
            ledger.active[source].add(task)
            clients.offer(source)
            clients.offer(destination)
        return wanted

    def standbys(self) -> int:
        """Place standbys on caught-up clients meanwhile; give how many could move."""
        ledger = self.ledger
        moves, clients = self._schedule(ledger.standby)
        moved = 0
        while moves.queue:
            _, task, destination = moves.pop()

            source = clients.poll(partial(self._ready_and_free, task))
            if source is None:
                source = self._most_caught_up(task, destination, partial(self._free, task))
            if source is None:
                continue
            ledger.standby[source].add(task)
            if self.budget > 0:
                self.budget -= 1
                self.transitional.add((destination, task))
            else:
                ledger.standby[destination].remove(task)
            clients.offer(source)
            clients.offer(destination)
            moved += 1
        return moved
