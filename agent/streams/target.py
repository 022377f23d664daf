"""Where `plimsoll` wants actives and copies, as two min-cost flows.

Actives first: a client takes between its floor and its ceiling of stateful, of stateless and of all
tasks (or of each subtopology, under `balance_subtopology`), and among those placements the flow
weighs cross-rack traffic against moves. A move onto a client that has caught up is cheap, one onto
a client that must restore is dear. Then all other copies at once: level total load per thread, no
two copies of a task in one rack, as little as possible to restore, least traffic, in one order or
another.

Clients of a rack are one hub here too; only clients that have state of a task have an arc of
their own.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from ortools.graph.python import min_cost_flow

from agent.errors import OurFault
from agent.streams.problem import RUNNING, UNKNOWN, Floats, Ints, Problem

RESTORE_STEPS = 1_000
"""Resolution of the price of restoring: the largest state of the application costs this much."""


FAR_FACTOR = 100
"""How many times the price of the first task out of bounds a further one costs."""

Bounds = tuple[Ints, Ints]
"""Least and most (C,) tasks and copies of each client."""

CopyOrder = Literal["stay", "racks", "level"]
"""What comes first for copies: `stay` restores only what is missing, within one copy per thread of
level; `racks` and `level` are level at any price, and then spread racks or restore least."""


@dataclass(frozen=True, slots=True)
class Weights:
    """What the placement of actives weighs, in whole numbers."""

    away: int
    """One partition read across racks."""
    warm: int
    """A move onto a client that can run the task at once."""
    cold: int
    """A move onto a client that held no copy, on top of what it must restore."""
    slack: int
    """One task above a client's ceiling, up to one more per thread; further ones cost most."""


STAY = Weights(away=10_000, warm=1_000, cold=10_000_000, slack=100_000)
"""Nothing moves without its state for traffic's sake, nor to be level within one per thread."""

STAY_NEAR = Weights(away=1_000_000, warm=1_000, cold=10_000_000, slack=100_000)
"""The same, but within one task per thread of level, traffic comes before level load."""

RESTORE = Weights(away=1, warm=1_000, cold=10_000_000, slack=100_000_000)
"""Level first, then restore least; traffic only decides between equals."""

LEVEL = Weights(away=10_000, warm=1_000, cold=10_000_000, slack=100_000_000)
"""As `STAY`, but level load is worth a cold move."""

TRAFFIC = Weights(away=10_000_000, warm=1_000, cold=100_000, slack=100_000_000)
"""Level first, then the least traffic, then the fewest cold moves."""

FREE = Weights(away=10_000, warm=1, cold=100, slack=100_000_000)
"""Level first, then traffic and what there is to restore; a move by itself costs nearly nothing."""


WEIGHTS: Final = (STAY, STAY_NEAR, RESTORE, LEVEL, TRAFFIC, FREE)
ORDERS: Final[tuple[CopyOrder, ...]] = ("racks", "stay", "level")


class Holdings:
    """Who has how much of the state of each task: the part of the input that placements weigh."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.owner = problem.previous_active
        config = problem.config
        scale = max(1, int(problem.end_offset.max(initial=0)))
        unbounded, acceptable = config.unbounded_lag, config.acceptable_recovery_lag
        self.restore: list[dict[int, int]] = [{} for _ in range(problem.tasks)]
        """Per task and client with state: what is left to restore, in RESTORE_STEPS."""
        self.ready: list[set[int]] = [set() for _ in range(problem.tasks)]
        """Per task the clients that reported a lag small enough to run it at once."""
        self.lag: list[dict[int, int]] = [{} for _ in range(problem.tasks)]
        ends = problem.end_offset.tolist()
        self.full = [max(1, end * RESTORE_STEPS // scale) if end else 0 for end in ends]
        """Per task the price of restoring it from nothing."""
        for client, lags in enumerate(problem.lags):
            for task, lag in lags.items():
                self.lag[task][client] = lag
                if lag == RUNNING or 0 <= lag <= acceptable:
                    self.ready[task].add(client)
                left = 0 if lag == RUNNING else lag
                if lag == UNKNOWN:
                    # Who holds a copy but cannot say how much of it had better keep it.
                    left = 0 if client in problem.held[task] else ends[task]
                self.restore[task][client] = min(left, ends[task]) * RESTORE_STEPS // scale
        # Who held a copy and reports no lag has a stateless task, or nothing at all.
        for task, clients in enumerate(problem.held):
            if not problem.stateful[task]:
                for client in clients:
                    self.restore[task][client] = 0
                    self.ready[task].add(client)
        self.all_ready = [unbounded or 0 <= end <= acceptable for end in ends]
        """Per task whether even a client without any state counts as caught up."""

        cells = [
            (t, c, left, c in problem.held[t], self.can_run(t, c))
            for t, by_client in enumerate(self.restore)
            for c, left in by_client.items()
        ]
        self.cells: Ints = np.array(cells, dtype=np.int64).reshape(-1, 5)
        """One row per task and client with state: both, what is left, held before, can run."""

    def can_run(self, task: int, client: int) -> bool:
        """Whether the client may run the task at once."""
        problem = self.problem
        if not problem.stateful[task] or problem.config.unbounded_lag:
            return True
        if client in self.lag[task]:
            runs_now = client == self.owner[task] and self.lag[task][client] == UNKNOWN
            return runs_now or client in self.ready[task]
        return self.all_ready[task]

    def lag_of(self, task: int, client: int) -> int:
        """Give the lag, sentinels included."""
        return self.lag[task].get(client, int(self.problem.end_offset[task]))


def shares(total: int, threads: Ints) -> tuple[Ints, Ints]:
    """Give floor and ceiling of each client's share of `total` tasks, by threads."""
    exact = total * threads
    return exact // threads.sum(), -(-exact // threads.sum())


