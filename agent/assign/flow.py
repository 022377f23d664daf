r"""The minimum-cost flow: which units leave home, and for where, with balance held in its band.

The network has four layers, so that it stays sparse however many members there are:

    unit kind --stay--------------------------> pool --> sink
              \-move-> hub (class, rack) ------/

A *unit kind* is units alike in home, allowed members, replica racks and load; a *hub* stands for
all members of one rack that may hold one class of units; a *pool* is members that are alike (each
member by itself where the network is small enough). In order of weight, a unit of flow pays for
load that crosses racks, for leaving home, and for filling a pool beyond its fair share.

Integers and scaling. Where all loads are equal a unit of flow is one unit of the problem, the
optimum is integral and exact. Otherwise flow is load, scaled so that all of it is 2^31; a unit may
then split between places, and there are fewer split units than pools and hubs together. The cost
of a move is `MOVE * mean load / load` a unit of flow, at most `MOVE_MAX`, the cost of crossing a
rack `CROSS`: crossing outweighs moving for every load above 2^-13 of the mean. The largest total
is 2^31 * 2^28, inside int64.
"""

from dataclasses import dataclass

import numpy as np
from ortools.graph.python import min_cost_flow

from agent.assign.instance import Instance
from agent.assign.model import NOBODY, Ints
from agent.errors import OurFault

FLOW_TOTAL = 2**31
CROSS = 2**28
MOVE = 2**12
MOVE_MAX = 2**26


KINDS_MAX = 20_000
"""Units above which loads are put in classes, to keep the number of kinds down."""

CLASS_RATIO = 1.1
"""Loads within one class differ by at most this factor."""


@dataclass(frozen=True, slots=True)
class Network:
    """The flow network as columns; node numbers: kinds, then hubs, then pools, then the sink."""

    kind_of: Ints  # [U] kind of each unit; NOBODY where the load rounds to no flow
    kinds: int
    hub_class: Ints  # [hubs]
    hub_rack: Ints  # [hubs]
    pool_of: Ints  # [M]
    pools: int
    supply: Ints  # [kinds]
    tail: Ints  # [arcs]
    head: Ints  # [arcs]
    capacity: Ints  # [arcs]
    cost: Ints  # [arcs]
    exact: bool  # flow counts units, not load

    @property
    def sink(self) -> int:
        """Number of the last node."""
        return self.kinds + len(self.hub_class) + self.pools


@dataclass(frozen=True, slots=True)
class Routes:
    """An optimal flow: `stay[k]`, `via[k, h]` and `quota[h, p]`, in the network's flow units."""

    cost: int
    stay: Ints  # [kinds]
    via: dict[int, list[tuple[int, int]]]  # kind -> [(hub, flow)]
    quota: dict[int, list[tuple[int, int]]]  # hub -> [(pool, flow)]


def is_uniform(instance: Instance) -> bool:
    """Tell whether all units weigh the same, so that flow can count them."""
    weight = instance.weight
    return bool(len(weight)) and bool(weight[0] > 0) and bool((weight == weight[0]).all())


