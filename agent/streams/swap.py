"""KIP-925 for standbys, first option: swap between pairs of clients, reliability unharmed.

Kafka's `optimizeStandbyTasks`: at most four rounds over all pairs of clients in different racks;
each pair solves a two-client min-cost flow over the standbys that may change sides. "Already
there" is re-based at every pair, as in Kafka. A pair is passed over when no task of either could
save anything on the other side.
"""

import numpy as np

from agent.streams import cycles, network, tags
from agent.streams.ledger import Ledger
from agent.streams.problem import Problem

ROUNDS_MAX = 4
"""Kafka's STANDBY_OPTIMIZER_MAX_ITERATION: it usually stops after three."""


def optimise(problem: Problem, ledger: Ledger, costs: tuple[int, int]) -> None:
    """Swap standbys in place."""
    _Swapper(problem, ledger, costs).run()


class _Swapper:
    def __init__(self, problem: Problem, ledger: Ledger, costs: tuple[int, int]) -> None:
        self.problem = problem
        self.ledger = ledger
        self.traffic, self.overlap = costs
        self.rack: list[int] = problem.client_rack.tolist()
        self.best = np.zeros((problem.clients, len(problem.racks) + 1), dtype=np.int64)
        self.holders: dict[int, set[int]] = {}
        for client in range(problem.clients):
            self._refresh(client)
            for held in (ledger.active[client], ledger.standby[client]):
                for task in held:
                    self.holders.setdefault(task, set()).add(client)

    def run(self) -> None:
        moved, rounds = True, 0
        while moved and rounds < ROUNDS_MAX:
            moved = False
            rounds += 1
            for first in range(self.problem.clients):
                second = self._next_partner(first, first)
                while second is not None:
                    moved |= self._swap(first, second)
                    second = self._next_partner(first, second)

    def _refresh(self, client: int) -> None:
        """Recompute the most that any one standby of the client saves by going to each rack."""
        mine = list(self.ledger.standby[client])
        if mine:
            away = self.problem.changelog_away[mine]
            gain = away - away[:, self.rack[client]][:, None]
            self.best[client] = gain.min(axis=0) * self.traffic
        else:
            self.best[client] = 0

    def _next_partner(self, first: int, after: int) -> int | None:
        """Find the next client with which a swap could save anything at all."""
        rest = slice(after + 1, None)
        racks = self.problem.client_rack[rest]
        both = self.best[first][racks] + self.best[rest, self.rack[first]] + 2 * self.overlap
        found = np.flatnonzero((both < 0) & (racks != self.rack[first]))
        return None if len(found) == 0 else after + 1 + int(found[0])

    def _movable(self, source: int, destination: int) -> list[int]:
        ledger = self.ledger
        tasks = sorted(
            ledger.standby[source] - ledger.active[destination] - ledger.standby[destination]
        )
        if not self.problem.config.rack_aware_assignment_tags:
            return tasks
        return [
            task
            for task in tasks
            if tags.keeps_spread(self.problem, self.holders.__getitem__, source, destination, task)
        ]

    def _swap(self, first: int, second: int) -> bool:
        """Solve one pair; say whether anything changed hands."""
        movable = (self._movable(first, second), self._movable(second, first))
        if not movable[0] or not movable[1]:
            return False
        tasks = sorted(movable[0] + movable[1])
        before = np.array([int(task not in self.ledger.standby[first]) for task in tasks])
        pair = (first, second)
        after = cycles.place(
            network.Actives(
                tasks=tasks,
                owner=before,
                group=np.zeros(len(tasks), dtype=np.int64),
                away=self.problem.changelog_away[tasks],
                client_rack=self.problem.client_rack[list(pair)],
                traffic_cost=self.traffic,
                non_overlap_cost=self.overlap,
                balance=False,
            )
        )
        changed = np.flatnonzero(after != before).tolist()
        for i in changed:
            self._hand_over(tasks[i], pair[before[i]], pair[after[i]])
        if changed:
            self._refresh(first)
            self._refresh(second)
        return bool(changed)

    def _hand_over(self, task: int, source: int, destination: int) -> None:
        self.ledger.standby[source].remove(task)
        self.ledger.standby[destination].add(task)
        self.holders[task].remove(source)
        self.holders[task].add(destination)
