"""Kafka's `ConstrainedPrioritySet`: the least loaded client that may take a task."""

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from agent.streams import hashing


class LeastLoaded:
    """Clients by (load, process id); a load is read when the client is offered.

    Good only while a client in the queue keeps its load: whoever is polled is out of it, gets its
    task and is offered again. `ShiftingLoads` is for the one place where Kafka breaks that rule.
    """

    def __init__(self, load: Callable[[int], float]) -> None:
        self.load = load
        self.heap: list[tuple[float, int]] = []
        self.inside: set[int] = set()

    def offer_all(self, clients: Iterable[int]) -> None:
        """Add clients, or refresh those that are inside already."""
        fresh = set(clients)
        if fresh & self.inside:
            self.heap = [entry for entry in self.heap if entry[1] not in fresh]
            self.heap += [(self.load(client), client) for client in fresh]
            heapq.heapify(self.heap)
        else:
            for client in fresh:
                heapq.heappush(self.heap, (self.load(client), client))
        self.inside |= fresh

    def offer(self, client: int) -> None:
        """Put back the client that was polled."""
        heapq.heappush(self.heap, (self.load(client), client))
        self.inside.add(client)

    def poll(self, may_take: Callable[[int], bool]) -> int | None:
        """Take out the first client that may take the task; the others stay."""
        rejected = []
        found = None
        while self.heap:
            entry = heapq.heappop(self.heap)
            if may_take(entry[1]):
                found = entry[1]
                self.inside.discard(found)
                break
            rejected.append(entry)
        for entry in rejected:
            heapq.heappush(self.heap, entry)
        return found


Item = TypeVar("Item")


class ArrayHeap(Generic[Item]):
    """Java's `PriorityQueue`, move for move.

    Two things make the moves of the array visible: equal items come out in the order that sifting
    left them in, and an item may change its rank while it is inside.
    """

    def __init__(self, less: Callable[[Item, Item], bool]) -> None:
        self.less = less
        self.queue: list[Item] = []

    def push(self, item: Item) -> None:
        """Add an item."""
        self.queue.append(item)
        self._up(len(self.queue) - 1, item)

    def pop(self) -> Item:
        """Take out the first item."""
        first = self.queue[0]
        last = self.queue.pop()
        if self.queue:
            self._down(0, last)
        return first

    def remove(self, item: Item) -> None:
        """Take out one item, wherever it stands."""
        at = self.queue.index(item)
        last = self.queue.pop()
        if at < len(self.queue):
            self._down(at, last)
            if self.queue[at] == last:
                self._up(at, last)

    def _up(self, at: int, item: Item) -> None:
        queue = self.queue
        while at > 0:
            parent = (at - 1) >> 1
            if not self.less(item, queue[parent]):
                break
            queue[at] = queue[parent]
            at = parent
        queue[at] = item

    def _down(self, at: int, item: Item) -> None:
        queue = self.queue
        size = len(queue)
        while at < size >> 1:
            child = 2 * at + 1
            if child + 1 < size and self.less(queue[child + 1], queue[child]):
                child += 1
            if not self.less(queue[child], item):
                break
            queue[at] = queue[child]
            at = child
        queue[at] = item


class ShiftingLoads:
    """`LeastLoaded` as Kafka's task movements use it: loads change inside the queue.

    Present loads are compared whenever the heap is touched, and clients that were polled in vain
    go back in the order of Kafka's hash set.
    """

    def __init__(self, load: Callable[[int], float], spread_hash: Sequence[int]) -> None:
        self.heap = ArrayHeap[int](lambda a, b: (load(a), a) < (load(b), b))
        self.inside: set[int] = set()
        self.spread_hash = spread_hash

    def offer(self, client: int) -> None:
        """Add a client, or move it to where its load belongs."""
        if client in self.inside:
            self.heap.remove(client)
        self.inside.add(client)
        self.heap.push(client)

    def poll(self, may_take: Callable[[int], bool]) -> int | None:
        """Take out the first client that may take the task; the others go back in."""
        rejected = []
        found = None
        while self.heap.queue:
            first = self.heap.pop()
            self.inside.remove(first)
            if may_take(first):
                found = first
                break
            rejected.append(first)
        for client in hashing.walk((self.spread_hash[c], c) for c in rejected):
            self.offer(client)
        return found
