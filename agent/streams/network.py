r"""The flow networks of KIP-925, kept sparse, and their exact solution.

KIP-925 draws an edge from every task to every client. But the cost of an edge depends on the
client only through its rack, but for the one client that already has the task. So clients that
share a rack collapse into a *hub*, and tasks that cost the same everywhere and stand on the same
client collapse into a *class*: 500 clients and 10,000 tasks in three racks are some thousand
classes and three hubs.

    source -> class -> hub (subtopology, rack) -> door (subtopology, client) -> client -> sink
                  \______ the client that has the task already ______/

`min_traffic` is the case of one subtopology: doors are as wide as the client. For
`balance_subtopology` a door lets ceil(C_i / n * S_j) tasks of subtopology j into client i, in the
floating point of Kafka, so an exact integer can round up to the next. The fractional assignment
C_i * S_j / n always fits through the doors, hence an integral one does too: the KIP left this
proof open.

Promise: the result has minimal cost and, among those, the fewest tasks moved. It does not promise
Kafka's choice among several optima; `cycles` does that.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from ortools.graph.python import min_cost_flow

from agent.errors import OurFault
from agent.streams.problem import Ints


@dataclass(frozen=True, slots=True)
class Arcs:
    """A min-cost flow problem in columns: the form that OR-tools and networkx both take."""

    tail: Ints
    head: Ints
    capacity: Ints
    cost: Ints
    supply: Ints
    """Per node: positive leaves it, negative arrives."""


@dataclass(frozen=True, slots=True)
class Actives:
    """The tasks to place and what is frozen about them. Lists are parallel to `tasks`."""

    tasks: Sequence[int]
    owner: Ints
    """Client that has the task in the assignment to be optimised."""
    group: Ints
    """Subtopology of the task, counted from 0 among these tasks; all 0 for `min_traffic`."""
    away: Ints
    """(len(tasks), R) cross-rack partitions in each rack."""
    client_rack: Ints
    traffic_cost: int
    non_overlap_cost: int
    balance: bool
    home: Ints | None = None
    """Client where each task counts as not moved, -1 for nowhere; the owner if not given."""

    @property
    def stays(self) -> Ints:
        """Client of each task that is free of the non-overlap cost, -1 where all cost it."""
        return self.owner if self.home is None else self.home

    @property
    def counts(self) -> Ints:
        """(C,) tasks that each client has and keeps having."""
        return np.bincount(self.owner, minlength=len(self.client_rack))

    def door_capacity(self) -> Ints:
        """Give (groups, C) the tasks of a group that a client may have."""
        counts = self.counts
        if not self.balance:
            return counts[None, :]
        sizes = np.bincount(self.group).tolist()
        n = len(self.tasks)
        return np.array(
            [[math.ceil(count * 1.0 / n * size) for count in counts.tolist()] for size in sizes],
            dtype=np.int64,
        )


def solve(arcs: Arcs) -> Ints:
    """Give the flow on each arc of a minimum-cost flow."""
    solver = min_cost_flow.SimpleMinCostFlow()
    at = solver.add_arcs_with_capacity_and_unit_cost(arcs.tail, arcs.head, arcs.capacity, arcs.cost)
    solver.set_nodes_supplies(np.arange(len(arcs.supply)), arcs.supply)
    status = solver.solve()
    if status != solver.OPTIMAL:
        raise OurFault(f"a flow that must exist was not found: {status}")
    return np.asarray(solver.flows(at), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Classes:
    """Tasks that no network can tell apart, as one node each."""

    members: list[list[int]]
    """Per class the positions of its tasks, ascending."""
    home: list[int]
    group: list[int]
    away: Ints


def classes_of(problem: Actives) -> Classes:
    """Collapse tasks of one group, owner and cost vector."""
    found: dict[tuple[int, int, bytes], list[int]] = {}
    rows = np.ascontiguousarray(problem.away)
    width = rows.shape[1] * rows.itemsize
    raw = rows.tobytes()
    for i, (group, owner) in enumerate(
        zip(problem.group.tolist(), problem.stays.tolist(), strict=True)
    ):
        found.setdefault((group, owner, raw[i * width : (i + 1) * width]), []).append(i)
    first = [members[0] for members in found.values()]
    return Classes(
        members=list(found.values()),
        home=[key[1] for key in found],
        group=[key[0] for key in found],
        away=problem.away[first],
    )


@dataclass(frozen=True, slots=True)
class Layout:
    """Which arc of `Arcs` is what: the ranges of arcs and the names of nodes."""

    classes: Classes
    to_hub: slice
    hub_of_arc: Ints
    class_of_arc: Ints
    stays: slice
    doors: list[tuple[int, int]]
    """(group, client) of each door node, in node order."""
    hubs: list[tuple[int, int]]
    """(group, rack) of each hub node, in node order."""
    door_from_hub: slice


def build(problem: Actives) -> tuple[Arcs, Layout]:
    """Lay out the network of one set of tasks."""
    classes = classes_of(problem)
    counts = problem.counts
    capacity = problem.door_capacity()
    groups, clients = capacity.shape
    used = [c for c in range(clients) if counts[c] > 0]
    racks = sorted({int(problem.client_rack[c]) for c in used})
    n_classes = len(classes.members)
    hubs = [(g, r) for g in range(groups) for r in racks]
    doors = [(g, c) for g in range(groups) for c in used]
    hub_node = {hub: n_classes + i for i, hub in enumerate(hubs)}
    door_node = {door: n_classes + len(hubs) + i for i, door in enumerate(doors)}
    client_node = {c: n_classes + len(hubs) + len(doors) + i for i, c in enumerate(used)}
    # One unit of real cost outweighs all moves together: moves only break ties.
    unit = len(problem.tasks) + 1
    sizes = np.array([len(m) for m in classes.members], dtype=np.int64)
    home = np.array(classes.home, dtype=np.int64)
    can_stay = (home >= 0) & (counts[home] > 0)
    home = np.where(can_stay, home, used[0])
    group = np.array(classes.group, dtype=np.int64)
    class_of_arc = np.repeat(np.arange(n_classes), len(racks))
    rack_of_arc = np.tile(np.array(racks, dtype=np.int64), n_classes)
    hub_of_arc = (
        n_classes + group[class_of_arc] * len(racks) + np.tile(np.arange(len(racks)), n_classes)
    )
    hub_cost = (
        problem.traffic_cost * classes.away[class_of_arc, rack_of_arc] + problem.non_overlap_cost
    ) * unit
    hub_cost += 1
    stay_head = np.array(
        [door_node[g, c] for g, c in zip(classes.group, home.tolist(), strict=True)],
        dtype=np.int64,
    )
    stay_cost = (
        problem.traffic_cost * classes.away[np.arange(n_classes), problem.client_rack[home]] * unit
    )
    open_capacity = np.array([int(capacity[d]) for d in doors], dtype=np.int64)
    door_nodes = np.arange(len(doors), dtype=np.int64) + n_classes + len(hubs)
    arcs = Arcs(
        tail=np.concatenate(
            [
                class_of_arc,
                np.arange(n_classes),
                np.array([hub_node[g, int(problem.client_rack[c])] for g, c in doors]),
                door_nodes,
            ]
        ),
        head=np.concatenate(
            [hub_of_arc, stay_head, door_nodes, np.array([client_node[c] for _, c in doors])]
        ),
        capacity=np.concatenate(
            [sizes[class_of_arc], sizes * can_stay, open_capacity, open_capacity]
        ),
        cost=np.concatenate([hub_cost, stay_cost, np.zeros(2 * len(doors), dtype=np.int64)]),
        supply=np.concatenate(
            [sizes, np.zeros(len(hubs) + len(doors), dtype=np.int64), -counts[used]]
        ),
    )
    n_hub = len(class_of_arc)
    layout = Layout(
        classes=classes,
        to_hub=slice(0, n_hub),
        hub_of_arc=hub_of_arc - n_classes,
        class_of_arc=class_of_arc,
        stays=slice(n_hub, n_hub + n_classes),
        doors=doors,
        hubs=hubs,
        door_from_hub=slice(n_hub + n_classes, n_hub + n_classes + len(doors)),
    )
    return arcs, layout


def place(problem: Actives) -> Ints:
    """Give the client of each task, at minimal cost, in the order of `problem.tasks`."""
    if len(problem.tasks) == 0:
        return np.zeros(0, dtype=np.int64)
    arcs, layout = build(problem)
    flow = solve(arcs)
    owner = problem.stays.copy()
    leaving: list[list[int]] = [[] for _ in layout.hubs]
    kept = flow[layout.stays].tolist()
    taken = kept[:]
    moves = flow[layout.to_hub]
    for arc in np.flatnonzero(moves).tolist():
        cls = int(layout.class_of_arc[arc])
        start, count = taken[cls], int(moves[arc])
        taken[cls] = start + count
        leaving[int(layout.hub_of_arc[arc])] += layout.classes.members[cls][start : start + count]
    slots: list[list[int]] = [[] for _ in layout.hubs]
    hub_at = {hub: i for i, hub in enumerate(layout.hubs)}
    for (group, client), count in zip(
        layout.doors, flow[layout.door_from_hub].tolist(), strict=True
    ):
        if count:
            slots[hub_at[group, int(problem.client_rack[client])]] += [client] * count
    for tasks, clients in zip(leaving, slots, strict=True):
        # All that arrive at a hub cost the same on each of its clients.
        owner[sorted(tasks)] = clients
    return owner


def cost_of(problem: Actives, owner: Ints) -> int:
    """Give the cost of an assignment in KIP-925's units."""
    away = problem.away[np.arange(len(owner)), problem.client_rack[owner]]
    moved = int((owner != problem.stays).sum())
    return int(away.sum()) * problem.traffic_cost + moved * problem.non_overlap_cost
