"""Sticky greedy: keep what is kept, then place the rest, heaviest first, on the least utilised.

Promises: every unit ends on a member that may hold it; nothing that has a home leaves it.
Does not: repair a broken band (`shed.py`).
"""

import heapq

import numpy as np

from agent.assign.instance import Instance
from agent.assign.model import NOBODY, Ints
from agent.assign.state import State


def sticky_start(instance: Instance) -> State:
    """Give the placement that keeps every unit with its home and leaves the others unplaced."""
    return State(instance, instance.home)


def place_orphans(state: State, units: Ints | None = None) -> None:
    """Place unplaced units (all, or those given) where utilisation stays lowest.

    Units that only one member may hold come first, as they leave no choice; then the heaviest.
    Ties go to the member with fewer units, then to the lower id; units without load go to the
    member with the fewest units, so that idle partitions spread too.
    """
    instance = state.instance
    if units is None:
        units = np.flatnonzero(state.place == NOBODY)
    if not len(units):
        return
    choice = (instance.may.sum(axis=1) > 1)[instance.allowed_class[units]]
    order = units[np.lexsort((units, -instance.weight[units], choice))]
    idle = instance.weight[order] == 0
    chooser = _Heaps(state) if _pools_are_few(instance) else _Scan(state)
    for unit in order[~idle].tolist():
        state.put(unit, chooser.least_utilised(unit))
    _spread_idle(state, order[idle])


def _pools_are_few(instance: Instance) -> bool:
    """Tell whether the classes share no member and capacities repeat: then heaps serve all."""
    if int(instance.may.sum(axis=0, initial=0).max(initial=0)) > 1:
        return False
    return len(np.unique(instance.capacity)) <= 4


class _Heaps:
    """Least utilised member of a class: one heap for each class and capacity."""

    def __init__(self, state: State) -> None:
        instance = self._instance = state.instance
        count = np.bincount(state.place[state.place >= 0], minlength=instance.members)
        self._pools: list[list[list[tuple[int, int, int]]]] = []
        for members in instance.allowed:
            pools: dict[float, list[tuple[int, int, int]]] = {}
            for m in members.tolist():
                pools.setdefault(float(instance.capacity[m]), []).append(
                    (int(state.weight_on[m]), int(count[m]), m)
                )
            for pool in pools.values():
                heapq.heapify(pool)
            self._pools.append(list(pools.values()))
        self._capacity: list[float] = instance.capacity.tolist()
        self._class: list[int] = instance.allowed_class.tolist()
        self._weight: list[int] = instance.weight.tolist()

    def least_utilised(self, unit: int) -> int:
        weight = self._weight[unit]
        pools = self._pools[self._class[unit]]
        pool = pools[0]
        if len(pools) > 1:
            pool = min(
                pools, key=lambda p: ((p[0][0] + weight) / self._capacity[p[0][2]], p[0][1:])
            )
        load, count, member = pool[0]
        heapq.heapreplace(pool, (load + weight, count + 1, member))
        return member


class _Scan:
    """Least utilised member of a class: a scan, for classes that overlap."""

    def __init__(self, state: State) -> None:
        self._state = state
        instance = state.instance
        self._capacity = [instance.capacity[a] for a in instance.allowed]

    def least_utilised(self, unit: int) -> int:
        state, instance = self._state, self._state.instance
        k = int(instance.allowed_class[unit])
        members = instance.allowed[k]
        after = (state.weight_on[members] + instance.weight[unit]) / self._capacity[k]
        return int(members[int(after.argmin())])


def _spread_idle(state: State, idle: Ints) -> None:
    """Place units without load on the members with the fewest units."""
    instance = state.instance
    count = np.bincount(state.place[state.place >= 0], minlength=instance.members)
    for k in np.unique(instance.allowed_class[idle]):
        members = instance.allowed[int(k)]
        heap = [(int(count[m]), int(m)) for m in members]
        heapq.heapify(heap)
        for unit in idle[instance.allowed_class[idle] == k].tolist():
            held, member = heap[0]
            heapq.heapreplace(heap, (held + 1, member))
            state.place[unit] = member
            count[member] += 1
