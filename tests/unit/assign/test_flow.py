"""The flow against its referees: networkx on the same network, HiGHS on the same question."""

import numpy as np
import pytest

from agent import assign
from agent.assign.flow import build_network, solve_network
from agent.assign.graph import least_cost
from agent.assign.instance import build_instance
from agent.assign.plan import band
from agent.assign.racks import alike
from bench.groups.instances import Shape, make
from bench.groups.referee import fewest_moves, least_cross_rack

SHAPES = [
    Shape(24, 4, 3, "equal", "all", "count", "join", racks=2, replicas=1),
    Shape(24, 5, 3, "equal", "random", "hash", "leave", racks=3, replicas=1),
    Shape(30, 5, 3, "uniform", "random", "hash", "none", racks=2, replicas=1),
    Shape(30, 5, 3, "lognormal", "nested", "count", "join"),
]


@pytest.mark.parametrize("shape", SHAPES, ids=Shape.name)
@pytest.mark.parametrize("pooled", [False, True])
def test_networkx_finds_the_same_cost(shape: Shape, pooled: bool) -> None:
    """OR-tools and networkx agree on the optimal cost of one network."""
    instance = build_instance(make(shape, 1))
    bound, cap = band(instance, 0.1)
    pool_of = alike(instance) if pooled else np.arange(instance.members)
    share = np.floor(instance.capacity * bound).astype(np.int64)
    network = build_network(instance, cap, share, pool_of)
    routes = solve_network(network)
    assert routes is not None
    assert routes.cost == least_cost(network)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", SHAPES[:2], ids=Shape.name)
def test_equal_loads_reach_the_cross_rack_optimum(shape: Shape, seed: int) -> None:
    """With equal loads no placement at the same balance crosses racks less."""
    problem = make(shape, seed)
    c = assign.solve(problem).certificate
    level = max(c.max_utilisation, c.lower_bound * 1.05)
    verdict = least_cross_rack(problem, level, seconds=20)
    assert verdict is not None
    assert verdict.proven
    assert c.cross_rack_load == pytest.approx(verdict.value)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("law", ["equal", "uniform", "lognormal"])
@pytest.mark.parametrize("subscriptions", ["all", "random"])
def test_moves_are_near_the_fewest(law: str, subscriptions: str, seed: int) -> None:
    """On small groups the plan is in its band and moves at most a quarter more than the fewest."""
    shape = Shape(40, 5, 4, law, subscriptions, "hash")
    problem = make(shape, seed)
    c = assign.solve(problem).certificate
    level = c.lower_bound * 1.05
    verdict = fewest_moves(problem, max(level, c.max_utilisation), seconds=20)
    assert verdict is not None
    assert c.moves <= max(verdict.value * 1.25, verdict.value + 1) + 1e-6
    if fewest_moves(problem, level, seconds=20) is not None:
        assert c.max_utilisation <= level * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(1, 7))
@pytest.mark.parametrize(
    "shape",
    [
        Shape(60, 6, 6, "lognormal", "all", "count", "join"),
        Shape(60, 6, 6, "uniform", "random", "level", "leave"),
        Shape(60, 6, 6, "zipf", "random", "level", "leave"),
    ],
    ids=Shape.name,
)
def test_small_groups_move_as_little_as_possible(shape: Shape, seed: int) -> None:
    """With few heavy partitions the band is met with the referee's fewest moves."""
    problem = make(shape, seed)
    c = assign.solve(problem).certificate
    verdict = fewest_moves(problem, c.lower_bound * (1 + shape.imbalance), seconds=20)
    if verdict is not None:
        assert c.moves == round(verdict.value)
        assert c.ratio <= (1 + shape.imbalance) * (1 + 1e-6)
