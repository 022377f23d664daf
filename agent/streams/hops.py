"""Prices at which clients hand tasks over, as `cycles` and `balanced` need them."""

import numpy as np

from agent.streams.problem import Ints

FAR = np.int64(2**60)
"""Distance of what cannot be reached, far above any sum of scaled costs."""


class Hops:
    """Cheapest hand-over between clients of one group: price and, on ties, the first task.

    Both are folded into one number, price * 2**bits + task, so that one minimum finds both.
    """

    def __init__(self, owner: Ints, cost: Ints, shift: int, first_task: int) -> None:
        clients = cost.shape[1]
        self.owner = owner
        self.scaled = (cost << shift) + np.arange(first_task, first_task + len(cost))[:, None]
        self.bare = cost << shift
        self.table = np.full((clients, clients), FAR, dtype=np.int64)
        for client in range(clients):
            self.refresh(client)

    def refresh(self, client: int) -> None:
        """Recompute the row of a client whose tasks have changed."""
        mine = np.flatnonzero(self.owner == client)
        row = self.table[client]
        if len(mine) == 0:
            row[:] = FAR
            return
        np.min(self.scaled[mine] - self.bare[mine, client][:, None], axis=0, out=row)
        row[client] = FAR


def bits(tasks: int) -> int:
    """Give the width of the task number inside a scaled price."""
    return max(1, int(tasks).bit_length())
