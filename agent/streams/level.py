"""Even out tasks of unequal load, once counts are level.

Flows place tasks by number. Where loads differ, this exchanges copies between the most loaded
client and the others, as long as the larger of the two loads per thread falls. An exchange keeps
the number of copies on both; each step takes the one that helps most, then the one that restores
least, then the first by task id.
"""

from collections.abc import Sequence

import numpy as np

from agent import limits
from agent.streams.problem import Ints, Problem
from agent.streams.target import Holdings


def even_out(
    problem: Problem, holdings: Holdings, target: Ints, copies: Sequence[Sequence[int]]
) -> tuple[Ints, list[list[int]]]:
    """Give target and copies with loads evened out."""
    return _Evener(problem, holdings, target, copies).run()


class _Evener:
    def __init__(
        self, problem: Problem, holdings: Holdings, target: Ints, copies: Sequence[Sequence[int]]
    ) -> None:
        self.problem = problem
        self.holdings = holdings
        self.target = target.copy()
        self.copies = [list(clients) for clients in copies]
        self.threads = problem.threads.astype(np.float64)
        self.on: list[set[int]] = [set() for _ in range(problem.clients)]
        self.load = np.zeros(problem.clients)
        for task, clients in enumerate(self.copies):
            for client in (int(target[task]), *clients):
                self.on[client].add(task)
                self.load[client] += problem.load[task]

    def run(self) -> tuple[Ints, list[list[int]]]:
        for _ in range(limits.STREAMS_EXCHANGES_MAX):
            per_thread = self.load / self.threads
            hottest = int(np.argmax(per_thread))
            partners = np.argsort(per_thread, kind="stable")[: limits.STREAMS_PARTNERS_MAX].tolist()
            if not any(self._exchange(hottest, cold) for cold in partners if cold != hottest):
                break
        return self.target, self.copies

    def _exchange(self, hot: int, cold: int) -> bool:
        """Make the best exchange between two clients, a task against a lighter one or nothing."""
        load, threads = self.problem.load, self.threads
        give = np.array(sorted(self.on[hot] - self.on[cold]), dtype=np.int64)
        if len(give) == 0:
            return False
        take = np.array([-1, *sorted(self.on[cold] - self.on[hot])], dtype=np.int64)
        lighter = np.where(take >= 0, load[take], 0.0)
        shift = load[give][:, None] - lighter[None, :]
        after = np.maximum(
            (self.load[hot] - shift) / threads[hot], (self.load[cold] + shift) / threads[cold]
        )
        now = self.load[hot] / threads[hot]
        best = float(after.min())
        if best >= now * (1 - limits.STREAMS_GAIN_MIN):
            return False
        choices = np.argwhere(after <= best * (1 + limits.STREAMS_GAIN_MIN)).tolist()
        i, k = min(
            choices, key=lambda pair: self._restoring(give[pair[0]], take[pair[1]], hot, cold)
        )
        self._move(int(give[i]), hot, cold)
        if take[k] >= 0:
            self._move(int(take[k]), cold, hot)
        return True

    def _restoring(self, give: int, take: int, hot: int, cold: int) -> int:
        """Give what an exchange would have to restore."""
        total = 0
        for task, client in ((int(give), cold), (int(take), hot)):
            if task >= 0 and self.problem.stateful[task]:
                full = self.holdings.full[task]
                total += self.holdings.restore[task].get(client, full)
        return total

    def _move(self, task: int, source: int, destination: int) -> None:
        """Move one copy, in whichever role it has there."""
        if self.target[task] == source:
            self.target[task] = destination
        else:
            self.copies[task].remove(source)
            self.copies[task] = sorted([*self.copies[task], destination])
        weight = self.problem.load[task]
        self.on[source].remove(task)
        self.on[destination].add(task)
        self.load[source] -= weight
        self.load[destination] += weight
