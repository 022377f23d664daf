"""Which partitions should not share a consumer: pairs from loads and leaders.

Why pairs exist: a consumer keeps one outstanding fetch per broker. If what it still asks that
broker for has no data, the broker parks the request (up to `fetch.max.wait.ms`), and meanwhile the
fast partitions of that broker wait. So a slow partition beside a fast one, on the same broker and
the same consumer, is a bad pair; across brokers nothing is.

Promises: pairs are rows `(i, j)` with i < j, sorted, each once. No I/O.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

ASTRAEA_INTERVAL_BYTES_PER_S = 10_000_000.0
"""`traffic.interval` of Astraea's NetworkIngressCost: 10 MB, compared with a rate."""

SLOW_SHARE = 0.5
"""A partition is slow below this share of the mean load of its broker's partitions."""

FAST_RATIO = 2.0
"""A fast partition carries at least this many times the load of the slow one beside it."""

NOISE_STDERRS = 2.0
"""A difference within this many standard errors of itself is no difference."""


class TooManyPairsError(ValueError):
    """There are more pairs than the caller allows."""


def network_ingress(load: Floats, load_stderr: Floats, broker: Ints, *, pairs_max: int) -> Ints:
    """Give pairs of a slow and a fast partition of one broker: our rule.

    `load` [N] >= 0 in any one unit, `load_stderr` [N] in the same (0 where unknown), `broker` [N]
    (negative where unknown: such a partition is in no pair). A partition is slow below half its
    broker's mean; it is bad beside one that is not slow, carries at least twice its load, and
    differs by more than two standard errors of the difference. Only ratios count, so kilobytes and
    gigabytes behave alike; an idle broker has no fast partition, hence no pair.
    """
    found: list[Ints] = []
    count = 0
    for rows in _by_broker(broker):
        here = load[rows]
        slow = here < SLOW_SHARE * here.mean()
        slow_rows, fast_rows = rows[slow], rows[~slow]
        for part in _slices(slow_rows, len(fast_rows)):
            apart = load[fast_rows][None, :] - load[part][:, None]
            noise = np.hypot(load_stderr[fast_rows][None, :], load_stderr[part][:, None])
            bad = (load[fast_rows][None, :] >= FAST_RATIO * load[part][:, None]) & (
                apart > NOISE_STDERRS * noise
            )
            count += int(bad.sum())
            _check(count, pairs_max)
            a, b = np.nonzero(bad)
            found.append(np.stack([part[a], fast_rows[b]], axis=1))
    return _unordered(found)


def astraea(
    load_bytes_per_s: Floats,
    broker: Ints,
    *,
    pairs_max: int,
    interval_bytes_per_s: float = ASTRAEA_INTERVAL_BYTES_PER_S,
) -> Ints:
    """Give pairs by the rule of Astraea's NetworkIngressCost, as it is, for comparison.

    The rule is one-sided (see `astraea_lists`); the union of both directions is returned.
    """
    lists = astraea_lists(
        load_bytes_per_s,
        broker,
        pairs_max=2 * pairs_max,
        interval_bytes_per_s=interval_bytes_per_s,
    )
    pairs = _unordered([lists])
    _check(len(pairs), pairs_max)
    return pairs


def astraea_lists(
    load_bytes_per_s: Floats,
    broker: Ints,
    *,
    pairs_max: int,
    interval_bytes_per_s: float = ASTRAEA_INTERVAL_BYTES_PER_S,
) -> Ints:
    """Give rows (p, q): partition p lists q as bad, by Astraea's NetworkIngressCost.

    sigma is the population standard deviation of all rates; U the largest rate strictly below it
    (the mean if there is none). On each broker, a partition slower than U lists every other one
    that differs by more than the interval; any other partition lists every one slower than U.

    Its boundary cases are kept: 50/30/10 MB/s on each broker without noise has sigma 16.3, hence
    U = 10 and, as nothing is *strictly* slower, no pair at all; a whole cluster slower than the
    interval has pairs only around U; the interval is bytes per second, so another unit of load
    changes the answer.
    """
    if not len(load_bytes_per_s):
        return np.zeros((0, 2), dtype=np.int64)
    below = load_bytes_per_s[load_bytes_per_s < load_bytes_per_s.std()]
    upper = float(below.max()) if len(below) else float(load_bytes_per_s.mean())
    found: list[Ints] = [np.zeros((0, 2), dtype=np.int64)]
    count = 0
    for rows in _by_broker(broker):
        for part in _slices(rows, len(rows)):
            mine, other = load_bytes_per_s[part][:, None], load_bytes_per_s[rows][None, :]
            bad = np.where(mine < upper, np.abs(mine - other) > interval_bytes_per_s, other < upper)
            bad &= part[:, None] != rows[None, :]
            count += int(bad.sum())
            _check(count, pairs_max)
            a, b = np.nonzero(bad)
            found.append(np.stack([part[a], rows[b]], axis=1))
    return np.concatenate(found)


def _by_broker(broker: Ints) -> list[Ints]:
    """Give the rows of each known broker."""
    order = np.argsort(broker, kind="stable")
    order = order[broker[order] >= 0]
    cuts = np.flatnonzero(np.diff(broker[order])) + 1
    return [rows for rows in np.split(order, cuts) if len(rows)]


def _slices(rows: Ints, width: int) -> list[Ints]:
    """Cut rows so that rows x width stays near four million cells."""
    step = max(1, 4_000_000 // max(width, 1))
    return [rows[i : i + step] for i in range(0, len(rows), step)]


def _check(count: int, pairs_max: int) -> None:
    if count > pairs_max:
        raise TooManyPairsError(f"more than {pairs_max} incompatible pairs")


def _unordered(found: list[Ints]) -> Ints:
    if not found:
        return np.zeros((0, 2), dtype=np.int64)
    return np.unique(np.sort(np.concatenate(found), axis=1), axis=0)
