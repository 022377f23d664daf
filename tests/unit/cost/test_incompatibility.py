"""Incompatible pairs: ours survives what breaks Astraea's rule."""

import numpy as np
import pytest

from cost.incompatibility import TooManyPairsError, astraea, network_ingress

MB = 1e6
MOTIVATING = np.array([50.0, 30.0, 10.0] * 3)
BROKER = np.repeat(np.arange(3), 3)
NONE = np.zeros(9)


def _ours(load: np.ndarray, broker: np.ndarray = BROKER) -> set[tuple[int, int]]:
    pairs = network_ingress(load, np.zeros(len(load)), broker, pairs_max=100)
    return {(int(a), int(b)) for a, b in pairs}


def test_motivating_case_has_its_pairs_without_noise() -> None:
    """50/30/10 on each broker: the slow one is bad beside both others, there only."""
    expected = {(b + i, b + 2) for b in (0, 3, 6) for i in (0, 1)}
    assert _ours(MOTIVATING * MB) == expected


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3, 1e9])
def test_only_ratios_count(scale: float) -> None:
    """Kilobytes and gigabytes have the same pairs."""
    assert _ours(MOTIVATING * scale) == _ours(MOTIVATING)


def test_noise_does_not_change_the_motivating_case() -> None:
    """Ten per cent of noise leaves the pairs as they are."""
    rng = np.random.default_rng(7)
    for _ in range(20):
        assert _ours(MOTIVATING * rng.uniform(0.9, 1.1, 9)) == _ours(MOTIVATING)


def test_idle_and_unknown_brokers_have_no_pairs() -> None:
    """An idle broker yields no pair (and no NaN); an unknown leader is in none."""
    assert _ours(NONE) == set()
    assert _ours(MOTIVATING, np.full(9, -1)) == set()
    assert _ours(np.zeros(0), np.zeros(0, dtype=np.int64)) == set()


def test_differences_within_the_error_do_not_count() -> None:
    """A slow partition whose rate is hardly known is not called slow beside a fast one."""
    stderr = np.where(MOTIVATING == 10.0, 30.0, 1.0)
    assert not len(network_ingress(MOTIVATING, stderr, BROKER, pairs_max=100))


def test_astraeas_rule_misses_the_motivating_case() -> None:
    """Their boundary case is kept: no pair without noise, some once noise separates equals."""
    assert not len(astraea(MOTIVATING * MB, BROKER, pairs_max=100))
    noisy = MOTIVATING * MB + np.arange(9)
    assert len(astraea(noisy, BROKER, pairs_max=100)) > 0


def test_too_many_pairs_are_refused() -> None:
    """More pairs than the caller allows raise, before they fill memory."""
    with pytest.raises(TooManyPairsError):
        network_ingress(MOTIVATING, NONE, np.zeros(9, dtype=np.int64), pairs_max=2)
