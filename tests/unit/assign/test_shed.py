"""Relieving overfull members: what a descent promises, and how it leaves a deadlock."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agent.assign import GroupProblem, Member, Partitions
from agent.assign.greedy import sticky_start
from agent.assign.instance import build_instance
from agent.assign.plan import band
from agent.assign.shed import restore_band
from agent.assign.state import State


def holding(loads: Sequence[Sequence[int]]) -> GroupProblem:
    """Give a group whose members hold partitions of these loads."""
    flat = [(member, load) for member, held in enumerate(loads) for load in held]
    return GroupProblem.build(
        [Member(f"m{i}", ["t"]) for i in range(len(loads))],
        Partitions(
            topic=["t"] * len(flat),
            partition=list(range(len(flat))),
            load=[float(load) for _, load in flat],
            owner=[f"m{member}" for member, _ in flat],
        ),
    )


def test_several_make_room_where_one_is_not_enough() -> None:
    """Three giants sit on one member; none fits elsewhere, alone or in exchange for one other."""
    loads = [
        [345, 343, 341],
        [350, 170, 100, *[34] * 10],
        [360, 360, *[25] * 9],
        [350, 350, *[30] * 8],
    ]
    instance = build_instance(holding(loads))
    total = sum(map(sum, loads))
    _, cap = band(instance, 1000 * len(loads) / total - 1)
    state = sticky_start(instance)
    assert restore_band(state, cap)
    assert (state.weight_on <= cap).all()
    assert state.moves() == 4


@given(
    st.lists(st.lists(st.integers(0, 400), max_size=8), min_size=1, max_size=5),
    st.sampled_from([0.0, 0.02, 0.2]),
)
def test_no_descent_ends_worse_than_it_began(loads: list[list[int]], imbalance: float) -> None:
    """What is over the caps in all never grows, whether or not the band can be reached."""
    instance = build_instance(holding(loads))
    _, cap = band(instance, imbalance)
    state = sticky_start(instance)
    before = np.maximum(state.weight_on - cap, 0).sum()
    inside = restore_band(state, cap)
    after = np.maximum(state.weight_on - cap, 0).sum()
    assert after <= before
    assert inside == (after == 0)
    assert (state.weight_on == State(instance, state.place).weight_on).all()
