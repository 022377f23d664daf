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
from typing import Literal

import numpy as np
from ortools.graph.python import min_cost_flow

from agent.errors import OurFault
from agent.streams.problem import RUNNING, UNKNOWN, Floats, Ints, Problem

RESTORE_STEPS = 1_000
"""Resolution of the price of restoring: the largest state of the application costs this much."""


FAR_FACTOR = 100
"""How many times the price of the first task out of bounds a further one costs."""

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
    """Arcs gathered in lists and solved at once."""

    def __init__(self) -> None:
        self.tail: list[int] = []
        self.head: list[int] = []
        self.capacity: list[int] = []
        self.cost: list[int] = []
        self.supply: list[int] = []

    def node(self, supply: int = 0) -> int:
        self.supply.append(supply)
        return len(self.supply) - 1

    def arc(self, tail: int, head: int, capacity: int, cost: int) -> int:
        self.tail.append(tail)
        self.head.append(head)
        self.capacity.append(capacity)
        self.cost.append(cost)
        return len(self.tail) - 1

    def bounded(self, tail: int, head: int, low: int, high: int, prices: Sequence[int]) -> None:
        """Let flow through: reward up to `low`, free to `high`, then two steps of slack.

        `prices` are those of the first missing or surplus tasks, how many they are, and the price
        of any further one.
        """
        near, width, far = prices
        inner = max(0, low - width)
        self.arc(tail, head, inner, -far)
        self.arc(tail, head, low - inner, -near)
        self.arc(tail, head, high - low, 0)
        self.arc(tail, head, width, near)
        self.arc(tail, head, 1 << 30, far)

    def solve(self) -> list[int]:
        solver = min_cost_flow.SimpleMinCostFlow()
        at = solver.add_arcs_with_capacity_and_unit_cost(
            np.array(self.tail), np.array(self.head), np.array(self.capacity), np.array(self.cost)
        )
        solver.set_nodes_supplies(np.arange(len(self.supply)), np.array(self.supply))
        if solver.solve() != solver.OPTIMAL:
            raise OurFault("every task has somewhere to go")
        flows: list[int] = solver.flows(at).tolist()
        return flows


