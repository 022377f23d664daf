"""Load across racks, and several costs as one."""

import numpy as np
import pytest

from cost.combine import combine
from cost.racks import crossing_load, crossing_share


def test_a_replica_in_the_rack_is_read_there() -> None:
    """Only a reader whose known rack holds no known replica crosses."""
    share = crossing_share([(), (0,), (0, 1)], racks=2)
    load = np.array([1.0, 2.0, 4.0])
    sets = np.array([0, 1, 2])
    for reader, expected in ((0, [0, 0, 0]), (1, [0, 2, 0]), (-1, [0, 0, 0])):
        found = crossing_load(load, sets, share, np.full(3, reader))
        assert found.tolist() == expected


def test_one_weighted_cost_keeps_its_unit() -> None:
    """A single cost with weight is handed back as it is."""
    value, stderr = np.array([5.0, 10.0]), np.array([1.0, 2.0])
    columns = {"network_ingress": (value, stderr), "records": (value * 9, stderr)}
    found = combine(columns, {"network_ingress": 1.0, "records": 0.0})
    assert found[0].tolist() == value.tolist()
    assert found[1].tolist() == stderr.tolist()


def test_units_do_not_matter_in_a_mix() -> None:
    """Bytes in another unit give the same mix; weights are shares."""
    a, b, e = np.array([1.0, 3.0]), np.array([4.0, 4.0]), np.array([0.1, 0.1])
    weights = {"a": 1.0, "b": 3.0}
    first, first_error = combine({"a": (a, e), "b": (b, e)}, weights)
    second, _ = combine({"a": (a * 1e6, e * 1e6), "b": (b, e)}, weights)
    assert np.allclose(first, second)
    assert np.allclose(first, [0.25 * 0.5 + 0.75, 0.25 * 1.5 + 0.75])
    assert (first_error > 0).all()


@pytest.mark.parametrize("weights", [{}, {"a": 0.0}, {"a": -1.0}, {"a": float("nan")}])
def test_weights_must_make_sense(weights: dict[str, float]) -> None:
    """No weight at all, or one that is no share, is refused."""
    with pytest.raises(ValueError, match="weight"):
        combine({"a": (np.ones(1), np.ones(1))}, weights)
