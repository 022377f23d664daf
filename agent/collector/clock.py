"""A wall clock that never jumps, and ticks on a steady grid.

Rates divide by differences of times: a clock that is set while a sample is taken would show as a
spike in every partition at once.
"""

import threading
import time
from collections.abc import Iterator
from typing import Final

SLEW: Final = 0.005
"""Share of the elapsed time by which the clock may be drawn to the wall clock: 0.5 %."""

STEP_S: Final = 60.0
"""A wall clock further away than this was wrong before and is believed at once."""


class SteadyClock:
    """Epoch milliseconds that advance with the monotonic clock and follow the wall clock slowly."""

    def __init__(self) -> None:
        self._read_at = time.monotonic()
        self._now_s = time.time()

    def now_ms(self) -> int:
        """Return the present time in epoch milliseconds."""
        read_at, wall_s = time.monotonic(), time.time()
        elapsed_s = read_at - self._read_at
        self._read_at = read_at
        self._now_s = follow(self._now_s, elapsed_s, wall_s)
        return round(self._now_s * 1000)


def follow(now_s: float, elapsed_s: float, wall_s: float) -> float:
    """Advance a clock by the elapsed time, drawn to the wall clock by at most `SLEW` of it."""
    expected_s = now_s + elapsed_s
    behind_s = wall_s - expected_s
    if abs(behind_s) > STEP_S:
        return wall_s
    limit_s = SLEW * elapsed_s
    return expected_s + max(-limit_s, min(limit_s, behind_s))


def ticks(interval_s: float, stop: threading.Event) -> Iterator[int]:
    """Yield the number of ticks missed before each tick, until `stop` is set.

    Ticks lie on a fixed grid: a slow sample delays none of the later ones; those that it overran
    are skipped and counted.
    """
    start = time.monotonic()
    tick = 0
    missed = 0
    while not stop.is_set():
        yield missed
        due = int((time.monotonic() - start) / interval_s) + 1
        missed = due - tick - 1
        tick = due
        stop.wait(max(0.0, start + tick * interval_s - time.monotonic()))