def place_actives(problem: Problem, holdings: Holdings, weights: Weights) -> Ints:
    """Give the client (T,) that should run each task."""
    flow = _Flow()
    racks = sorted({int(r) for r in problem.client_rack})
    groups, group = _groups(problem)
    nodes = [flow.node(1) for _ in range(problem.tasks)]
    hub = {(g, r): flow.node() for g in range(groups) for r in racks}
    door = [[flow.node() for _ in range(problem.clients)] for _ in range(groups)]
    client = [flow.node() for _ in range(problem.clients)]
    sink = flow.node(-problem.tasks)
    rack: list[int] = problem.client_rack.tolist()
    away: list[list[int]] = problem.source_away.tolist()
    hub_arcs: list[tuple[int, int, int]] = []
    own_arcs: list[tuple[int, int, int]] = []
    for task in range(problem.tasks):
        g = int(group[task])
        owner = int(holdings.owner[task])
        restore = holdings.restore[task]
        lost = holdings.full[task] + (weights.cold if restore else 0)
        if not problem.stateful[task]:
            lost = weights.warm if owner >= 0 else 0
        for r in racks:
            cost = weights.away * away[task][r] + lost
            hub_arcs.append((task, r, flow.arc(nodes[task], hub[g, r], 1, cost)))
        for c, left in restore.items():
            known = owner < 0 or c in problem.held[task]
            price = 0 if c == owner else weights.warm if known else weights.cold
            if problem.stateful[task] and not holdings.can_run(task, c):
                price += left + 1
            cost = weights.away * away[task][rack[c]] + price
            own_arcs.append((task, c, flow.arc(nodes[task], door[g][c], 1, cost)))
    far = FAR_FACTOR * max(weights.slack, weights.cold)
    widths = problem.threads.tolist()
    door_arcs: dict[tuple[int, int], int] = {}
    sizes = np.bincount(group, minlength=groups).tolist()
    for g in range(groups):
        low, high = (b.tolist() for b in shares(sizes[g], problem.threads))
        for c in range(problem.clients):
            door_arcs[g, c] = flow.arc(hub[g, rack[c]], door[g][c], problem.tasks, 0)
            flow.bounded(door[g][c], client[c], low[c], high[c], (weights.slack, widths[c], far))
    low, high = (b.tolist() for b in level_bounds(problem.tasks, problem.threads))
    for c in range(problem.clients):
        flow.bounded(client[c], sink, low[c], high[c], (weights.slack, widths[c], far))
    used = flow.solve()
    target = np.full(problem.tasks, -1, dtype=np.int64)
    for task, c, arc in own_arcs:
        if used[arc]:
            target[task] = c
    through: dict[tuple[int, int], list[int]] = {key: [] for key in hub}
    for task, r, arc in hub_arcs:
        if used[arc]:
            through[int(group[task]), r].append(task)
    for (g, c), arc in door_arcs.items():
        waiting = through[g, rack[c]]
        for _ in range(used[arc]):
            target[waiting.pop(0)] = c
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
    problem: Problem, holdings: Holdings, owner: Ints, order: CopyOrder
) -> list[list[int]]:
    """Give per task the clients of its copies beside the active."""
    wanted: list[int] = replicated(problem).tolist()
    total = int(sum(wanted))
    if total == 0:
        return [[] for _ in wanted]
    flow = _Flow()
    rack: list[int] = problem.client_rack.tolist()
    racks = sorted(set(rack))
    size = {r: rack.count(r) for r in racks}
    away: list[list[int]] = problem.changelog_away.tolist()
    worst_away = 1 + int(problem.changelog_away.max(initial=0))
    unit = worst_away  # One step of restoring outweighs nothing but the traffic of its copy.
    dearest = (RESTORE_STEPS + 2) * unit + worst_away
    shared = dearest * (total + 1) if order == "racks" else unit // 2 + 1
    far = FAR_FACTOR * max(shared, dearest)
    near = unit // 2 + 1 if order == "stay" else far
    client = [flow.node() for _ in range(problem.clients)]
    hub = {r: flow.node() for r in racks}
    sink = flow.node(-total)
    choices: list[tuple[int, int, int]] = []
    arrivals: list[tuple[int, int, int]] = []
    known = len(racks) > 1
    for task, copies in enumerate(wanted):
        if not copies:
            continue
        node = flow.node(copies)
        active = int(owner[task])
        restore = holdings.restore[task]
        for r in racks:
            places = size[r] - (rack[active] == r)
            here = flow.node()
            free = 0 if rack[active] == r and known else 1
            flow.arc(node, here, min(places, free), 0)
            flow.arc(node, here, max(0, places - free), shared)
            fresh = holdings.full[task] * unit + unit + away[task][r]
            arrivals.append((task, r, flow.arc(here, hub[r], places, fresh)))
            for c, left in restore.items():
                if rack[c] == r and c != active:
                    cost = left * unit + away[task][r]
                    cost += 0 if c in problem.held[task] else unit
                    choices.append((task, c, flow.arc(here, client[c], 1, cost)))
    level, high = level_bounds(problem.tasks + total, problem.threads)
    load = np.bincount(owner, minlength=problem.clients)
    doors = []
    widths = problem.threads.tolist()
    for c in range(problem.clients):
        doors.append((c, flow.arc(hub[rack[c]], client[c], total, 0)))
        low_c = max(0, int(level[c] - load[c]))
        high_c = max(low_c, int(high[c] - load[c]))
        flow.bounded(client[c], sink, low_c, high_c, (near, widths[c], far * 2))
    used = flow.solve()
    placed: list[list[int]] = [[] for _ in wanted]
    for task, c, arc in choices:
        if used[arc]:
            placed[task].append(c)
    _settle(
        placed,
        owner,
        rack,
        [(t, r, used[a]) for t, r, a in arrivals if used[a]],
        {c: used[a] for c, a in doors},
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
