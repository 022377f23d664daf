"""The proof of a plan, by code that shares nothing with the solver.

It reads the problem and the owners alone: own sums in floating point, own bounds, own networks.
A plan that breaks validity is `OurFault`. The three bounds and why they hold:

- load: total over total capacity; the heaviest partition over the largest member that may read it;
  the M-th plus the (M+1)-th heaviest over the largest member; and for any set of topics their load
  over the capacity of those who subscribe to one of them (the worst set is found by maximum flow);
- moves: a member over the band sheds at least the fewest of its heaviest partitions that bring it
  back, plus what pins and draining force;
- cross-rack load: the cheapest fractional placement when members of one rack and subscription
  pool their room under the plan's own largest utilisation (a minimum-cost flow).
"""

import numpy as np
from ortools.graph.python import max_flow, min_cost_flow

from agent.assign.model import Certificate, Flags, Floats, GroupProblem, Ints, any_of, is_member
from agent.errors import OurFault

FLOW_UNITS = 10**12
"""The total load inside the certificate's networks, in integer units; bounds are rounded down."""


def certify(problem: GroupProblem, owner: Ints) -> Certificate:
    """Check a plan and prove how good it is; raises OurFault when it is not valid."""
    subscribed = _subscribed(problem)
    check_valid(problem, owner, subscribed)
    held = owner >= 0
    load_on = np.bincount(
        owner[held], weights=problem.load[held], minlength=len(problem.member_ids)
    )
    utilisation = float((load_on / problem.capacity).max(initial=0.0))
    bound = min(_load_bound(problem, subscribed), utilisation)
    before = problem.owner
    settled = is_member(np.where(held, before, -1))
    settled[settled] = subscribed[problem.topic[settled], problem.subscription[before[settled]]]
    moved = settled & (owner != before)
    forced = held & ~settled & (before != -1)
    cross, cross_bound = _cross_rack(problem, owner, subscribed, utilisation)
    return Certificate(
        max_utilisation=utilisation,
        lower_bound=bound,
        ratio=utilisation / bound if bound > 0 else 1.0,
        moves=int(moved.sum()),
        moves_lower_bound=min(
            int(moved.sum()),
            _moves_bound(problem, settled, max(utilisation, _band(problem, bound))),
        ),
        moved_load=float(problem.load[moved].sum()),
        forced_moves=int(forced.sum()),
        cross_rack_load=cross,
        cross_rack_lower_bound=min(cross, cross_bound),
        conflicts=_conflicts(problem, owner),
    )


def _band(problem: GroupProblem, bound: float) -> float:
    return bound * (1 + problem.options.imbalance)


def _subscribed(problem: GroupProblem) -> Flags:
    """Give the table [topics, subscriptions] of what each kind of member subscribes to."""
    table = np.zeros((len(problem.topics), len(problem.subscriptions)), dtype=np.bool_)
    for i, topics in enumerate(problem.subscriptions):
        table[topics, i] = True
    return table


def check_valid(problem: GroupProblem, owner: Ints, subscribed: Flags | None = None) -> None:
    """Raise OurFault unless owners are live and subscribed and pins and co-partitions are kept."""
    table = _subscribed(problem) if subscribed is None else subscribed
    readable = any_of(table)[problem.topic]
    if len(owner) != len(problem.topic) or (owner[readable] < 0).any():
        raise OurFault("a subscribed partition has no owner")
    if (owner[~readable] != -1).any() or (owner >= len(problem.member_ids)).any():
        raise OurFault("an owner is not a member")
    if not table[problem.topic[readable], problem.subscription[owner[readable]]].all():
        raise OurFault("an owner does not subscribe to its partition")
    for topics in problem.copartition:
        rows = np.flatnonzero(readable & np.isin(problem.topic, topics))
        order = rows[np.argsort(problem.partition[rows], kind="stable")]
        same = np.diff(problem.partition[order]) == 0
        if (np.diff(owner[order])[same] != 0).any():
            raise OurFault("co-partitioned topics were split")
    if not problem.copartition:
        kept = is_member(problem.pinned)
        kept[kept] = table[problem.topic[kept], problem.subscription[problem.pinned[kept]]]
        if (owner[kept] != problem.pinned[kept]).any():
            raise OurFault("a pinned partition was moved")


def _load_bound(problem: GroupProblem, subscribed: Flags) -> float:
    """Give a utilisation that no placement can go below."""
    counted = any_of(subscribed)
    load = problem.load[counted[problem.topic]]
    if not load.size or load.max() == 0:
        return 0.0
    per_topic = np.bincount(problem.topic, weights=problem.load, minlength=len(problem.topics))
    patterns, pattern = np.unique(subscribed, axis=0, return_inverse=True)
    pattern = pattern.reshape(-1)
    sets, capacity = patterns[:, problem.subscription], problem.capacity
    supply = np.bincount(pattern, weights=per_topic, minlength=len(sets))
    roomiest = np.where(sets, capacity, 0.0).max(axis=1)[pattern][problem.topic]
    worthwhile = sets.any(axis=1)
    sets, supply = sets[worthwhile], supply[worthwhile]
    live = sets.any(axis=0)
    alone = np.divide(problem.load, roomiest, out=np.zeros_like(problem.load), where=roomiest > 0)
    best = max(float(alone.max()), float(load.sum() / capacity[live].sum()))
    members = int(live.sum())
    if load.size > members:
        crowded = -np.partition(-load, [members - 1, members])[[members - 1, members]]
        best = max(best, float(crowded.sum() / capacity[live].max()))
    if len(sets) > 1:
        best = _worst_topic_set(sets, supply.astype(np.float64), capacity, best)
    return best


