"""Who holds what while an assignor works: the mutable middle of every assignor.

Kafka keeps this in `ClientState`. Loads are the same floating-point quotients as Kafka's, because
ties between them decide placements.
"""

from collections.abc import Iterable

import numpy as np

from agent.errors import OurFault
from agent.streams.problem import Placement, Problem


class Ledger:
    """Copies of tasks per client."""

    __slots__ = ("active", "standby", "threads")

    def __init__(self, problem: Problem) -> None:
        self.active: list[set[int]] = [set() for _ in range(problem.clients)]
        self.standby: list[set[int]] = [set() for _ in range(problem.clients)]
        self.threads: list[int] = problem.threads.tolist()

    def count(self, client: int) -> int:
        """Give the copies on a client."""
        return len(self.active[client]) + len(self.standby[client])

    def load(self, client: int) -> float:
        """Give copies per thread."""
        return (len(self.active[client]) + len(self.standby[client])) / self.threads[client]

    def active_load(self, client: int) -> float:
        """Give active tasks per thread."""
        return len(self.active[client]) / self.threads[client]

    def has(self, client: int, task: int) -> bool:
        """Whether the client holds any copy of the task."""
        return task in self.active[client] or task in self.standby[client]

    def owners(self, tasks: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Give (T,) the client of each active task, -1 where there is none."""
        owner = np.full(tasks, -1, dtype=np.int64)
        for client, held in enumerate(self.active):
            owner[list(held)] = client
        return owner

    def set_active(self, tasks: Iterable[int], owner: Iterable[int]) -> None:
        """Move active tasks to new owners."""
        moving = set(tasks)
        for held in self.active:
            held.difference_update(moving)
        for task, client in zip(tasks, owner, strict=True):
            self.active[int(client)].add(task)

    def placement(
        self, tasks: int, warmups: Iterable[tuple[int, int]], *, followup: bool
    ) -> Placement:
        """Freeze. `warmups` are (client, task) of the copies that are extra."""
        active = self.owners(tasks)
        if (active < 0).any():
            raise OurFault("an active task has no owner")
        standby: list[list[int]] = [[] for _ in range(tasks)]
        for client, held in enumerate(self.standby):
            for task in held:
                standby[task].append(client)
        extra: list[list[int]] = [[] for _ in range(tasks)]
        for client, task in sorted(warmups):
            extra[task].append(client)
        return Placement(
            active=tuple(active.tolist()),
            standby=tuple(map(tuple, standby)),
            warmup=tuple(map(tuple, extra)),
            followup=followup,
        )
