"""A plan cut down to what may move: the moves that gain most, as many as the budget holds.

Promises: what has no home is always placed; discretionary moves stay within both bounds. What pins
and draining force has no home in the instance, so it is outside the budget by construction.
Does not: plan again for the smaller budget; it picks from the full plan.
"""

import numpy as np

from agent.assign.conflicts import conflicts_of
from agent.assign.greedy import place_orphans, sticky_start
from agent.assign.model import Floats, Ints
from agent.assign.state import State


def within_budget(
    plan: State, cap: Ints, moves_max: int | None, moved_load_max: float | None
) -> State:
    """Give the plan, or as much of it as at most so many moves and so much moved load allow."""
    instance = plan.instance
    away = np.flatnonzero((instance.home >= 0) & (plan.place != instance.home))
    moves_left = float("inf") if moves_max is None else float(moves_max)
    load_left = float("inf") if moved_load_max is None else moved_load_max * instance.scale
    if instance.pieces[away].sum() <= moves_left and instance.weight[away].sum() <= load_left:
        return plan
    state = sticky_start(instance)
    place_orphans(state)
    while len(away):
        affordable = (instance.pieces[away] <= moves_left) & (instance.weight[away] <= load_left)
        away = away[affordable]
        if not len(away):
            break
        gain = _gains(state, cap, away, plan.place[away]) / instance.pieces[away]
        best = int(gain.argmax())
        if gain[best] <= 0:
            break
        unit = int(away[best])
        state.put(unit, int(plan.place[unit]))
        moves_left -= float(instance.pieces[unit])
        load_left -= float(instance.weight[unit])
        away = np.delete(away, best)
    return state


def _gains(state: State, cap: Ints, units: Ints, targets: Ints) -> Floats:
    """Value each move as things stand: relief counts a million, a conflict a thousand, load one."""
    instance = state.instance
    weight = instance.weight[units]
    mean = max(float(instance.weight.mean()), 1.0)
    excess = np.maximum(state.weight_on - cap, 0)
    arriving = np.maximum(state.weight_on[targets] + weight - cap[targets], 0) - excess[targets]
    relief = np.minimum(weight, excess[state.place[units]]) - arriving
    gain = 1e6 * relief / mean
    gain += (
        instance.cross_of(units, state.place[units]) - instance.cross_of(units, targets)
    ) / mean
    if instance.has_conflicts:
        for i, unit in enumerate(units.tolist()):
            there = conflicts_of(state, unit, int(targets[i]))
            gain[i] += 1e3 * (conflicts_of(state, unit) - there)
    return np.asarray(gain, dtype=np.float64)
