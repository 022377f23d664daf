r"""KIP-925 for standbys, second option: one min-cost flow over all of them.

Frozen are the copies of each task and the copies on each client; a copy never joins the active or
another copy of its task. Clients of one rack are one hub, as for actives:

    task -> (task, rack) -> hub of the rack -> client -> sink
                        \___ client that holds a copy ___/

A hub forgets which task came through it, so the tasks that arrive in a rack are matched to its
free places afterwards, by a maximum flow. That nearly always succeeds and then nothing was lost:
the network with hubs is a relaxation. If it does not, the dense network of all tasks and clients
is solved instead. Either way the cost is the optimum.

`rack_then_flow` puts reliability first, as the KIP's second option does: every copy that shares a
rack with another copy of its task costs more than all traffic together. `flow` is about cost
alone. Among equals the one with less traffic wins.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from ortools.graph.python import max_flow, min_cost_flow

from agent.errors import OurFault
from agent.streams.problem import Ints


@dataclass(frozen=True, slots=True)
class Standbys:
    """The copies to place. Lists are parallel to `tasks`."""

    tasks: Sequence[int]
    holders: list[tuple[int, ...]]
    """Clients with a copy in the assignment to be optimised."""
    active: list[int]
    """Client of the active, which takes no copy."""
    away: Ints
    """(len(tasks), R + 1) cross-rack changelog partitions in each rack."""
    client_rack: Ints
    traffic_cost: int
    non_overlap_cost: int
    racks_first: bool
    homes: Sequence[Collection[int]] | None = None
    """Clients where a copy of the task counts as not moved; its holders if not given."""

    @property
    def stays(self) -> Sequence[Collection[int]]:
        """Clients whose copies are free of the non-overlap cost."""
        return self.holders if self.homes is None else self.homes

    def counts(self) -> Ints:
        """Give (C,) the copies that each client has and keeps having."""
        flat = [client for clients in self.holders for client in clients]
        return np.bincount(flat, minlength=len(self.client_rack))


def cost_of(problem: Standbys, copies: Sequence[Sequence[int]]) -> int:
    """Give the cost of copies in KIP-925's units, against the copies handed in."""
    cost = 0
    for row, before, after in zip(problem.away.tolist(), problem.stays, copies, strict=True):
        for client in after:
            cost += problem.traffic_cost * row[int(problem.client_rack[client])]
            cost += 0 if client in before else problem.non_overlap_cost
    return cost


def place(problem: Standbys) -> list[tuple[int, ...]]:
    """Give the clients of each task's copies at minimal cost."""
    if not any(problem.holders):
        return list(problem.holders)
    network = _Network(problem)
    return network.through_hubs() or network.dense()


