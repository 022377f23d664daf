"""One bucket of partitions: its samples so far as Spark state, its loads as output.

A bucket holds whole chunks, so that each load record is made in one place. All arithmetic is
`cost`'s; here rows of Spark become samples and estimates become rows.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from agent import loads, wire
from cost.rates import EMPTY, SAMPLE, Block, History, block
from cost.ticks import Tick, advance
from pipeline import schemas
from pipeline.frames import frame, rows_of
from pipeline.settings import Settings

_COLUMNS: Final = schemas.names(schemas.OUT)


def fold_bucket(
    key: tuple[int], frames: Iterable[pd.DataFrame], state: Any, settings: Settings
) -> Iterator[pd.DataFrame]:
    """Fold a micro-batch into one bucket; what was refused at the door passes through."""
    found = list(rows_of(frames))
    if key[0] < 0:
        yield frame(found, _COLUMNS)
        return
    history = load(state.get) if state.exists else EMPTY
    estimated: list[dict[str, Any]] = []
    for tick in advance(history, map(block_of, found), settings.slide_ms, settings.memory):
        history = tick.history
        estimated += load_rows(tick, settings)
    state.update(save(history))
    yield frame([*found, *estimated], _COLUMNS)


def block_of(row: Mapping[str, Any]) -> Block:
    """Give the samples of a door row, or of a row of the lake's table `samples`."""
    return block(
        row["topic"],
        ms=row["ms"],
        broker=row["broker"],
        partition=row["partition"],
        end_offset=row["end_offset"],
        log_size_bytes=row["log_size_bytes"],
        topic_id=row["topic_id"],
        leader_epoch=row["leader_epoch"],
        log_start_offset=row["log_start_offset"],
    )


def load_rows(tick: Tick, settings: Settings) -> Iterator[dict[str, Any]]:
    """Give one tick's rows of the table `loads`; the newest also as a record for Kafka."""
    for key, record in loads.records_of(tick.rates, settings.memory):
        yield {
            "kind": "loads",
            "key": key if tick.newest else None,
            "value": wire.encode(record) if tick.newest else None,
            "chunk": record.partition[0] // settings.memory.chunk,
            "tick_ms": tick.end_ms,
            **{name: getattr(record, name) for name in record.__struct_fields__ if name != "v"},
        }


def save(history: History) -> tuple[str, bytes]:
    """Give a history as Spark state; a topic's name holds no line break."""
    return "\n".join(history.topics), history.rows.tobytes()


def load(state: tuple[str, bytes]) -> History:
    """Read a history from Spark state."""
    topics, rows = state
    return History(tuple(topics.split("\n")) if topics else (), np.frombuffer(bytes(rows), SAMPLE))
