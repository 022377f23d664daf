"""Which of several optima Kafka's own solver ends in.

Where the high-availability assignor must give Kafka's very placement, the optimum alone is not
enough: with whole-number costs there are many, and Kafka's cycle cancelling ends in one of them
(`org.apache.kafka.streams.processor.internals.assignment.Graph`, Kafka 4.3). This module ends in
the same one, without walking Kafka's graph.

What Kafka does, with V nodes and E = tasks x clients edges: V Bellman-Ford sweeps over all edges
in node order from a virtual source; the first edge that the last sweep still relaxes leads back to
a negative cycle; push one unit around it; start again from nothing. That is O(V * E) for each unit
of improvement.

What makes a short cut exact:

* A task has one residual edge in (from the client that has it) and its distance follows that
  client's. So a sweep is one min-plus product over *clients*: from i to k at the price of the
  cheapest task that i could hand to k, the first such task where several are equally cheap.
* Distances fall for ever around a negative cycle, but their differences are soon periodic
  (min-plus linear systems are). Once a state comes back, shifted, all later sweeps are known, and
  so are the parents that sweep V would find.

Promise: the owner of every task is the one Kafka computes. It does not promise speed beyond
`limits.STREAMS_REPLICA_CELLS_MAX` tasks x clients; callers use `network` there.
"""

from dataclasses import dataclass

import numpy as np

from agent.streams import balanced
from agent.streams.hops import Hops, bits
from agent.streams.network import Actives
from agent.streams.problem import Ints


def place(problem: Actives) -> Ints:
    """Give the client of each task as Kafka's `optimizeActiveTasks` does."""
    if len(problem.tasks) == 0:
        return np.zeros(0, dtype=np.int64)
    cost = problem.traffic_cost * problem.away[:, problem.client_rack]
    cost = cost + problem.non_overlap_cost
    cost[np.arange(len(problem.owner)), problem.owner] -= problem.non_overlap_cost
    if problem.balance:
        return balanced.Balanced(problem, cost).run()
    return _Plain(problem.owner, cost).run()


@dataclass(slots=True)
class _Edge:
    """The first edge that the last sweep relaxes: `task` is its start, `client` its end.

    `client` is None where the edge leads back to the source of the network.
    """

    task: int
    client: int | None


class _Plain:
    """`min_traffic`: one group, clients are as wide as the number of tasks they have."""

    def __init__(self, owner: Ints, cost: Ints) -> None:
        self.owner = owner.copy()
        self.cost = cost
        self.tasks, self.clients = cost.shape
        self.bits = bits(self.tasks)
        self.mask = np.int64((1 << self.bits) - 1)
        self.hops = Hops(self.owner, cost, self.bits, 0)
        # The virtual source, the source, the sink.
        self.nodes = self.tasks + self.clients + 3

    def run(self) -> Ints:
        while (cycle := self._cycle()) is not None:
            touched = {int(self.owner[task]) for task, _ in cycle}
            for task, client in cycle:
                self.owner[task] = client
            for client in touched | {client for _, client in cycle}:
                self.hops.refresh(client)
        return self.owner

    def _cycle(self) -> list[tuple[int, int]] | None:
        """Find the tasks that change hands around Kafka's next cycle, or None at the optimum.

        The first sweep moves no client, and the last one only looks: clients take part in
        V - 2 sweeps.
        """
        history = self._sweeps(self.nodes - 2)
        if history is None:
            return None
        parent = self._parents(history)
        edge = self._last_relaxed(history[-1] >> self.bits, history[-2] >> self.bits)
        if edge is None:
            return None
        if edge.client is not None:
            parent[edge.client] = edge.task
        client = int(self.owner[edge.task])
        seen: dict[int, None] = {}
        while client not in seen:
            seen[client] = None
            client = int(self.owner[parent[client]])
        cycle, at = [], client
        while True:
            task = int(parent[at])
            cycle.append((task, at))
            at = int(self.owner[task])
            if at == client:
                return cycle

    def _sweeps(self, count: int) -> list[Ints] | None:
        """Give scaled distances of clients up to sweep `count`, cut by whole periods.

        None when the sweeps stop changing anything: there is no negative cycle.
        """
        x = np.zeros(self.clients, dtype=np.int64)
        table = self.hops.table
        keep = ~self.mask
        history = [x]
        seen = {x.tobytes(): 0}
        stop = count
        step = 0
        while step < stop:
            after = np.minimum(x, (table + x[:, None]).min(axis=0) & keep)
            step += 1
            history.append(after)
            if stop == count:
                key = (after - after[0]).tobytes()
                before = seen.setdefault(key, step)
                if before < step:
                    if after[0] == history[before][0]:
                        return None
                    stop = step + (count - step) % (step - before)
            x = after
        return history

    def _parents(self, history: list[Ints]) -> list[int]:
        """Find for each client the task of its latest relaxation, -1 where there was none."""
        parent = [-1] * self.clients
        missing = self.clients
        for k in range(len(history) - 1, 0, -1):
            relaxed = np.flatnonzero(history[k] < history[k - 1])
            if len(relaxed) == 0:
                continue
            best = (self.hops.table + history[k - 1][:, None]).min(axis=0)
            for client in relaxed.tolist():
                if parent[client] < 0:
                    parent[client] = int(best[client] & self.mask)
                    missing -= 1
            if missing == 0:
                break
        return parent

    def _last_relaxed(self, x: Ints, x_before: Ints) -> _Edge | None:
        """Find the first edge, in Kafka's order, that one more sweep relaxes."""
        rows = np.arange(self.tasks)
        own = self.cost[rows, self.owner]
        distance = x[self.owner] - own
        source = min(0, int((x_before[self.owner] - own).min()))
        relaxed = distance[:, None] + self.cost < x[None, :]
        relaxed[rows, self.owner] = False
        to_source = distance < source
        starts = np.flatnonzero(relaxed.any(axis=1) | to_source)
        if len(starts) == 0:
            return None
        task = int(starts[0])
        if to_source[task]:
            return _Edge(task, None)
        return _Edge(task, int(np.argmax(relaxed[task])))
