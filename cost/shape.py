"""The shape of a load over the day and the week: what is usual at this hour.

For forecasts and what-if questions; hours are UTC.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Period = Literal["day", "week"]

HOUR_MS: Final = 3_600_000
HOURS: Final[dict[Period, int]] = {"day": 24, "week": 168}
FIRST_MONDAY_MS: Final = 4 * 24 * HOUR_MS
"""1 January 1970 was a Thursday; hour 0 of the week is Monday's first."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Columns over the hours that have values.

    Means and the 95th percentile in the value's unit; `share` is the hour's mean over the mean of
    all hours seen.
    """

    hour: Ints
    mean: Floats
    p95: Floats
    share: Floats
    count: Ints


def shape(ms: Ints, value: Floats, period: Period) -> Shape:
    """Group values by the hour of their period. Every hour weighs the same in the overall mean."""
    hours = ((ms - FIRST_MONDAY_MS) // HOUR_MS) % HOURS[period]
    order = np.lexsort((value, hours))
    hours, value = hours[order], value[order]
    hour, begin, count = np.unique(hours, return_index=True, return_counts=True)
    if not len(hour):
        none = np.empty(0)
        return Shape(hour, none, none, none, count)
    mean = np.add.reduceat(value, begin) / count
    p95 = value[begin + np.ceil(0.95 * count).astype(np.int64) - 1]
    overall = float(mean.mean())
    share = mean / overall if overall > 0 else np.ones(len(hour))
    return Shape(hour, mean, p95, share, count)
