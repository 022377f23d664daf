"""Estimates on the grid of time, however samples arrive; shapes of the day."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost.rates import EMPTY, Block, Memory, block
from cost.shape import HOUR_MS, shape
from cost.ticks import advance

MEMORY = Memory(window_ms=60_000, lateness_ms=30_000)
START_MS = 1_700_000_000_000
SLIDE_MS = 10_000


def sample(step: int, partition: int, end: int) -> Block:
    """Give one sample, every 5 s one step, partitions a second apart."""
    ms = START_MS + 5_000 * step + 300 * partition
    return block(
        "orders",
        ms=ms,
        broker="1",
        partition=[partition],
        end_offset=[end],
        log_size_bytes=[end * 100],
        log_start_offset=[0],
    )


def rows(portions: list[list[Block]]) -> dict[tuple[int, int], tuple[float, ...]]:
    """Advance portion by portion; give the last estimate of each tick and partition."""
    history = EMPTY
    found: dict[tuple[int, int], tuple[float, ...]] = {}
    for portion in portions:
        for tick in advance(history, portion, SLIDE_MS, MEMORY):
            history = tick.history
            rates = tick.rates
            for row, partition in enumerate(rates.partition.tolist()):
                found[tick.end_ms, partition] = (
                    rates.bytes_per_s[row],
                    rates.bytes_per_s_stderr[row],
                    rates.records_per_s[row],
                    float(rates.reason[row]),
                )
    return found


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90)), min_size=2, max_size=40),
    st.lists(st.integers(0, 5), min_size=80, max_size=80),
    st.integers(1, 7),
)
def test_any_division_ends_with_the_same_estimates(
    growth: list[tuple[int, int]], delays: list[int], portion: int
) -> None:
    """Late (within the bound), doubled and batched samples end as those of one orderly pass."""
    ends = np.cumsum(np.array(growth), axis=0)
    samples = [sample(n, p, int(ends[n, p])) for n in range(len(growth)) for p in (0, 1)]
    order = sorted(range(len(samples)), key=lambda i: i // 2 + delays[i])
    late = [samples[i] for i in order]
    late += late[-3:]
    divided = [late[i : i + portion] for i in range(0, len(late), portion)]
    assert rows(divided) == rows([samples])


def test_a_catch_up_leaves_no_tick_out() -> None:
    """Ten minutes in one portion give every tick, as they would have one by one."""
    samples = [sample(n, 0, 50 * n) for n in range(120)]
    at_once = rows([samples])
    assert at_once == rows([[one] for one in samples])
    assert len(at_once) >= 59


def test_the_shape_of_a_day() -> None:
    """Hours keep their mean; shares average to one; missing hours are left out."""
    hours = np.arange(48)
    ms = START_MS // HOUR_MS * HOUR_MS + hours * HOUR_MS
    value = (100 + 50 * (hours % 24)).astype(np.float64)
    kept = hours % 24 != 5
    found = shape(ms[kept], value[kept], "day")
    assert len(found.hour) == 23
    assert found.share.mean() == pytest.approx(1)
    assert (found.count == 2).all()
    assert set(found.mean.tolist()) == set(value[kept].tolist())
    assert (shape(ms, value, "week").count == 1).all()
    assert shape(ms[:0], value[:0], "day").hour.size == 0


def test_monday_is_the_first_day() -> None:
    """Hour 0 of the week is midnight of a Monday, UTC."""
    monday_ms = 1_704_067_200_000  # 2024-01-01, a Monday
    assert shape(np.array([monday_ms]), np.array([1.0]), "week").hour[0] == 0