def level_bounds(total: int, threads: Ints) -> tuple[Ints, Ints]:
    """Give bounds (C,) on copies per client whose load per thread differs least.

    The best pair of levels is sought among the quotients next to the mean; with equal threads
    these are floor and ceiling.
    """
    mean = total / float(threads.sum())
    levels = sorted(
        {
            step / int(width)
            for width in np.unique(threads)
            for step in range(max(0, math.floor(mean * width) - 1), math.ceil(mean * width) + 2)
        }
    )
    best: tuple[float, Ints, Ints] | None = None
    eps = 1e-9
    for low in levels:
        lower = np.ceil(low * threads - eps).astype(np.int64)
        if int(lower.sum()) > total:
            break
        for high in levels:
            if high < low:
                continue
            upper = np.floor(high * threads + eps).astype(np.int64)
            if int(upper.sum()) >= total and (upper >= lower).all():
                if best is None or high - low < best[0] - eps:
                    best = (high - low, lower, upper)
                break
    if best is None:
        return shares(total, threads)
    return best[1], best[2]


class _Flow:
    """Blocks of arcs, solved at once."""

    def __init__(self) -> None:
        self.blocks: list[Ints] = []
        self.supply: list[Ints] = []
        self.nodes = 0
        self.arcs = 0

    def node(self, count: int, supply: Ints | int = 0) -> Ints:
        """Add nodes; give their numbers."""
        self.supply.append(np.broadcast_to(np.asarray(supply, dtype=np.int64), (count,)))
        self.nodes += count
        return np.arange(self.nodes - count, self.nodes)

    def arc(self, tail: Ints, head: Ints, capacity: Ints | int, cost: Ints | int) -> slice:
        """Add arcs; give where their flows will stand."""
        block = np.stack(np.broadcast_arrays(tail, head, capacity, cost)).astype(np.int64)
        self.blocks.append(block)
        self.arcs += block.shape[1]
        return slice(self.arcs - block.shape[1], self.arcs)

    def bounded(
        self, tail: Ints, head: Ints, low: Ints, high: Ints, width: Ints, near: int, far: int
    ) -> None:
        """Let flow through: reward up to `low`, free to `high`, then two steps of slack.

        The first `width` tasks missing or too many cost `near` each, further ones `far`.
        """
        inner = np.maximum(0, low - width)
        self.arc(tail, head, inner, -far)
        self.arc(tail, head, low - inner, -near)
        self.arc(tail, head, high - low, 0)
        self.arc(tail, head, width, near)
        self.arc(tail, head, 1 << 30, far)

    def solve(self) -> Ints:
        """Give the flow of each arc."""
        tail, head, capacity, cost = np.concatenate(self.blocks, axis=1)
        solver = min_cost_flow.SimpleMinCostFlow()
        at = solver.add_arcs_with_capacity_and_unit_cost(tail, head, capacity, cost)
        solver.set_nodes_supplies(np.arange(self.nodes), np.concatenate(self.supply))
        if solver.solve() != solver.OPTIMAL:
            raise OurFault("every task has somewhere to go")
        return np.asarray(solver.flows(at), dtype=np.int64)


