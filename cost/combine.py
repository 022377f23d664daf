"""Several costs of a partition as one, with weights of the group's own. Pure; no I/O."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def combine(
    columns: Mapping[str, tuple[Floats, Floats]], weights: Mapping[str, float]
) -> tuple[Floats, Floats]:
    """Give the weighted mean cost of each partition and its standard error, both [N].

    `columns` names costs as (value [N] >= 0, standard error [N]) in units of their own: bytes/s,
    records/s. `weights` are shares >= 0 by the same names; a name without a column or without
    weight does not count. A single weighted column is returned as it is, in its own unit. Several
    are divided by their own means first, so that bytes do not drown records: the answer's unit is
    then the mean partition. A column that is zero everywhere adds nothing. Errors add as if
    independent.

    Raises ValueError where no column has weight, or a weight is negative or not finite.
    """
    if any(not 0 <= w < np.inf for w in weights.values()):
        raise ValueError("weights must be finite numbers of 0 or more")
    counted = [name for name in sorted(columns) if weights.get(name, 0.0) > 0]
    if not counted:
        raise ValueError("no cost has weight")
    if len(counted) == 1:
        return columns[counted[0]]
    total = sum(weights[name] for name in counted)
    value = np.zeros_like(columns[counted[0]][0])
    variance = np.zeros_like(value)
    for name in counted:
        amount, stderr = columns[name]
        mean = float(amount.mean()) if len(amount) else 0.0
        if mean > 0:
            part = weights[name] / total / mean
            value += part * amount
            variance += (part * stderr) ** 2
    return value, np.sqrt(variance)
