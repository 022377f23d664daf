"""How far a mean over a window may lie from the true rate.

The spread of the increments between samples says how noisy the traffic is; what one increment
says about the next says how much of that noise averages out. Everything per partition and
vectorised: rows are increments, `group` numbers their partition.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_T_QUANTILES: Final = np.concatenate(
    (
        [6.984, 2.263, 1.653, 1.435, 1.324, 1.258, 1.214, 1.183, 1.160, 1.142, 1.127, 1.116, 1.106],
        [1.098, 1.091, 1.084, 1.079, 1.074, 1.070, 1.067, 1.063, 1.060, 1.057, 1.055, 1.053, 1.050],
    )
)
"""Student's t at 97.725 %, divided by 2, for 1, 2, … degrees of freedom."""

CORRELATION_MIN: Final = -0.5
"""Least lag-1 correlation: what pure jitter of the sampling times gives."""

CORRELATION_MAX: Final = 0.8
"""Largest lag-1 correlation that so few increments can support; beyond it, look longer."""


def small_sample(count: NDArray[np.integer[Any]]) -> Floats:
    """Widen a standard error so that ±2 of it hold 95.45 % when `count` values gave the spread.

    1 from about 27 values on; infinite below two.
    """
    index = np.clip(count - 2, 0, len(_T_QUANTILES) - 1)
    factor = np.where(count - 2 >= len(_T_QUANTILES), 1.05, _T_QUANTILES[index])
    return np.where(count < 2, np.inf, factor)


def correlation(residual: Floats, group: Ints, groups: int) -> Floats:
    """Return each group's lag-1 autocorrelation, corrected for the bias of short series.

    Residuals are in the order of time. The bias is Kendall's (1954): about -(1 + 3 rho) / n.
    """
    count = np.bincount(group, minlength=groups)
    power = np.bincount(group, residual * residual, groups)
    follows = group[1:] == group[:-1]
    product = np.bincount(group[1:][follows], (residual[1:] * residual[:-1])[follows], groups)
    rho = np.divide(product, power, out=np.zeros(groups), where=power > 0)
    rho += np.divide(1 + 3 * rho, count, out=np.zeros(groups), where=count > 2)
    return np.clip(rho, CORRELATION_MIN, CORRELATION_MAX)


def variance_inflation(rho: Floats, count: Floats) -> Floats:
    """Return variance of a sum of `count` AR(1) values over that of independent ones."""
    n = np.maximum(count, 1)
    tail = rho * (1 - rho**n) / (n * (1 - rho) ** 2)
    return np.maximum(1 + 2 * (rho / (1 - rho) - tail), 1 / n)


def stderr_of_sum(residual: Floats, group: Ints, groups: int, terms: Floats) -> Floats:
    """Return the standard error of a sum of `terms` increments of each group.

    `residual`: increments minus what the mean rate explains, over the whole learning span. Groups
    with fewer than two give infinity: their spread is not known.
    """
    count = np.bincount(group, minlength=groups)
    power = np.bincount(group, residual * residual, groups)
    variance = np.divide(power, count - 1, out=np.zeros(groups), where=count > 1)
    rho = correlation(residual, group, groups)
    error = np.sqrt(variance * terms * variance_inflation(rho, terms))
    with np.errstate(invalid="ignore"):
        widened = error * small_sample(count)
    return np.where(count < 2, np.inf, widened)
