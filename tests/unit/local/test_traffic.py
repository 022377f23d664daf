"""The traffic model: what is offered is what the formulas say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.local.traffic import Draw, Traffic, key_table, later_share, murmur2, value_sizes


@pytest.mark.parametrize(
    ("key", "java_hash"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(key: bytes, java_hash: int) -> None:
    """Keys hash as in the test vectors of Kafka's own partitioner, sign bit cleared."""
    assert murmur2(key) == java_hash & 0x7FFFFFFF


def test_the_same_seed_draws_the_same_records() -> None:
    """Two draws of one seed are equal, those of another seed differ."""
    first, again, other = (Draw(Traffic(seed=seed)).records(500, 0.0) for seed in (1, 1, 2))
    assert first == again != other


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    tables=st.integers(1, 3),
    spread=st.sampled_from([1.0, 3.0, 9.0]),
    partitions=st.integers(1, 32),
)
def test_expected_rates_add_up_to_the_offered_rate(
    seed: int, tables: int, spread: float, partitions: int
) -> None:
    """Whatever the skew of keys and sizes, expected bytes per second sum to the asked rate."""
    traffic = Traffic(
        seed=seed,
        topics=3,
        partitions=partitions,
        rate_mb_s=2.0,
        keys=50,
        key_tables=tables,
        size_spread=spread,
    )
    expected = Draw(traffic).expected_bytes_per_s(0.0)
    assert expected.shape == (3, partitions)
    assert expected.sum() == pytest.approx(2e6)


def test_drawn_records_follow_the_expected_shares() -> None:
    """Over many draws each partition's bytes come within four standard errors of its share."""
    draw = Draw(Traffic(seed=3, topics=2, partitions=8, keys=100, size_spread=9.0))
    count = 40_000
    records = np.zeros((2, 8))
    for topic, key, partition in draw.records(count, 0.0):
        assert murmur2(key) % 8 == partition
        records[topic, partition] += 1
    share = np.tile(draw.tables[0][0].shares(8) / 2, (2, 1))
    error = np.sqrt(share * (1 - share) / count)
    assert np.all(np.abs(records / count - share) <= 4 * error)


def test_size_spread_is_the_ratio_of_sizes() -> None:
    """The largest value size over partitions is `size_spread` times the smallest."""
    sizes = value_sizes(Traffic(seed=5, size_spread=9.0))
    assert sizes.max() / sizes.min() == pytest.approx(9.0, rel=0.01)


def test_drift_ends_on_another_key_table() -> None:
    """Drift takes the share of the later table from 0 to 1; its hot partitions are others."""
    traffic = Traffic(seed=1, shape="drift", shape_s=100.0)
    assert [later_share(traffic, s) for s in (0.0, 50.0, 100.0, 500.0)] == [0.0, 0.5, 1.0, 1.0]
    draw = Draw(traffic)
    before, after = draw.expected_bytes_per_s(0.0), draw.expected_bytes_per_s(100.0)
    assert before.sum() == pytest.approx(after.sum(), rel=0.01)
    assert np.abs(before - after).max() > 0.1 * before.max()


def test_step_multiplies_the_rate() -> None:
    """After the step the expected rate is `step_factor` times what it was."""
    draw = Draw(Traffic(seed=1, shape="step", shape_s=10.0, step_factor=2.0))
    before, after = (draw.expected_bytes_per_s(s).sum() for s in (9.0, 10.0))
    assert after == pytest.approx(2 * before, rel=0.01)


def test_diurnal_returns_to_its_mean() -> None:
    """The daily sine has its peak at a quarter and its trough at three quarters of the period."""
    draw = Draw(Traffic(seed=1, shape="diurnal", shape_s=40.0, diurnal_amplitude=0.5))
    rates = [draw.expected_bytes_per_s(s).sum() / 3e6 for s in (0.0, 10.0, 20.0, 30.0)]
    assert rates == pytest.approx([1.0, 1.5, 1.0, 0.5])


def test_key_tables_differ() -> None:
    """With several tables the hot keys of different topics are different ones."""
    traffic = Traffic(seed=1, key_tables=2)
    first, second = (key_table(traffic, table, later=False) for table in (0, 1))
    assert first.names[0] != second.names[0]
    assert first.shares(16).sum() == pytest.approx(1.0)
