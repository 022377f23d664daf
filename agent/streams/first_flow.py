"""Where Kafka's balanced network starts from: Edmonds-Karp from nothing, in Kafka's node order."""

from collections import deque

import numpy as np

from agent.errors import OurFault
from agent.streams.problem import Ints

Node = tuple[str, int, int]
"""("task", t, 0), ("door", group, client), ("client", c, 0) or ("source", 0, 0)."""


def start(span: list[slice], capacity: Ints, counts: Ints) -> Ints:
    """Give Kafka's start for `balance_subtopology`: Edmonds-Karp from nothing.

    While an unassigned task finds a door and a client with room, the shortest way is that of the
    first such (group, client). Only what is left needs a search that takes tasks back.
    """
    width: list[list[int]] = capacity.tolist()
    room: list[int] = counts.tolist()
    owner = [-1] * span[-1].stop
    for group, tasks in enumerate(span):
        at = tasks.start
        for client, door in enumerate(width[group]):
            take = min(door, room[client], tasks.stop - at)
            owner[at : at + take] = [client] * take
            width[group][client] -= take
            room[client] -= take
            at += take
    while -1 in owner:
        _augment(span, width, room, owner)
    return np.array(owner, dtype=np.int64)


def _augment(span: list[slice], width: list[list[int]], room: list[int], owner: list[int]) -> None:
    """Push one task along the path that Kafka's breadth-first search finds."""
    group_of = [g for g, tasks in enumerate(span) for _ in range(tasks.start, tasks.stop)]
    used = [[0] * len(room) for _ in span]
    for task, client in enumerate(owner):
        if client >= 0:
            used[group_of[task]][client] += 1
    parents: dict[Node, Node | None] = {}
    queue: deque[Node] = deque()

    def visit(node: Node, above: Node | None) -> None:
        if node not in parents:
            parents[node] = above
            queue.append(node)

    for task, client in enumerate(owner):
        if client < 0:
            visit(("task", task, 0), None)
    while queue:
        node = queue.popleft()
        kind, a, b = node
        if kind == "task":
            for client in range(len(room)):
                if client != owner[a]:
                    visit(("door", group_of[a], client), node)
        elif kind == "door":
            for task in range(span[a].start, span[a].stop):
                if owner[task] == b:
                    visit(("task", task, 0), node)
            if width[a][b] > 0:
                visit(("client", b, 0), node)
        else:
            for group, row in enumerate(used):
                if row[a] > 0:
                    visit(("door", group, a), node)
            if room[a] > 0:
                _push(node, parents, width, room, owner)
                return
    raise OurFault("the fractional assignment fits, so a whole one must")


def _push(
    end: Node,
    parents: dict[Node, Node | None],
    width: list[list[int]],
    room: list[int],
    owner: list[int],
) -> None:
    """Send one task along the path that ends in a client with room."""
    room[end[1]] -= 1
    node = end
    gains: list[tuple[int, int]] = []
    while (above := parents[node]) is not None:
        if node[0] == "client":
            width[above[1]][node[1]] -= 1
        elif node[0] == "door" and above[0] == "client":
            width[node[1]][above[1]] += 1
        elif node[0] == "door":
            gains.append((above[1], node[2]))
        node = above
    for task, client in gains:
        owner[task] = client
