"""Ejection chains: what one that is given promises, and where nothing shorter helps."""

import numpy as np
import pytest

from agent.assign import GroupProblem, Member, Partitions
from agent.assign.chain import cheapest_chain
from agent.assign.greedy import sticky_start
from agent.assign.instance import build_instance
from agent.assign.plan import band
from agent.assign.shed import restore_band
from bench.groups.instances import Shape, make


def test_three_move_where_each_fits_only_in_the_next_one_s_place() -> None:
    """Topics lead from member to member; the room is at the far end of the chain."""
    topics = [["a"], ["a", "b"], ["b", "c"], ["c"]]
    held = [("a", "m0", 5), ("a", "m1", 4), ("b", "m2", 4), ("c", "m3", 1)]
    held += [("a", "m0", 1), ("b", "m1", 1), ("c", "m2", 1)]
    problem = GroupProblem.build(
        [Member(f"m{i}", some, rack=f"r{i % 2}") for i, some in enumerate(topics)],
        Partitions(
            topic=[topic for topic, _, _ in held],
            partition=list(range(len(held))),
            load=[float(load) for _, _, load in held],
            owner=[owner for _, owner, _ in held],
            racks=[["r0"] for _ in held],
        ),
    )
    instance = build_instance(problem)
    state = sticky_start(instance)
    cap = np.floor(np.array([5.5, 5.5, 5.5, 5.5]) * instance.scale).astype(np.int64)
    found = cheapest_chain(state, cap, 0, instance.weight > 0)
    assert found is not None
    rows = [int(np.flatnonzero(instance.unit_of == unit)[0]) for unit in found[0]]
    assert problem.topic[rows].tolist() == [0, 1, 2]
    assert found[1].tolist() == [1, 2, 3]
    assert restore_band(state, cap)


@pytest.mark.parametrize("seed", range(12))
def test_a_chain_relieves_and_goes_where_it_may(seed: int) -> None:
    """Each chain lowers what is over the caps, moves a unit once, and only to a subscriber."""
    law = ("uniform", "lognormal", "zipf")[seed % 3]
    shape = Shape(60, 6, 5, law, "nested", "hash", racks=3, replicas=1, imbalance=0.02)
    instance = build_instance(make(shape, seed))
    _, cap = band(instance, shape.imbalance)
    sources = sticky_start(instance).over(cap).tolist()
    assert sources
    for source in sources:
        state = sticky_start(instance)
        before = state.excess(cap)
        found = cheapest_chain(state, cap, source, instance.weight > 0)
        assert found is not None
        units, targets = found
        assert state.place[units[0]] == source
        assert len(set(units.tolist())) == len(units)
        assert instance.may[instance.allowed_class[units], targets].all()
        for unit, target in zip(units.tolist(), targets.tolist(), strict=True):
            state.put(unit, target)
        assert state.excess(cap) < before


def test_without_room_anywhere_there_is_no_chain() -> None:
    """All members are full: nothing relieves, and nothing is made worse."""
    shape = Shape(40, 4, 4, "uniform", "all", "hash", racks=2, replicas=1)
    instance = build_instance(make(shape, 1))
    state = sticky_start(instance)
    cap = state.weight_on // 2
    before = state.excess(cap)
    assert cheapest_chain(state, cap, 0, instance.weight > 0) is None
    assert not restore_band(state, cap)
    assert state.excess(cap) <= before
