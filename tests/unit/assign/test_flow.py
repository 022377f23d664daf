"""The flow against its referees: networkx on the same network, HiGHS on the same question."""

from dataclasses import replace

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


def test_equal_loads_leave_a_start_that_is_nearly_the_optimum() -> None:
    """One partition in the wrong place is put right, however little of all that crosses it is."""
    problem = make(Shape(600, 6, 4, "equal", "all", "hash", racks=4, replicas=1), 1)
    best = assign.solve(problem)
    rack_of = problem.member_rack[best.owner]
    at_home = [rack_of[row] in problem.rack_sets[problem.rack_set[row]] for row in range(600)]
    row = at_home.index(True)
    other = next(i for i in range(600) if rack_of[i] != rack_of[row] and at_home[i])
    owner = best.owner.copy()
    owner[row], owner[other] = owner[other], owner[row]
    again = assign.solve(replace(problem, owner=owner)).certificate
    assert 0 < best.certificate.cross_rack_load == pytest.approx(again.cross_rack_load)


@pytest.mark.parametrize(
    ("shape", "most"),
    [
        (Shape(1000, 20, 10, "lognormal", "nested", "hash", "join", racks=4, replicas=1), 1.02),
        (Shape(1000, 20, 10, "uniform", "buckets", "count", "join", racks=3, replicas=1), 1.02),
        (Shape(1000, 20, 10, "zipf", "random", "level", "leave", racks=3, replicas=1), 1.02),
        # One partition fills a member; the bound would split it, whole units need 1.043.
        (Shape(400, 10, 8, "zipf", "random", "count", "join", racks=3, replicas=1), 1.045),
    ],
    ids=lambda value: value.name() if isinstance(value, Shape) else "",
)
def test_cross_rack_load_is_near_the_bound_where_units_are_unlike(
    shape: Shape, most: float
) -> None:
    """Single replicas, unequal subscriptions and loads: near the fractional least."""
    c = assign.solve(make(shape, 1)).certificate
    assert c.max_utilisation <= c.lower_bound * (1 + shape.imbalance) * (1 + 1e-9)
    assert c.cross_rack_load <= most * c.cross_rack_lower_bound


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
