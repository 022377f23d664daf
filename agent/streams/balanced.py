"""`cycles` for `balance_subtopology`: Kafka's choice among several balanced optima.

The network has a door per (subtopology, client) before each client, as in `network`; the start is
not the assignment handed in but the flow of `first_flow`.
"""

import itertools

import numpy as np

from agent.errors import OurFault
from agent.streams import first_flow
from agent.streams.first_flow import Node
from agent.streams.hops import FAR, Hops, bits
from agent.streams.network import Actives
from agent.streams.problem import Ints


class _Sweeps:
    """Sweeps of the balanced network, stage by stage, with the states they went through.

    Groups that no negative cycle reaches stand still while others fall, so a state need not come
    back as a whole. The cut used here: when the steps of one period p repeat those of the period
    before, and no edge leads from a faster falling node to a slower one, then every later period
    repeats them too. (Each node was last relaxed from one that falls exactly as fast; a slower
    one only gets dearer.) Whole periods are then skipped at once; the last one is walked, because
    ties with slower nodes end there and parents must be read off real steps.
    """

    def __init__(self, network: "Balanced") -> None:
        self.network = network
        self.shape = (network.groups, network.clients)
        cells = network.groups * network.clients
        self.state = np.zeros(2 * cells + network.clients, dtype=np.int64)
        self.cells = cells
        self.tasks_saw_before = self.tasks_saw
        self.history: list[tuple[Ints, Ints]] = []
        """Per sweep the state before it and the doors between its first and second stage."""
        self.open = network.used < network.capacity
        self.in_use = network.used > 0
        self.shut = np.where(self.open, 0, FAR)
        self.idle = np.where(self.in_use, 0, FAR)

    @property
    def doors(self) -> Ints:
        """(groups, C) distance of each door."""
        return self.state[: self.cells].reshape(self.shape)

    @property
    def tasks_saw(self) -> Ints:
        """(groups, C) distance of each door when its tasks last looked."""
        return self.state[self.cells : 2 * self.cells].reshape(self.shape)

    @property
    def behind(self) -> Ints:
        """(C,) distance of each client behind its doors."""
        return self.state[2 * self.cells :]

    def run(self, count: int) -> bool:
        """Sweep `count` times, skipping whole periods; False when nothing is relaxed any more."""
        names: dict[bytes, int] = {}
        latest: dict[int, int] = {}
        steps: list[int] = []
        left, skipped = count, False
        while left:
            before = self.state
            self._sweep(first=not steps)
            left -= 1
            step = self.state - before
            if not step.any() and len(steps) > 1:
                return False
            if skipped:
                continue
            name = names.setdefault(step.tobytes(), len(names))
            steps.append(name)
            at = len(steps)
            period = at - latest.get(name, at)
            latest[name] = at
            if (
                period
                and at >= 2 * period
                and left > 2 * period
                and steps[-period:] == steps[-2 * period : -period]
            ):
                drop = self.state - self.history[-period][0]
                if self._steady(drop):
                    jump = left // period - 1
                    self.state = self.state + jump * drop
                    left -= jump * period
                    skipped = True
        return True

    def _steady(self, drop: Ints) -> bool:
        """Whether no edge leads to a node that falls more slowly than its start."""
        doors = drop[: self.cells].reshape(self.shape)
        saw = drop[self.cells : 2 * self.cells].reshape(self.shape)
        behind = drop[2 * self.cells :]
        from_tasks = (saw + self.idle).min(axis=1)
        return bool(
            (doors <= from_tasks[:, None]).all()
            and (saw <= doors).all()
            and (behind <= (doors + self.shut).min(axis=0)).all()
            and (doors <= behind[None, :] + self.idle).all()
        )

    def _sweep(self, *, first: bool) -> None:
        """One Bellman-Ford sweep: tasks to doors, doors to tasks and clients, clients back."""
        net = self.network
        state, cells = self.state, self.cells
        self.tasks_saw_before = self.tasks_saw
        after_tasks = self.doors
        if not first:  # Tasks stand at 0 then and no price is below that.
            best = (net.table + self.tasks_saw[:, :, None]).min(axis=1)
            best &= ~net.mask
            after_tasks = np.minimum(after_tasks, best)
        after = np.empty_like(state)
        np.minimum(self.behind, (after_tasks + self.shut).min(axis=0), out=after[2 * cells :])
        np.minimum(
            after_tasks,
            after[2 * cells :] + self.idle,
            out=after[:cells].reshape(self.shape),
        )
        after[cells : 2 * cells] = after_tasks.ravel()
        self.history.append((state, after_tasks))
        self.state = after

    def parents(self) -> dict[Node, Node]:
        """Find where the latest relaxation of each door and client came from."""
        net, cells = self.network, self.cells
        parents: dict[Node, Node] = {}
        missing = net.clients * (net.groups + 1)
        after = self.state
        for before, after_tasks in reversed(self.history):
            if missing == 0:
                break
            found = len(parents)
            for g, c in np.argwhere(after[:cells].reshape(self.shape) < after_tasks).tolist():
                parents.setdefault(("door", g, c), ("client", c, 0))
            for c in np.flatnonzero(after[2 * cells :] < before[2 * cells :]).tolist():
                group = int(np.argmin(after_tasks[:, c] + self.shut[:, c]))
                parents.setdefault(("client", c, 0), ("door", group, c))
            relaxed = np.argwhere(after_tasks < before[:cells].reshape(self.shape)).tolist()
            if relaxed:
                saw = before[cells : 2 * cells].reshape(self.shape)
                best = ((net.table + saw[:, :, None]).min(axis=1) & net.mask).tolist()
                for g, c in relaxed:
                    parents.setdefault(("door", g, c), ("task", best[g][c], 0))
            missing -= len(parents) - found
            after = before
        return parents


