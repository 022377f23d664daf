"""The certificate refuses what is not valid, and its bounds are bounds."""

from dataclasses import replace

import numpy as np
import pytest

from agent import assign
from agent.assign.certificate import certify
from agent.errors import OurFault
from bench.groups.instances import Shape, make
from bench.groups.referee import fewest_moves, least_cross_rack, least_utilisation

SHAPES = [
    Shape(18, 4, 3, "lognormal", "random", "hash", racks=2, replicas=1),
    Shape(18, 3, 3, "zipf", "nested", "count", "join"),
    Shape(12, 5, 2, "uniform", "buckets", "hash", capacities=(1.0, 2.0)),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", SHAPES, ids=Shape.name)
def test_no_placement_is_below_the_bounds(shape: Shape, seed: int) -> None:
    """The referee's optima are never below the bounds on load, moves and load across racks."""
    problem = make(shape, seed)
    c = assign.solve(problem).certificate
    least = least_utilisation(problem, seconds=20)
    assert least is not None
    assert least.value >= c.lower_bound * (1 - 1e-6)
    level = max(c.max_utilisation, c.lower_bound * (1 + shape.imbalance))
    moves = fewest_moves(problem, level, seconds=20)
    assert moves is not None
    assert moves.value >= c.moves_lower_bound - 1e-6
    cross = least_cross_rack(problem, c.max_utilisation, seconds=20)
    assert cross is not None
    assert cross.value >= c.cross_rack_lower_bound * (1 - 1e-6) - 1e-9


def test_invalid_owners_are_our_fault() -> None:
    """A missing owner, a stranger, a non-subscriber and a moved pin are refused loudly."""
    problem = make(SHAPES[0], 0)
    owner = assign.solve(problem).owner
    nobody, stranger = owner.copy(), owner.copy()
    nobody[0], stranger[0] = -1, 99
    for wrong in (nobody, stranger):
        with pytest.raises(OurFault):
            certify(problem, wrong)
    narrow = make(replace(SHAPES[2], subscriptions="buckets"), 0)
    with pytest.raises(OurFault, match="subscribe"):
        certify(narrow, np.zeros(len(narrow.topic), dtype=np.int64))
    pinned = np.full(len(problem.topic), -1, dtype=np.int64)
    pinned[0] = owner[0]
    moved = np.full_like(owner, (owner[0] + 1) % 4)
    with pytest.raises(OurFault):
        certify(replace(problem, pinned=pinned), moved)
