"""Even out tasks of unequal load, once counts are level.

Flows place tasks by number. Where loads differ, `even_out` exchanges copies between the most loaded
client and the others, and then `share_roles` lets clients that hold copies of the same tasks
exchange who runs them, which leaves every copy where it is. Either goes on as long as the larger of
the two loads per thread falls, and until the most loaded is level enough. Each step takes the
exchange that helps most, then the one that restores least, then the first by task id.
"""

from collections.abc import Callable, Sequence

import numpy as np

from agent import limits
from agent.streams.problem import Floats, Ints, Problem
from agent.streams.target import Holdings

LEVEL_ENOUGH = 1 + limits.STREAMS_LEVEL_SLACK / 2
"""Highest load per thread over the mean at which exchanges end."""

Tasks = Ints
"""Indexes of tasks; -1 stands for none."""


def even_out(
    problem: Problem, holdings: Holdings, target: Ints, copies: Sequence[Sequence[int]]
) -> tuple[Ints, list[list[int]]]:
    """Give target and copies with the load of all copies evened out."""
    spread = _Spread(problem, target, copies)

    def restoring(task: int, client: int) -> int:
        full = holdings.full[task]
        return holdings.restore[task].get(client, full) if problem.stateful[task] else 0

    def offers(hot: int, cold: int) -> Tasks:
        return np.array(sorted(spread.on[hot] - spread.on[cold]), dtype=np.int64)

    _exchange_until_level(problem, spread.load, offers, spread.move, restoring)
    return spread.target, spread.copies


def share_roles(
    problem: Problem, target: Ints, copies: Sequence[Sequence[int]]
) -> tuple[Ints, list[list[int]]]:
    """Give target and copies with the load of actives evened out among those who hold copies."""
    spread = _Spread(problem, target, copies)
    load: Floats = np.zeros(problem.clients)
    np.add.at(load, target, problem.load)
    before = problem.previous_active

    def offers(hot: int, cold: int) -> Tasks:
        mine = np.flatnonzero(spread.target == hot).tolist()
        return np.array([t for t in mine if cold in spread.copies[t]], dtype=np.int64)

    def moving(task: int, client: int) -> int:
        return int(before[task] not in {-1, client})

    def swap(task: int, source: int, destination: int) -> None:
        spread.swap(task, source, destination)
        load[source] -= problem.load[task]
        load[destination] += problem.load[task]

    _exchange_until_level(problem, load, offers, swap, moving)
    return spread.target, spread.copies


class _Spread:
    """Who runs each task, who holds its other copies, and the load of both."""

    def __init__(self, problem: Problem, target: Ints, copies: Sequence[Sequence[int]]) -> None:
        self.weight = problem.load
        self.target = target.copy()
        self.copies = [list(clients) for clients in copies]
        self.on: list[set[int]] = [set() for _ in range(problem.clients)]
        self.load = np.zeros(problem.clients)
        for task, clients in enumerate(self.copies):
            for client in (int(target[task]), *clients):
                self.on[client].add(task)
                self.load[client] += self.weight[task]

    def move(self, task: int, source: int, destination: int) -> None:
        """Move one copy, in whichever role it has there."""
        if self.target[task] == source:
            self.target[task] = destination
        else:
            self.copies[task].remove(source)
            self.copies[task] = sorted([*self.copies[task], destination])
        self.on[source].remove(task)
        self.on[destination].add(task)
        self.load[source] -= self.weight[task]
        self.load[destination] += self.weight[task]

    def swap(self, task: int, source: int, destination: int) -> None:
        """Let a client that holds a copy run the task, and the one that ran it keep the copy."""
        self.copies[task].remove(destination)
        self.copies[task] = sorted([*self.copies[task], source])
        self.target[task] = destination


def _exchange_until_level(
    problem: Problem,
    load: Floats,
    offers: Callable[[int, int], Tasks],
    move: Callable[[int, int, int], None],
    price: Callable[[int, int], int],
) -> None:
    """Relieve the most loaded client, one exchange after another; `load` (C,) follows each move.

    `offers(a, b)` are the tasks that a could give to b, `price(task, client)` what it costs there.
    """
    threads = problem.threads.astype(np.float64)
    enough = LEVEL_ENOUGH * load.sum() / threads.sum()
    for _ in range(limits.STREAMS_EXCHANGES_MAX):
        per_thread = load / threads
        hot = int(np.argmax(per_thread))
        if per_thread[hot] <= enough:
            return
        partners = np.argsort(per_thread, kind="stable")[: limits.STREAMS_PARTNERS_MAX].tolist()
        for cold in partners:
            found = None if cold == hot else _best_exchange(problem, load, hot, cold, offers, price)
            if found is not None:
                give, take = found
                move(give, hot, cold)
                if take >= 0:
                    move(take, cold, hot)
                break
        else:
            return


def _best_exchange(
    problem: Problem,
    load: Floats,
    hot: int,
    cold: int,
    offers: Callable[[int, int], Tasks],
    price: Callable[[int, int], int],
) -> tuple[int, int] | None:
    """Find the best exchange of a task against a lighter one or, as -1, nothing; None if none."""
    weight, threads = problem.load, problem.threads
    give = offers(hot, cold)
    if len(give) == 0:
        return None
    take = np.concatenate([[-1], offers(cold, hot)]).astype(np.int64)
    lighter = np.where(take >= 0, weight[take], 0.0)
    shift = weight[give][:, None] - lighter[None, :]
    after = np.maximum((load[hot] - shift) / threads[hot], (load[cold] + shift) / threads[cold])
    best, now = float(after.min()), load[hot] / threads[hot]
    if best >= now * (1 - limits.STREAMS_GAIN_MIN):
        return None

    def cost(cell: list[int]) -> int:
        given, taken = int(give[cell[0]]), int(take[cell[1]])
        return price(given, cold) + (price(taken, hot) if taken >= 0 else 0)

    cells = np.argwhere(after <= best * (1 + limits.STREAMS_GAIN_MIN)).tolist()
    i, k = min(cells, key=cost)
    return int(give[i]), int(take[k])