def place_actives(problem: Problem, holdings: Holdings, weights: Weights) -> Ints:
    """Give the client (T,) that should run each task."""
    flow = _Flow()
    racks, rack = np.unique(problem.client_rack, return_inverse=True)
    groups, group = _groups(problem)
    tasks, clients = problem.tasks, problem.clients
    node = flow.node(tasks, 1)
    hub = flow.node(groups * len(racks)).reshape(groups, len(racks))
    door = flow.node(groups * clients).reshape(groups, clients)
    client = flow.node(clients)
    sink = flow.node(1, -tasks)
    stateful = problem.stateful
    has_state = np.zeros(tasks, dtype=np.bool_)
    has_state[holdings.cells[:, 0]] = True
    lost = np.where(stateful, np.array(holdings.full) + weights.cold * has_state, 0)
    lost = np.where(~stateful & (holdings.owner >= 0), weights.warm, lost)
    to_hub = flow.arc(
        np.repeat(node, len(racks)),
        hub[group].ravel(),
        1,
        (weights.away * problem.source_away[:, racks] + lost[:, None]).ravel(),
    )
    task, c, left, held, ready = holdings.cells.T
    known = (held > 0) | (holdings.owner[task] < 0)
    price = np.where(known, weights.warm, weights.cold)
    price = np.where(c == holdings.owner[task], 0, price)
    price = price + np.where(stateful[task] & (ready == 0), left + 1, 0)
    price += weights.away * problem.source_away[task, problem.client_rack[c]]
    own = flow.arc(node[task], door[group[task], c], 1, price)
    far = FAR_FACTOR * max(weights.slack, weights.cold)
    into_door = flow.arc(hub[:, rack].ravel(), door.ravel(), tasks, 0)
    for g, size in enumerate(np.bincount(group, minlength=groups).tolist()):
        low, high = shares(size, problem.threads)
        flow.bounded(door[g], client, low, high, problem.threads, weights.slack, far)
    low, high = level_bounds(tasks, problem.threads)
    flow.bounded(client, sink, low, high, problem.threads, weights.slack, far)
    used = flow.solve()
    target = np.full(tasks, -1, dtype=np.int64)
    stays = used[own] > 0
    target[task[stays]] = c[stays]
    through = used[to_hub].reshape(tasks, len(racks)) > 0
    entering = used[into_door].reshape(groups, clients)
    for g in range(groups):
        for r in range(len(racks)):
            waiting = np.flatnonzero(through[:, r] & (group == g))
            inside = np.flatnonzero(rack == r)
            target[waiting] = np.repeat(inside, entering[g, inside])
    return target


def _groups(problem: Problem) -> tuple[int, Ints]:
    """Give the number of groups that are levelled apart, and the group of each task."""
    if problem.config.strategy != "balance_subtopology":
        return 2, (~problem.stateful).astype(np.int64)
    keys = problem.subtopology * 2 + ~problem.stateful
    names, group = np.unique(keys, return_inverse=True)
    return len(names), group


def replicated(problem: Problem) -> Ints:
    """Give (T,) the copies beside the active: none for stateless tasks and without a changelog."""
    wanted = problem.stateful & problem.has_changelog
    return np.where(wanted, problem.copies - 1, 0)


