"""Fewer bytes across racks: confine units to racks by flow, then mend what rounding left.

`confined` places by one minimum-cost flow over pools (members alike in rack and subscription) and
confines each unit to the rack that it got: what is left is balance inside racks, which makes
nothing more cross. `uncross` is the local mend: a unit that crosses goes to a member beside a
replica, alone or in exchange for another.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from agent.assign.flow import CROSS, build_network, solve_network
from agent.assign.greedy import place_orphans, sticky_start
from agent.assign.instance import Instance
from agent.assign.model import NOBODY, Flags, Ints
from agent.assign.route import pools_by_flow
from agent.assign.state import State

MEND_UNITS_MAX = 2_000
"""Crossing units that one pass of the mend looks at, heaviest first; the flow does the bulk."""

MEND_CELLS = 50_000_000
"""Crossing units x all units that one pass may look at: an exchange looks at every unit."""

MEND_PASSES_MAX = 4

KINDS_MAX = 2_000
"""Units above which the flow over pools puts loads in classes: the mend evens out the rest."""


def cross_load(state: State) -> int:
    """Give the weight that crosses racks."""
    instance = state.instance
    if not instance.has_racks:
        return 0
    placed = np.flatnonzero(state.place >= 0)
    return int(instance.cross_of(placed, state.place[placed]).sum())


def alike(instance: Instance) -> Ints:
    """Give each member its pool: those of one rack that may hold the same units."""
    readers = np.unique(np.packbits(instance.may, axis=0), axis=1, return_inverse=True)[1]
    keys = instance.member_rack * (int(readers.max()) + 1) + readers.reshape(-1)
    return np.asarray(np.unique(keys, return_inverse=True)[1].reshape(-1), dtype=np.int64)


def cross_floor(instance: Instance, bound: float, cap: Ints) -> float:
    """Give the least weight that crosses racks if units could be split."""
    homeless = np.full(instance.units, NOBODY, dtype=np.int64)
    free = replace(instance, home=homeless, toll=np.zeros(instance.units, dtype=np.int64))
    share = np.floor(instance.capacity * bound).astype(np.int64)
    # One kind for each class and profile is enough: nobody asks which units they are.
    network = build_network(free, cap, share, alike(instance), classes_only=True)
    routes = solve_network(network)
    if routes is None:
        return 0.0
    return routes.cost / CROSS * float(instance.weight.sum()) / max(int(network.supply.sum()), 1)


def confined(instance: Instance, bound: float, cap: Ints) -> Iterator[State]:
    """Place by optimal flows, with full and with eased caps, each unit confined to its rack.

    Rounding may leave members over their caps; inside racks they can be relieved without more load
    across racks.
    """
    pool_of = alike(instance)
    pools, racks = int(pool_of.max()) + 1, instance.cross_share.shape[1]
    rack_of_pool = np.zeros(pools, dtype=np.int64)
    rack_of_pool[pool_of] = instance.member_rack
    in_rack = np.arange(racks)[:, None] == instance.member_rack[None, :]
    in_pool = np.arange(pools)[:, None] == pool_of[None, :]
    share = np.floor(instance.capacity * bound).astype(np.int64)
    floor = np.ceil(instance.capacity * bound * 1.002).astype(np.int64)
    typical = int(np.median(instance.weight))
    for margin in (0, typical // 2):
        eased = np.minimum(cap, np.maximum(cap - margin, floor))
        network = build_network(instance, eased, share, pool_of, kinds_max=KINDS_MAX)
        pool = pools_by_flow(instance, network)
        if pool is None:
            continue
        rack = np.where(pool == NOBODY, racks, rack_of_pool[pool])
        inside = _among(instance, rack, in_rack).blind()
        poured = sticky_start(_among(inside, np.where(pool == NOBODY, pools, pool), in_pool))
        place_orphans(poured)
        yield State(inside, poured.place)


def _among(instance: Instance, label: Ints, members_of: Flags) -> Instance:
    """Let each unit be held by the members of its label alone; a home outside them is lost.

    `label` [units]; `members_of` [labels, members]. Idle units carry one label more, for everybody.
    """
    labels = len(members_of) + 1
    inside = np.concatenate([members_of, np.ones((1, instance.members), dtype=np.bool_)])
    keys_used, allowed_class = np.unique(
        instance.allowed_class * labels + label, return_inverse=True
    )
    may = instance.may[keys_used // labels] & inside[keys_used % labels]
    home = instance.home.copy()
    owned = np.flatnonzero(home >= 0)
    home[owned[~may[allowed_class[owned], home[owned]]]] = NOBODY
    return replace(
        instance,
        home=home,
        allowed_class=allowed_class,
        may=may,
        allowed=tuple(np.flatnonzero(row) for row in may),
    )


def uncross(state: State, cap: Ints) -> None:
    """Send crossing units beside a replica, alone or in exchange, while less crosses."""
    instance = state.instance
    most = min(MEND_UNITS_MAX, MEND_CELLS // max(instance.units, 1))
    for _ in range(MEND_PASSES_MAX):
        crossing = instance.cross_of(np.arange(instance.units), state.place)
        heavy = np.flatnonzero(crossing > 0)
        heavy = heavy[np.lexsort((heavy, -crossing[heavy]))][:most]
        changed = False
        for unit in heavy.tolist():
            changed |= _mend(state, cap, unit)
        if not changed:
            return


def _mend(state: State, cap: Ints, unit: int) -> bool:
    instance = state.instance
    source, weight = int(state.place[unit]), int(instance.weight[unit])
    members = instance.allowed[int(instance.allowed_class[unit])]
    one = np.full(len(members), unit)
    gain = int(instance.cross_of(np.array([unit]), np.array([source]))[0]) - instance.cross_of(
        one, members
    )
    members, gain = members[gain > 0], gain[gain > 0]
    if not len(members):
        return False
    room = cap - state.weight_on
    fits = room[members] >= weight
    if fits.any():
        home = int(instance.home[unit])
        order = np.lexsort(
            (members[fits], -room[members[fits]], members[fits] != home, -gain[fits])
        )
        state.put(unit, int(members[fits][order[0]]))
        return True
    others = np.flatnonzero(np.isin(state.place, members))
    others = others[instance.may[instance.allowed_class[others], source]]
    if not len(others):
        return False
    at = state.place[others]
    gain_at = np.zeros(instance.members, dtype=np.int64)
    gain_at[members] = gain
    worse = instance.cross_of(others, np.full(len(others), source)) - instance.cross_of(others, at)
    saved = gain_at[at] - worse
    shift = weight - instance.weight[others]
    fits = (shift <= room[at]) & (-shift <= np.maximum(room[source], 0)) & (saved > 0)
    if not fits.any():
        return False
    best = np.flatnonzero(fits)
    other = int(others[best[np.lexsort((others[best], np.abs(shift[best]), -saved[best]))[0]]])
    member = int(state.place[other])
    state.put(other, source)
    state.put(unit, member)
    return True
