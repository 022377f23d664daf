"""Ejection chains: a unit makes another leave, that one a third, until one finds room.

Where racks decide, the members that may take a unit without crossing are often all full, and only
a chain through several of them relieves one. The cheapest is found in two steps. What it costs to
shed a little load from each member is a shortest path over members; these prices tell which moves
lead anywhere. Then dynamic programming over units finds the cheapest chain of whole units from
each: of those on a member that are heavy enough to make room, the one that is cheapest to send on.

Promises: a chain that is given relieves. Does not: find the cheapest of all; chains that would move
a unit twice are dropped, and only a few are weighed exactly.
"""

from collections.abc import Sequence

import numpy as np

from agent.assign.model import Flags, Floats, Ints
from agent.assign.state import State

LENGTH_MAX = 8
"""Units of one chain."""

WEIGHED_MAX = 16
"""Chains that are weighed exactly: those of the units from which they seem cheapest."""

HOP = 1e-6
"""Price of a move by itself, in shares of its load: of two ways the shorter one wins."""

_Layer = tuple[Ints, Ints]
"""For each unit of the sorted list: the member it goes to, and the position of who leaves there."""


def cheapest_chain(
    state: State, cap: Ints, source: int, movable: Flags
) -> tuple[Ints, Ints] | None:
    """Find units, and where each of them goes, so that `source` is less over its cap.

    Least load starts to cross racks for what is relieved. None if no chain relieves.
    """
    instance = state.instance
    units = np.flatnonzero(movable & (state.place >= 0))
    units = units[np.lexsort((units, instance.weight[units], state.place[units]))]
    rows = np.arange(len(units))
    at, weight = state.place[units], instance.weight[units]
    room = np.maximum(cap - state.weight_on, 0)
    may = instance.may[instance.allowed_class[units]].copy()
    may[rows, at] = may[:, source] = False
    share = instance.cross_share[instance.profile[units]][:, instance.member_rack]
    price = np.where(may, share - share[rows, at][:, None], np.inf)
    shed = _shedding(price, at, room >= np.median(weight))
    value, layers = _chains(price, shed, at, weight, room)
    own = np.flatnonzero((at == source) & np.isfinite(value))
    excess = state.excess(cap)
    best: tuple[float, Ints, Ints] | None = None
    for start in own[np.argsort(value[own], kind="stable")][:WEIGHED_MAX].tolist():
        positions, targets = _follow(layers, start)
        if len(set(positions)) < len(positions):
            continue
        chain, to = units[positions], np.array(targets)
        after = state.weight_on.copy()
        np.add.at(after, to, instance.weight[chain])
        np.subtract.at(after, state.place[chain], instance.weight[chain])
        relief = excess - int(np.maximum(after - cap, 0).sum())
        more = instance.cross_of(chain, to) - instance.cross_of(chain, state.place[chain])
        cost = float(more.sum()) + HOP * float(instance.weight[chain].sum())
        if relief > 0 and (best is None or cost / relief < best[0]):
            best = (cost / relief, chain, to)
    return best[1:] if best else None


def _shedding(price: Floats, at: Ints, roomy: Flags) -> Floats:
    """Give what it costs each member to shed a unit of load, by Bellman and Ford: [M].

    `price` [units, M] is what starts to cross if a unit goes to a member, in shares of its load.
    """
    members = len(roomy)
    hop = np.full((members, members), np.inf)
    holders, first = np.unique(at, return_index=True)
    hop[holders] = np.minimum.reduceat(price, first, axis=0) + HOP
    shed = np.where(roomy, 0.0, np.inf)
    for _ in range(members):
        shed = np.minimum(shed, (hop + shed[None, :]).min(axis=1))
    return shed


def _chains(
    price: Floats, shed: Floats, at: Ints, weight: Ints, room: Ints
) -> tuple[Floats, list[_Layer]]:
    """Give the cost of the cheapest chain from each unit, and for each length how it goes on.

    Costs are what a chain costs beyond its members' prices: none is negative, so no chain gains by
    going in circles.
    """
    members, rows = np.arange(len(room)), np.arange(len(at))
    shed = np.where(np.isfinite(shed), shed, len(room))  # more than any way costs
    load, own = weight[:, None], shed[at][:, None]
    fits = load <= room
    beyond = price - own + np.where(fits, 0.0, shed)
    cost = load * np.maximum(beyond, HOP)
    heavier = np.empty(cost.shape, dtype=np.int64)  # the lightest on the member that makes room
    for m in members.tolist():
        first, end = np.searchsorted(at, [m, m + 1])
        found = first + np.searchsorted(weight[first:end], weight - room[m])
        heavier[:, m] = np.where(found < end, found, len(at))
    value = np.full(len(at), np.inf)
    layers: list[_Layer] = []
    for _ in range(LENGTH_MAX):
        follower = np.append(_cheapest_from(value, at), len(at))
        onward = np.append(value, np.inf)[follower]
        total = np.where(fits, cost, cost + onward[heavier])
        to = total.argmin(axis=1)
        value = total[rows, to]
        layers.append((to, np.where(fits[rows, to], -1, follower[heavier[rows, to]])))
    return value, layers


def _cheapest_from(value: Floats, at: Ints) -> Ints:
    """Give, for each position, that of the least value from there on with the same holder."""
    order = np.lexsort((value, at))
    rank = np.empty(len(at), dtype=np.int64)
    rank[order] = np.arange(len(at))
    return np.asarray(order[np.minimum.accumulate(rank[::-1])[::-1]])


def _follow(layers: Sequence[_Layer], start: int) -> tuple[list[int], list[int]]:
    """Give the positions of a chain and where each of them goes."""
    positions, targets = [start], []
    for to, follower in reversed(layers):
        targets.append(int(to[positions[-1]]))
        after = int(follower[positions[-1]])
        if after < 0:
            break
        positions.append(after)
    return positions, targets