def place_copies(
    problem: Problem,
    holdings: Holdings,
    owner: Ints,
    order: CopyOrder,
    bounds: Bounds | None = None,
) -> list[list[int]]:
    """Give per task the clients of its copies beside the active; level, if no bounds are given."""
    wanted: list[int] = replicated(problem).tolist()
    total = int(sum(wanted))
    if total == 0:
        return [[] for _ in wanted]
    flow = _Flow()
    racks, rack = np.unique(problem.client_rack, return_inverse=True)
    rows = np.flatnonzero(np.array(wanted))
    unit = 1 + int(problem.changelog_away.max(initial=0))
    dearest = (RESTORE_STEPS + 2) * unit + unit
    shared = dearest * (total + 1) if order == "racks" else unit // 2 + 1
    far = FAR_FACTOR * max(shared, dearest)
    near = unit // 2 + 1 if order == "stay" else far
    node = flow.node(len(rows), np.array(wanted)[rows])
    here = flow.node(len(rows) * len(racks)).reshape(len(rows), len(racks))
    client = flow.node(problem.clients)
    hub = flow.node(len(racks))
    sink = flow.node(1, -total)
    beside = rack[owner[rows]][:, None] == np.arange(len(racks))[None, :]
    places = np.bincount(rack)[None, :] - beside
    # The first copy in a rack is free; beside the active it shares the rack like a second one.
    first = np.minimum(places, np.where(beside & (len(racks) > 1), 0, 1))
    tail = np.repeat(node, len(racks))
    flow.arc(tail, here.ravel(), first.ravel(), 0)
    flow.arc(tail, here.ravel(), (places - first).ravel(), shared)
    away = problem.changelog_away
    fresh = (np.array(holdings.full)[rows] * unit + unit)[:, None] + away[rows][:, racks]
    arrivals = flow.arc(
        here.ravel(), np.tile(hub, len(rows)), np.maximum(places, 0).ravel(), fresh.ravel()
    )
    row_of = np.full(problem.tasks, -1, dtype=np.int64)
    row_of[rows] = np.arange(len(rows))
    task, c, left, held, _ = holdings.cells[
        (row_of[holdings.cells[:, 0]] >= 0) & (holdings.cells[:, 1] != owner[holdings.cells[:, 0]])
    ].T
    cost = left * unit + away[task, problem.client_rack[c]] + np.where(held > 0, 0, unit)
    choices = flow.arc(here[row_of[task], rack[c]], client[c], 1, cost)
    doors = flow.arc(hub[rack], client, total, 0)
    level, high = bounds or level_bounds(problem.tasks + total, problem.threads)
    load = np.bincount(owner, minlength=problem.clients)
    low = np.maximum(0, level - load)
    flow.bounded(client, sink, low, np.maximum(low, high - load), problem.threads, near, far * 2)
    used = flow.solve()
    placed: list[list[int]] = [[] for _ in wanted]
    stays = used[choices] > 0
    for t, holder in zip(task[stays].tolist(), c[stays].tolist(), strict=True):
        placed[t].append(holder)
    arriving = used[arrivals].reshape(len(rows), len(racks))
    at = np.argwhere(arriving)
    _settle(
        placed,
        owner,
        rack.tolist(),
        [(int(rows[i]), int(r), int(arriving[i, r])) for i, r in at],
        dict(enumerate(used[doors].tolist())),
    )
    return [sorted(clients) for clients in placed]


def _settle(
    placed: list[list[int]],
    owner: Ints,
    rack: Sequence[int],
    arrivals: list[tuple[int, int, int]],
    free: dict[int, int],
) -> None:
    """Find places for copies that came through a hub, on clients without one of the task.

    Each takes the client of the rack with most room; where it has none, an earlier one moves on.
    """
    members: dict[int, list[int]] = {}
    for c, r in enumerate(rack):
        members.setdefault(r, []).append(c)
    arrived: dict[int, list[tuple[int, int]]] = {r: [] for r in members}

    def open_to(task: int, r: int) -> list[int]:
        return [c for c in members[r] if c != owner[task] and c not in placed[task]]

    for task, r, count in arrivals:
        for _ in range(count):
            best = max(open_to(task, r), key=lambda c: (free[c], -c))
            if free[best] <= 0:
                best = _make_room(task, r, placed, arrived[r], open_to, free) or best
            free[best] -= 1
            placed[task].append(best)
            arrived[r].append((task, best))


def _make_room(
    task: int,
    rack: int,
    placed: list[list[int]],
    arrived: list[tuple[int, int]],
    open_to: Callable[[int, int], list[int]],
    free: dict[int, int],
) -> int | None:
    """Move a copy that arrived before to a client with room, so that this one has a place."""
    wanted = set(open_to(task, rack))
    for i, (other, client) in enumerate(arrived):
        if client in wanted:
            room = next((c for c in open_to(other, rack) if free[c] > 0), None)
            if room is not None:
                placed[other].remove(client)
                placed[other].append(room)
                arrived[i] = (other, room)
                free[room] -= 1
                free[client] += 1
                return client
    return None


def load_per_thread(
    problem: Problem, owner: Sequence[int], copies: Sequence[Sequence[int]]
) -> Floats:
    """(C,) load of actives and copies over threads."""
    load = np.bincount(owner, weights=problem.load, minlength=problem.clients)
    pairs = [(t, c) for t, clients in enumerate(copies) for c in clients]
    if pairs:
        tasks, clients = np.array(pairs).T
        load += np.bincount(clients, weights=problem.load[tasks], minlength=problem.clients)
    return np.asarray(load / problem.threads)
