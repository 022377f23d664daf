"""From an optimal flow to a place for each unit: exact where flow counts units, rounded for loads.

A unit that the flow splits goes to the side that holds more of it. What leaves is then packed,
heaviest first, where its hub has most quota left.
"""

import heapq

import numpy as np

from agent.assign.flow import Network, Routes, solve_network
from agent.assign.instance import Instance
from agent.assign.model import NOBODY, Ints

STAY = -1
"""In place of a hub: the unit stays with its home pool."""


def pools_by_flow(instance: Instance, network: Network) -> Ints | None:
    """Give each unit the pool of an optimal flow; None if the caps cannot hold the load.

    NOBODY where a unit has neither flow nor home. A load flow may exceed the room of a pool by
    less than one unit; the caller repairs that.
    """
    routes = solve_network(network)
    if routes is None:
        return None
    pool = np.full(instance.units, NOBODY, dtype=np.int64)
    homed = np.flatnonzero(instance.home >= 0)
    pool[homed] = network.pool_of[instance.home[homed]]
    grain = (
        1.0
        if network.exact
        else max(1.0, instance.weight.sum() / max(int(network.supply.sum()), 1))
    )
    flow_of_unit = np.ones(instance.units) if network.exact else instance.weight / grain
    # Heaviest first inside each kind.
    order = np.lexsort((np.arange(instance.units), -instance.weight, network.kind_of))
    start = np.searchsorted(network.kind_of[order], np.arange(network.kinds + 1))
    leaving: list[tuple[float, int, int]] = []
    for kind, via in routes.via.items():
        units = order[start[kind] : start[kind + 1]].tolist()
        wants = [(-float(flow), hub) for hub, flow in via]
        if routes.stay[kind]:
            wants.append((-float(routes.stay[kind]), STAY))
        heapq.heapify(wants)
        for unit in units:
            left, hub = wants[0]
            flow = float(flow_of_unit[unit])
            heapq.heapreplace(wants, (left + flow, hub))
            if hub != STAY:
                leaving.append((-flow, unit, hub))
    leaving.sort()
    _pack(pool, routes, leaving)
    return pool


def _pack(pool: Ints, routes: Routes, leaving: list[tuple[float, int, int]]) -> None:
    """Put leaving units where their hub has most quota left, in the order given."""
    quota = {
        hub: [(-float(flow), to) for to, flow in targets] for hub, targets in routes.quota.items()
    }
    for heap in quota.values():
        heapq.heapify(heap)
    for negative_flow, unit, hub in leaving:
        left, to = quota[hub][0]
        heapq.heapreplace(quota[hub], (left - negative_flow, to))
        pool[unit] = to