def _worst_topic_set(sets: Flags, supply: Floats, capacity: Floats, best: float) -> float:
    """Raise `best` until all topics' loads fit fractionally; each cut is a valid bound itself."""
    total = float(supply.sum())  # divided by first: its inverse may be past all floats
    crowd, of_member = np.unique(sets, axis=1, return_inverse=True)
    room = np.bincount(of_member.reshape(-1), weights=capacity, minlength=crowd.shape[1])
    topic_side, member_side = np.nonzero(crowd)
    k, m = crowd.shape
    while True:
        network = max_flow.SimpleMaxFlow()
        for i, amount in enumerate(supply):
            network.add_arc_with_capacity(k + m, i, int(amount / total * FLOW_UNITS))
        network.add_arcs_with_capacity(
            topic_side, k + member_side, np.full(len(topic_side), FLOW_UNITS)
        )
        for j, width in enumerate(room):
            most = int(best / total * width * FLOW_UNITS) + 1
            network.add_arc_with_capacity(k + j, k + m + 1, most)
        network.solve(k + m, k + m + 1)
        short = [i for i in network.get_source_side_min_cut() if i < k]
        if not short:
            return best
        tight = supply[short].sum() / room[crowd[short].any(axis=0)].sum()
        if tight <= best * (1 + 1e-9):
            return best
        best = float(tight)


def _moves_bound(problem: GroupProblem, settled: Flags, ceiling: float) -> int:
    """Count the fewest partitions that must leave their owners to get under `ceiling`."""
    away = settled & (problem.pinned >= 0) & (problem.pinned != problem.owner)
    rows = np.flatnonzero(settled & ~away)
    total = np.bincount(
        problem.owner[rows], weights=problem.load[rows], minlength=len(problem.member_ids)
    )
    excess = total - ceiling * problem.capacity * (1 + 1e-6)
    rows = rows[excess[problem.owner[rows]] > 0]
    rows = rows[np.argsort(-problem.load[rows])]
    narrow = problem.owner[rows].astype(np.min_scalar_type(len(problem.member_ids)))
    rows = rows[np.argsort(narrow, kind="stable")]  # of so few bits: a radix sort
    owner, load = problem.owner[rows], problem.load[rows]
    first = np.searchsorted(owner, np.arange(len(problem.member_ids)))
    shed_before = np.concatenate([[0.0], np.cumsum(load)])[:-1]
    shed_before -= shed_before[first[owner]] if len(rows) else 0.0
    return int((shed_before < excess[owner]).sum()) if len(rows) else 0


def _cross_rack(
    problem: GroupProblem, owner: Ints, subscribed: Flags, utilisation: float
) -> tuple[float, float]:
    """Give the load that crosses racks, and the least that any placement this level could have."""
    racks = len(problem.racks)
    known = np.array([len(r) > 0 for r in problem.rack_sets], dtype=np.bool_)
    if not racks or not known.any() or not problem.options.rack_aware:
        return 0.0, 0.0
    near = np.ones((len(problem.rack_sets), racks + 1), dtype=np.bool_)
    for i, names in enumerate(problem.rack_sets):
        if names:
            near[i, :racks] = False
            near[i, list(names)] = True
    held = is_member(owner)
    rack_of_owner = problem.member_rack[owner[held]]  # -1 reads the last column: unknown is near
    crossing = ~near[problem.rack_set[held], rack_of_owner]
    cross = float(problem.load[held][crossing].sum())
    if cross == 0:
        return 0.0, 0.0
    return cross, _cross_bound(problem, subscribed, near, utilisation)


def _cross_bound(
    problem: GroupProblem, subscribed: Flags, near: Flags, utilisation: float
) -> float:
    """Solve the fractional placement over (rack set, topic set) and (rack, subscription) pools."""
    readable = any_of(subscribed)[problem.topic]
    reader_sets, reader_set = np.unique(subscribed, axis=0, return_inverse=True)
    kinds = len(reader_sets)
    label = problem.rack_set * kinds + reader_set.reshape(-1)[problem.topic]
    labels, group = np.unique(label[readable], return_inverse=True)
    supply = np.bincount(group, weights=problem.load[readable])
    pools, pool_of = np.unique(
        np.stack([problem.member_rack, problem.subscription]), axis=1, return_inverse=True
    )
    room = np.bincount(pool_of.reshape(-1), weights=problem.capacity) * utilisation
    first = np.unique(pool_of.reshape(-1), return_index=True)[1]
    total = float(supply.sum())
    amount = np.floor(supply / total * FLOW_UNITS).astype(np.int64)
    width = np.ceil(room / total * FLOW_UNITS * (1 + 1e-9)) + len(amount)
    width = np.minimum(width, 4.0 * FLOW_UNITS)
    may = reader_sets[:, problem.subscription[first]][labels % kinds]
    source, target = np.nonzero(may)
    cost = (~near[labels[source] // kinds, pools[0, target]]).astype(np.int64)
    k, m = len(labels), pools.shape[1]
    network = min_cost_flow.SimpleMinCostFlow()
    network.add_arcs_with_capacity_and_unit_cost(source, k + target, amount[source], cost)
    network.add_arcs_with_capacity_and_unit_cost(
        k + np.arange(m), np.full(m, k + m), width.astype(np.int64), np.zeros(m, dtype=np.int64)
    )
    network.set_nodes_supplies(np.arange(k), amount)
    network.set_node_supply(k + m, -int(amount.sum()))
    if network.solve() != network.OPTIMAL:
        return 0.0
    return max(0.0, float(network.optimal_cost() - k) / FLOW_UNITS * total)


def _conflicts(problem: GroupProblem, owner: Ints) -> int:
    """Count unordered incompatible pairs that share an owner."""
    if not len(problem.incompatible):
        return 0
    a, b = owner[problem.incompatible].T
    return int(((a == b) & (a >= 0)).sum())
