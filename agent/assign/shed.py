"""Back into the band with few moves."""

import numpy as np

from agent.assign.model import Ints
from agent.assign.state import State


def restore_band(state: State, cap: Ints) -> None:
    """Move units off members over their cap to members with room."""
    instance = state.instance
    stuck: set[int] = set()
    while True:
        over = [int(m) for m in state.over(cap) if int(m) not in stuck]
        if not over:
            return
        source = over[0]
        excess = int(state.weight_on[source] - cap[source])
        units = np.flatnonzero((state.place == source) & (instance.weight > 0))
        weights = instance.weight[units]
        enough = weights >= excess
        # The smallest that is enough alone, else the largest.
        order = np.lexsort((units, np.where(enough, weights, -weights), ~enough))
        room = cap - state.weight_on
        for unit in units[order].tolist():
            members = instance.allowed[int(instance.allowed_class[unit])]
            weight = int(instance.weight[unit])
            fits = members[room[members] >= weight]
            fits = fits[fits != source]
            if len(fits):
                after = (state.weight_on[fits] + weight) / instance.capacity[fits]
                state.put(unit, int(fits[int(after.argmin())]))
                break
        else:
            stuck.add(source)
