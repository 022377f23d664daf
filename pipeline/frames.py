"""Rows as dictionaries to pandas frames that Arrow takes as they are."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd


def frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """Give rows as a frame of Python objects; what a row lacks is None.

    Without this pandas makes a column without values one of floats, which Arrow refuses to see as
    text.
    """
    return pd.DataFrame(
        {name: pd.Series([row.get(name) for row in rows], dtype=object) for name in columns}
    )


def rows_of(frames: Iterable[pd.DataFrame]) -> Iterator[dict[str, Any]]:
    """Give the rows of frames that Arrow made; a missing value is None, whatever its type."""
    for part in frames:
        columns = {name: part[name].tolist() for name in part.columns}
        for values in zip(*columns.values(), strict=True):
            yield {
                name: None if isinstance(value, float) and value != value else value  # noqa: PLR0124 -- NaN
                for name, value in zip(columns, values, strict=True)
            }
