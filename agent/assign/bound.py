"""The solver's lower bound on the largest utilisation, and the band that it spans.

The bound is the largest of four: total load over total capacity; the heaviest unit over the
largest member that may hold it; the M-th plus the (M+1)-th heaviest over the largest member (some
member gets two of the M+1 heaviest); and, where members subscribe to different topics, the
fractional optimum. The last is found exactly by Dinkelbach's method: while loads do not fit under
T, the minimum cut names topics whose only subscribers are too few, and their load over those
members' capacity is the next T.
"""

import numpy as np
from ortools.graph.python import max_flow

from agent.assign.instance import Instance
from agent.assign.model import Floats, Ints, total_by

FLOW_BITS = 50
"""Loads inside the maximum flow sum to at most 2^50: room for source and sink sums in int64."""

ROUNDS_MAX = 64
"""Dinkelbach's method needs a handful of cuts; each is a maximum flow."""

TOLERANCE = 1e-9
"""Slack of the band against rounding, relative: far below any measurement, far above 2^-40."""


def lower_bound(instance: Instance) -> float:
    """Give the bound on max utilisation, in weight per unit of capacity; 0 without load."""
    if not instance.units or not instance.weight.any():
        return 0.0
    may, capacity = instance.may, instance.capacity
    used = may[np.unique(instance.allowed_class)]
    live = used.any(axis=0)
    largest_of_class = np.array([capacity[a].max() if len(a) else 1.0 for a in instance.allowed])
    bounds = [
        float(instance.weight.sum()) / float(capacity[live].sum()),
        float((instance.weight / largest_of_class[instance.allowed_class]).max()),
    ]
    m = int(live.sum())
    if instance.units > m:
        top = -np.partition(-instance.weight, [m - 1, m])[[m - 1, m]]
        bounds.append(float(top.sum()) / float(capacity[live].max()))
    if len(used) > 1:
        bounds.append(_fractional_optimum(instance, max(bounds)))
    return max(bounds)


def caps(instance: Instance, utilisation: float) -> Ints:
    """Give the most weight that each member may hold at this utilisation."""
    return np.floor(instance.capacity * utilisation * (1 + TOLERANCE)).astype(np.int64)


def whole_units_bound(instance: Instance, start: float) -> float:
    """Give the lowest utilisation from `start` up that whole units of one weight can reach.

    Exact where all units weigh the same: members hold whole numbers of them, so only utilisations
    at which some member holds one more count.
    """
    grain = int(instance.weight[0])
    capacity = instance.capacity

    def fits(level: float) -> bool:
        whole = np.floor(capacity * level * (1 + TOLERANCE) / grain)
        classes = len(instance.allowed)
        supply = np.bincount(instance.allowed_class, minlength=classes).astype(np.float64)
        if len(instance.allowed) == 1:
            return bool(whole[instance.allowed[0]].sum() >= supply[0])
        columns, of_member = np.unique(instance.may.T, axis=0, return_inverse=True)
        room = total_by(of_member.reshape(-1), whole, len(columns))
        edge_class, edge_member = np.nonzero(columns.T)
        return _short_classes(supply, room, edge_class, edge_member, 1.0, 1.0) is None

    if fits(start):
        return start
    held = np.floor(capacity * start * (1 + TOLERANCE) / grain)
    # Each round of this list gives every member one more; a few rounds are always enough to try.
    levels: Floats = np.unique(np.concatenate([(held + k) * grain / capacity for k in (1, 2)]))
    while not fits(float(levels[-1])):
        levels = np.append(levels, levels[-1] * 2)
    low, high = -1, len(levels) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(float(levels[middle])) else (middle, high)
    return float(levels[high])


def _fractional_optimum(instance: Instance, start: float) -> float:
    """Raise `start` to the fractional optimum under the units' allowed members."""
    classes = len(instance.allowed)
    supply = total_by(instance.allowed_class, instance.weight.astype(np.float64), classes)
    columns, of_member = np.unique(instance.may.T, axis=0, return_inverse=True)
    capacity = total_by(of_member.reshape(-1), instance.capacity, len(columns))
    edge_class, edge_member = np.nonzero(columns.T)
    scale = min(1.0, 2.0**FLOW_BITS / supply.sum())
    bound = start
    for _ in range(ROUNDS_MAX):
        short = _short_classes(supply, capacity, edge_class, edge_member, bound, scale)
        if short is None:
            break
        reach = columns[:, short].any(axis=1)
        higher = supply[short].sum() / capacity[reach].sum()
        if higher <= bound * (1 + TOLERANCE):
            break
        bound = float(higher)
    return bound


def _short_classes(
    supply: Floats,
    capacity: Floats,
    edge_class: Ints,
    edge_member: Ints,
    utilisation: float,
    scale: float,
) -> Ints | None:
    """Give classes whose load cannot fit under `utilisation`, by a minimum cut; None if all fit."""
    k, m = len(supply), len(capacity)
    source, sink = k + m, k + m + 1
    amount = np.floor(supply * scale).astype(np.int64)
    room = np.ceil(capacity * utilisation * scale).astype(np.int64)
    flow = max_flow.SimpleMaxFlow()
    tails = np.concatenate([np.full(k, source), edge_class, k + np.arange(m)])
    heads = np.concatenate([np.arange(k), k + edge_member, np.full(m, sink)])
    limit = np.concatenate([amount, amount[edge_class], room])
    flow.add_arcs_with_capacity(tails, heads, limit)
    flow.solve(source, sink)
    if flow.optimal_flow() >= amount.sum():
        return None
    cut = np.array(flow.get_source_side_min_cut(), dtype=np.int64)
    return np.asarray(cut[cut < k])
