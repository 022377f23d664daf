"""Bytes that cross racks, for a partition and the member that reads it. Pure; no I/O.

Follower fetching is assumed: a member whose rack holds any replica reads inside its rack (KIP-392,
brokers with `replica.selector.class`, consumers with `client.rack`). Where the member's rack or the
partition's racks are unknown nothing is said to cross.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def crossing_share(rack_sets: Sequence[Sequence[int]], racks: int) -> Floats:
    """Give, for each distinct set of replica racks, the share of load that crosses by reader rack.

    `rack_sets` [S] hold indexes below `racks`; an empty set is unknown. The answer [S, racks + 1]
    is 1 where a reader in that rack finds no replica, else 0; the last column is the reader whose
    rack is unknown.
    """
    share = np.zeros((len(rack_sets), racks + 1))
    for row, held in enumerate(rack_sets):
        if len(held):
            share[row, :racks] = 1.0
            share[row, list(held)] = 0.0
    return share


def crossing_load(load: Floats, rack_set: Ints, share: Floats, reader_rack: Ints) -> Floats:
    """Give the load [N] that crosses racks, in the unit of `load`.

    `load` [N], `rack_set` [N] row of `share`, `reader_rack` [N] its column; a negative rack is
    unknown and reads the last column.
    """
    return np.asarray(load * share[rack_set, reader_rack], dtype=np.float64)
