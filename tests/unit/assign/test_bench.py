"""The peers are what they claim, and Astraea's geometry is solved."""

import pytest

from agent import assign
from agent.assign.certificate import check_valid
from bench.groups.golden import compare
from bench.groups.instances import astraea
from bench.groups.peers import ARMS, astraea_shuffle


def test_peers_agree_with_kafka() -> None:
    """Range and round-robin match Kafka's owners; sticky its evenness and moves, nearly always."""
    found = compare()
    assert found["range"].compared == found["range"].agreed > 100
    assert found["roundrobin"].compared == found["roundrobin"].agreed > 100
    assert found["cooperative-sticky"].agreed >= 0.95 * found["cooperative-sticky"].compared


@pytest.mark.parametrize("tables", [1, 3])
@pytest.mark.parametrize("rule", ["astraea", "network-ingress"])
def test_astraea_geometry_has_no_conflicts(tables: int, rule: str) -> None:
    """Ten topics of sixteen on twelve members: no bad pair together, at most 5 % over the mean."""
    problem = astraea(5, tables, pairs=rule)
    c = assign.solve(problem).certificate
    assert c.conflicts == 0
    assert c.max_utilisation <= 1.05 * problem.load.sum() / problem.capacity.sum() * (1 + 1e-9)


def test_arms_are_valid() -> None:
    """Every arm gives a legal assignment."""
    problem = assign.with_incompatible(astraea(2, 3))
    for arm in ARMS.values():
        if arm is not astraea_shuffle:
            check_valid(problem, arm(problem))
    check_valid(problem, astraea_shuffle(problem, tries=5))