def build_network(
    instance: Instance,
    cap: Ints,
    share: Ints,
    pool_of: Ints,
    *,
    kinds_max: int = KINDS_MAX,
    lightest: int = 0,
) -> Network:
    """Lay out the network: members may hold `cap` [M], their fair share is `share` [M].

    Above `kinds_max` units their loads are put in classes; units lighter than `lightest` are told
    apart by all but their load.
    """
    exact = is_uniform(instance)
    pools = int(pool_of.max()) + 1
    pool_rack = np.zeros(pools, dtype=np.int64)
    pool_rack[pool_of] = instance.member_rack
    grain = int(instance.weight[0]) if exact else max(1.0, instance.weight.sum() / FLOW_TOTAL)
    kind_of, first, flow_of_unit = _kinds(instance, pool_of, grain, kinds_max, lightest)
    kinds = len(first)
    counted = kind_of >= 0
    supply = np.bincount(
        kind_of[counted], weights=flow_of_unit[counted].astype(np.float64), minlength=kinds
    ).astype(np.int64)
    hub_class, hub_rack, hub_tail, hub_pool = _hubs(instance, pool_of, pool_rack)
    hubs = len(hub_class)
    # Kind to hub: every hub of the kind's class.
    by_class = np.searchsorted(hub_class, np.arange(len(instance.allowed) + 1))
    klass = instance.allowed_class[first]
    degree = by_class[klass + 1] - by_class[klass]
    tail = np.repeat(np.arange(kinds), degree)
    within = np.arange(len(tail)) - np.repeat(np.cumsum(degree) - degree, degree)
    hub = np.repeat(by_class[klass], degree) + within
    crossing = instance.cross_share[instance.profile[first]]
    toll = _tolls(instance, kind_of, kinds, supply, exact=exact)
    move_cost = np.rint(CROSS * crossing[tail, hub_rack[hub]]).astype(np.int64) + toll[tail]
    # Kind to its home pool.
    home = instance.home[first]
    homed = np.flatnonzero(home >= 0)
    home_pool = pool_of[home[homed]]
    stay_cost = np.rint(CROSS * crossing[homed, pool_rack[home_pool]]).astype(np.int64)
    # Pool to sink, in tiers that prefer even filling.
    room = np.zeros(pools, dtype=np.int64)
    np.add.at(room, pool_of, (cap // grain).astype(np.int64))
    fair = np.zeros(pools, dtype=np.int64)
    np.add.at(fair, pool_of, np.minimum(cap, share) // grain)
    tiers = [fair, np.minimum(room - fair, np.bincount(pool_of, minlength=pools))]
    tiers.append(room - tiers[0] - tiers[1])
    base, sink = kinds + hubs, kinds + hubs + pools
    sink_tail = np.tile(base + np.arange(pools), len(tiers))
    return Network(
        kind_of=kind_of,
        kinds=kinds,
        hub_class=hub_class,
        hub_rack=hub_rack,
        pool_of=pool_of,
        pools=pools,
        supply=supply,
        tail=np.concatenate([tail, homed, kinds + hub_tail, sink_tail]),
        head=np.concatenate(
            [kinds + hub, base + home_pool, base + hub_pool, np.full(len(sink_tail), sink)]
        ),
        capacity=np.concatenate(
            [
                supply[tail],
                supply[homed],
                np.full(len(hub_tail), int(supply.sum())),
                np.concatenate(tiers),
            ]
        ),
        cost=np.concatenate(
            [
                move_cost,
                stay_cost,
                np.zeros(len(hub_tail), dtype=np.int64),
                np.repeat(np.arange(len(tiers)), pools),
            ]
        ),
        exact=exact,
    )


def solve_network(network: Network) -> Routes | None:
    """Solve with OR-tools; None when the band cannot hold the load."""
    engine = min_cost_flow.SimpleMinCostFlow()
    arcs = engine.add_arcs_with_capacity_and_unit_cost(
        network.tail, network.head, network.capacity, network.cost
    )
    engine.set_nodes_supplies(np.arange(network.kinds), network.supply)
    engine.set_node_supply(network.sink, -int(network.supply.sum()))
    status = engine.solve()
    if status == engine.INFEASIBLE:
        return None
    if status != engine.OPTIMAL:
        raise OurFault(f"minimum-cost flow ended with status {status}")
    flow = np.asarray(engine.flows(arcs))
    return read_routes(network, flow, int(engine.optimal_cost()))


def read_routes(network: Network, flow: Ints, cost: int) -> Routes:
    """Sort an optimal flow on the arcs into the three kinds of routes."""
    kinds, hubs = network.kinds, len(network.hub_class)
    base = kinds + hubs
    used = np.flatnonzero(flow > 0)
    stay = np.zeros(kinds, dtype=np.int64)
    via: dict[int, list[tuple[int, int]]] = {}
    quota: dict[int, list[tuple[int, int]]] = {}
    for arc in used.tolist():
        tail, head, amount = int(network.tail[arc]), int(network.head[arc]), int(flow[arc])
        if tail < kinds and head >= base:
            stay[tail] = amount
        elif tail < kinds:
            via.setdefault(tail, []).append((head - kinds, amount))
        elif tail < base:
            quota.setdefault(tail - kinds, []).append((head - base, amount))
    return Routes(cost, stay, via, quota)


def _kinds(
    instance: Instance, pool_of: Ints, grain: float, kinds_max: int, lightest: int
) -> tuple[Ints, Ints, Ints]:
    """Give each unit's kind, the first unit of each kind, and each unit's flow."""
    flow = np.rint(instance.weight / grain).astype(np.int64)
    home_pool = np.where(instance.home >= 0, pool_of[instance.home], NOBODY)
    counted = np.flatnonzero(flow > 0)
    size = np.where(instance.weight < lightest, 0, instance.weight)
    if np.count_nonzero(size[counted]) > kinds_max:
        size = np.rint(np.log(np.maximum(size, 1)) / np.log(CLASS_RATIO)).astype(np.int64)
    columns = np.stack([home_pool, instance.allowed_class, instance.profile, size, instance.toll])
    kind_of = np.full(instance.units, NOBODY, dtype=np.int64)
    order = counted[np.lexsort(columns[:, counted])]
    fresh = np.ones(len(order), dtype=np.bool_)
    fresh[1:] = (np.diff(columns[:, order], axis=1) != 0).any(axis=0)
    kind_of[order] = np.cumsum(fresh) - 1
    return kind_of, order[fresh], flow


def _hubs(instance: Instance, pool_of: Ints, pool_rack: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Give the hubs (class, rack), sorted, and the arcs from hubs to pools."""
    racks = instance.cross_share.shape[1]
    klass, member = np.nonzero(instance.may)
    pools = int(pool_of.max()) + 1
    pairs = np.unique(klass * pools + pool_of[member])
    klass, pool = pairs // pools, pairs % pools
    # Without racks in the costs one hub for each class serves all.
    rack = pool_rack[pool] if instance.has_racks else np.full(len(pool), racks - 1)
    keys, tail = np.unique(klass * racks + rack, return_inverse=True)
    return keys // racks, keys % racks, tail.reshape(-1), pool


def _tolls(instance: Instance, kind_of: Ints, kinds: int, supply: Ints, *, exact: bool) -> Ints:
    """Give the cost of leaving home, for each kind and unit of flow."""
    counted = kind_of >= 0
    toll = np.bincount(
        kind_of[counted], weights=instance.toll[counted].astype(np.float64), minlength=kinds
    )
    if exact:
        return np.rint(MOVE * toll / np.maximum(supply, 1)).astype(np.int64)
    mean = float(supply.sum()) / max(int(counted.sum()), 1)
    return np.minimum(np.rint(MOVE * mean * toll / np.maximum(supply, 1)), MOVE_MAX).astype(
        np.int64
    )
