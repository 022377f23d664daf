"""A placement while it is being changed: who holds each unit, and how full each member is."""

import numpy as np

from agent.assign.instance import Instance
from agent.assign.model import NOBODY, Flags, Ints


class State:
    """Owner of each unit and weight on each member; kept in step by `put`."""

    def __init__(self, instance: Instance, place: Ints) -> None:
        self.instance = instance
        self.place = place.copy()
        held = place >= 0
        self.weight_on = np.zeros(instance.members, dtype=np.int64)
        np.add.at(self.weight_on, place[held], instance.weight[held])

    def put(self, unit: int, member: int) -> None:
        """Give a unit to a member, or (NOBODY) take it from whoever holds it."""
        before = self.place[unit]
        weight = self.instance.weight[unit]
        if before >= 0:
            self.weight_on[before] -= weight
        if member != NOBODY:
            self.weight_on[member] += weight
        self.place[unit] = member

    def copy(self) -> "State":
        """Give an independent copy."""
        return State(self.instance, self.place)

    def become(self, other: "State") -> None:
        """Place every unit as in another state of the same instance."""
        self.place[:] = other.place
        self.weight_on[:] = other.weight_on

    def utilisation_max(self) -> float:
        """Give the largest utilisation, in weight per unit of capacity."""
        if not self.instance.members:
            return 0.0
        return float((self.weight_on / self.instance.capacity).max())

    def over(self, cap: Ints) -> Ints:
        """Give members over their cap, most overfull first."""
        excess = self.weight_on - cap
        members = np.flatnonzero(excess > 0)
        return np.asarray(members[np.lexsort((members, -excess[members]))])

    def excess(self, cap: Ints) -> int:
        """Sum the weight over the caps."""
        return int(np.maximum(self.weight_on - cap, 0).sum())

    def arrivals_at(self, members: Flags) -> int:
        """Count the units that came to these members from another one."""
        came = (self.place >= 0) & (self.instance.home >= 0) & (self.place != self.instance.home)
        return int(members[self.place[came]].sum())

    def moves(self) -> int:
        """Count the partitions away from home."""
        instance = self.instance
        away = (instance.home >= 0) & (self.place != instance.home)
        return int(instance.toll[away].sum())


def backlogged(instance: Instance, cap: Ints) -> Flags:
    """Tell which members are over their caps as things are: what comes to them waits in line."""
    return State(instance, instance.home).weight_on > cap