class Balanced:
    """`balance_subtopology`: a door per (subtopology, client) before the client itself.

    Distances of doors form a (groups, clients) table, those of clients a vector behind them.
    """

    def __init__(self, problem: Actives, cost: Ints) -> None:
        self.cost = cost
        self.tasks, self.clients = cost.shape
        self.groups = int(problem.group.max()) + 1
        bounds = np.searchsorted(problem.group, np.arange(self.groups + 1))
        self.span = [slice(int(a), int(b)) for a, b in itertools.pairwise(bounds)]
        self.group = problem.group
        self.capacity = problem.door_capacity()
        self.owner = first_flow.start(self.span, self.capacity, problem.counts)
        self.used = np.zeros((self.groups, self.clients), dtype=np.int64)
        np.add.at(self.used, (self.group, self.owner), 1)
        self.bits = bits(self.tasks)
        self.mask = np.int64((1 << self.bits) - 1)
        self.hops = [
            Hops(self.owner[span], cost[span], self.bits, span.start) for span in self.span
        ]
        self.table = np.stack([hops.table for hops in self.hops])
        for hops, table in zip(self.hops, self.table, strict=True):
            hops.table = table
        # The virtual source, the source, the sink.
        self.nodes = self.tasks + self.clients * self.groups + self.clients + 3

    def run(self) -> Ints:
        """Cancel cycles until there is none; give the client of each task."""
        while (cycle := self._cycle()) is not None:
            touched = set()
            for task, client in cycle:
                group, before = int(self.group[task]), int(self.owner[task])
                self.used[group, before] -= 1
                self.used[group, client] += 1
                self.owner[task] = client
                touched |= {(group, before), (group, client)}
            for group, client in touched:
                self.hops[group].refresh(client)
        return self.owner

    def _cycle(self) -> list[tuple[int, int]] | None:
        """Find the tasks that change hands around Kafka's next cycle, or None at the optimum."""
        walk = _Sweeps(self)
        if not walk.run(self.nodes - 1):
            return None
        start = self._last_relaxed(walk)
        if start is None:
            return None
        parents = walk.parents()
        node, parents[start[0]] = start[0], start[1]
        seen = set()
        while node not in seen:
            seen.add(node)
            node = parents[node] if node in parents else self._door_of(node)
        cycle: list[tuple[int, int]] = []
        entry = node
        while True:
            above = parents[node] if node in parents else self._door_of(node)
            if node[0] == "door" and above[0] == "task":
                cycle.append((above[1], node[2]))
            node = above
            if node == entry:
                return cycle

    def _door_of(self, node: Node) -> Node:
        if node[0] != "task":
            raise OurFault(f"{node} was never relaxed and cannot lie on the way to a cycle")
        return ("door", int(self.group[node[1]]), int(self.owner[node[1]]))

    def _last_relaxed(self, walk: _Sweeps) -> tuple[Node, Node] | None:
        """Find (end, start) of the first edge, in Kafka's order, that one more sweep relaxes."""
        doors, tasks_saw = walk.doors >> self.bits, walk.tasks_saw >> self.bits
        rows = np.arange(self.tasks)
        own = self.cost[rows, self.owner]
        distance = tasks_saw[self.group, self.owner] - own
        before = walk.tasks_saw_before >> self.bits
        source = min(0, int((before[self.group, self.owner] - own).min()))
        relaxed = distance[:, None] + self.cost < doors[self.group]
        relaxed[rows, self.owner] = False
        to_source = distance < source
        starts = np.flatnonzero(relaxed.any(axis=1) | to_source)
        if len(starts):
            task = int(starts[0])
            if to_source[task]:
                return ("source", 0, 0), ("task", task, 0)
            end = ("door", int(self.group[task]), int(np.argmax(relaxed[task])))
            return end, ("task", task, 0)
        behind = walk.behind >> self.bits
        to_task = (self.used > 0) & (doors < tasks_saw)
        to_client = (self.used < self.capacity) & (doors < behind[None, :])
        open_doors = np.argwhere(to_task | to_client)
        if len(open_doors):
            group, client = (int(i) for i in open_doors[0])
            start: Node = ("door", group, client)
            if to_task[group, client]:
                span = self.span[group]
                first = int(np.flatnonzero(self.owner[span] == client)[0]) + span.start
                return ("task", first, 0), start
            return ("client", client, 0), start
        back = np.argwhere(((self.used > 0) & (behind[None, :] < doors)).T)
        if len(back):
            client, group = (int(i) for i in back[0])
            return ("door", group, client), ("client", client, 0)
        return None