class _Network:
    """What both networks share: rows are the tasks that have copies at all.

    Nodes are numbered rows, then (row, rack), then clients, the sink, hubs.
    """

    def __init__(self, problem: Standbys) -> None:
        self.problem = problem
        self.rows = np.array([i for i, held in enumerate(problem.holders) if held], dtype=np.int64)
        self.demand = np.array([len(problem.holders[i]) for i in self.rows], dtype=np.int64)
        self.active = np.array(problem.active, dtype=np.int64)[self.rows]
        away = problem.away[self.rows]
        self.counts = problem.counts()
        self.clients = len(self.counts)
        racks, self.rack = np.unique(problem.client_rack, return_inverse=True)
        self.size = np.bincount(self.rack)
        self.copies = int(self.counts.sum())
        worst = int(away.max(initial=0))
        # Each kind of price outweighs all of the kind before it together: traffic that breaks ties,
        # cost, shared racks, counts. Ties are left to the solver where racks come first.
        unit = 1 if problem.racks_first else worst * self.copies + 1
        dearest = (problem.traffic_cost * worst + problem.non_overlap_cost + 1) * unit
        self.shared = dearest * (self.copies + 1)
        self.over = (self.shared if problem.racks_first else dearest) * (self.copies + 1)
        self.price = (problem.traffic_cost * unit + (unit > 1)) * away[:, racks]
        self.overlap = problem.non_overlap_cost * unit
        n, r = self.price.shape
        self.rack_node = n + np.arange(n * r).reshape(n, r)
        self.client_node = n + n * r + np.arange(self.clients)
        self.sink = int(self.client_node[-1]) + 1
        flat = [
            (i, c) for i, row in enumerate(self.rows.tolist()) for c in sorted(problem.stays[row])
        ]
        held = np.array(flat, dtype=np.int64).reshape(-1, 2)
        # Where an active has been put, the copy that was there must go.
        self.held = held[self.active[held[:, 0]] != held[:, 1]]

    def _inner(self) -> list[Ints]:
        """Give arcs from tasks to racks and from clients to the sink, as (4, n) columns.

        The first copy in a rack is free where reliability comes first, further ones share it.
        Counts are frozen; only where actives have taken the places of copies may a client go over
        its count, at a price above all else.
        """
        n, r = self.price.shape
        places = np.repeat(self.size[None, :], n, axis=0)
        known = self.active >= 0
        places[known, self.rack[self.active[known]]] -= 1
        first = places
        if self.problem.racks_first:
            first = np.minimum(places, 1)
            first[known, self.rack[self.active[known]]] = 0
        tail = np.repeat(np.arange(n), r)
        head, sink = self.rack_node.ravel(), np.full(self.clients, self.sink)
        none = np.zeros_like
        further = [
            _columns(tail, head, (places - first).ravel(), np.full(n * r, self.shared)),
        ]
        return [
            _columns(tail, head, first.ravel(), none(tail)),
            *(further if self.problem.racks_first else []),
            _columns(self.client_node, sink, self.counts, none(sink)),
            _columns(
                self.client_node, sink, self.counts + self.copies, np.full_like(sink, self.over)
            ),
        ]

    def _solve(self, arcs: list[Ints], hubs: int) -> list[Ints]:
        """Give the flow of each block of arcs, in the order of the blocks."""
        blocks = arcs + self._inner()
        columns = np.ascontiguousarray(np.concatenate(blocks, axis=1))
        solver = min_cost_flow.SimpleMinCostFlow()
        at = solver.add_arcs_with_capacity_and_unit_cost(*columns)
        supply = np.zeros(self.sink + 1 + hubs, dtype=np.int64)
        supply[: len(self.demand)] = self.demand
        supply[self.sink] = -self.copies
        solver.set_nodes_supplies(np.arange(len(supply)), supply)
        if solver.solve() != solver.OPTIMAL:
            raise OurFault("copies that had places must have places")
        bounds = np.cumsum([block.shape[1] for block in blocks])
        return np.split(np.asarray(solver.flows(at)), bounds)[: len(arcs)]

    def through_hubs(self) -> list[tuple[int, ...]] | None:
        """Solve with one hub per rack; None when the tasks in a rack do not fit its places."""
        n, r = self.price.shape
        hub = self.sink + 1 + np.arange(r)
        task, client = self.held.T
        blocks = [
            _columns(
                self.rack_node[task, self.rack[client]],
                self.client_node[client],
                np.ones_like(task),
                self.price[task, self.rack[client]],
            ),
            _columns(
                self.rack_node.ravel(),
                np.tile(hub, n),
                np.repeat(self.size[None, :], n, axis=0).ravel(),
                self.price.ravel() + self.overlap,
            ),
            _columns(
                hub[self.rack],
                self.client_node,
                np.full(self.clients, self.copies),
                np.zeros(self.clients, dtype=np.int64),
            ),
        ]
        stays, arrivals, places = self._solve(blocks, r)
        copies: list[list[int]] = [[] for _ in range(n)]
        for i, c in self.held[stays > 0].tolist():
            copies[i].append(c)
        arriving = arrivals.reshape(n, r)
        for rack in range(r):
            rows: Ints = np.flatnonzero(arriving[:, rack])
            free = np.flatnonzero((places > 0) & (self.rack == rack))
            if len(rows) and not self._match(
                rows, arriving[rows, rack], free, places[free], copies
            ):
                return None
        return self._by_task(copies)

    def _match(
        self, rows: Ints, counts: Ints, free: Ints, places: Ints, copies: list[list[int]]
    ) -> bool:
        """Match the copies that arrive in one rack to its free places."""
        allowed = self.active[rows][:, None] != free[None, :]
        column = {client: k for k, client in enumerate(free.tolist())}
        for at_row, row in enumerate(rows.tolist()):
            for client in copies[row]:
                if client in column:
                    allowed[at_row, column[client]] = False
        pair, place = np.nonzero(allowed)
        source, sink = len(rows) + len(free), len(rows) + len(free) + 1
        solver = max_flow.SimpleMaxFlow()
        at = solver.add_arcs_with_capacity(
            np.concatenate([pair, np.full(len(rows), source), len(rows) + np.arange(len(free))]),
            np.concatenate([len(rows) + place, np.arange(len(rows)), np.full(len(free), sink)]),
            np.concatenate([np.ones_like(pair), counts, places]),
        )
        if solver.solve(source, sink) != solver.OPTIMAL:
            raise OurFault("a maximum flow always exists")
        if solver.optimal_flow() < int(counts.sum()):
            return False
        used = np.flatnonzero(np.asarray(solver.flows(at))[: len(pair)])
        for row, client in zip(rows[pair[used]].tolist(), free[place[used]].tolist(), strict=True):
            copies[row].append(client)
        return True

    def dense(self) -> list[tuple[int, ...]]:
        """Solve with an arc for every task and client."""
        n, _ = self.price.shape
        cost = self.price[:, self.rack] + self.overlap
        cost[self.held[:, 0], self.held[:, 1]] -= self.overlap
        i, c = np.nonzero(self.active[:, None] != np.arange(self.clients)[None, :])
        block = _columns(
            self.rack_node[i, self.rack[c]], self.client_node[c], np.ones_like(i), cost[i, c]
        )
        (flow,) = self._solve([block], 0)
        copies: list[list[int]] = [[] for _ in range(n)]
        for at in np.flatnonzero(flow).tolist():
            copies[int(i[at])].append(int(c[at]))
        return self._by_task(copies)

    def _by_task(self, copies: list[list[int]]) -> list[tuple[int, ...]]:
        placed: list[tuple[int, ...]] = [()] * len(self.problem.holders)
        for row, clients in zip(self.rows.tolist(), copies, strict=True):
            placed[row] = tuple(sorted(clients))
        return placed


def _columns(*columns: Ints) -> Ints:
    """Stack tails, heads, capacities and costs of a block of arcs."""
    return np.stack(columns)
