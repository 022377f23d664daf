"""The pipeline's door: bytes of `plimsoll.broker-metrics` to samples, or to quarantine.

One bad record costs itself, never the batch. The same validation as everywhere (`agent.wire`),
and two checks that need the Kafka record around the value: its key must be the broker that the
value speaks for, and its timestamp must be near the sample's time.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pandas as pd

from agent import limits, wire
from agent.errors import TheirFault
from cost.rates import digest
from pipeline import schemas
from pipeline.frames import frame as frame_of

HEAD_BYTES: Final = 200
"""Bytes of a refused record that are kept to recognise it by."""

_COLUMNS: Final = schemas.names(schemas.DOOR)


def unpack(frames: Iterator[pd.DataFrame], *, chunk: int, buckets: int) -> Iterator[pd.DataFrame]:
    """Turn Kafka rows (key, value, topic, partition, offset, timestamp in ms) into door rows."""
    for frame in frames:
        rows: list[dict[str, Any]] = []
        records: Iterable[Any] = frame.itertuples(index=False)
        for record in records:
            try:
                rows += samples_of(record.key, record.value, record.timestamp_ms, chunk, buckets)
            except TheirFault as fault:
                rows.append(_refused(record, fault))
        yield frame_of(rows, _COLUMNS)


def samples_of(
    key: bytes | None, value: bytes | None, timestamp_ms: int, chunk: int, buckets: int
) -> list[dict[str, Any]]:
    """Validate one record and cut it into rows of one topic and chunk. Raises TheirFault."""
    record = wire.decode(wire.BrokerMetrics, value)
    if key != record.broker.encode():
        raise TheirFault("broker", f"{record.broker!r} under the key {key!r}")
    if abs(record.ms - timestamp_ms) > limits.SAMPLE_CLOCK_MS_MAX:
        raise TheirFault("ms", f"{record.ms} in a record of {timestamp_ms}")
    rows = []
    for number, topic in enumerate(record.topics):
        _check_range(f"topics[{number}]", topic)
        columns = {
            "partition": _column(topic.partition, np.int32),
            "leader_epoch": _column(topic.leader_epoch, np.int32),
            "log_start_offset": _column(topic.log_start_offset, np.int64),
            "end_offset": _column(topic.end_offset, np.int64),
            "log_size_bytes": _column(topic.log_size_bytes, np.int64),
        }
        chunks = np.asarray(topic.partition, np.int64) // chunk
        for index in np.unique(chunks).tolist():
            part = {
                name: None if column is None else column[chunks == index]
                for name, column in columns.items()
            }
            rows.append(
                {
                    "bucket": digest(f"{topic.topic}#{index}") % buckets,
                    "kind": "samples",
                    "topic": topic.topic,
                    "chunk": index,
                    "ms": record.ms,
                    "broker": record.broker,
                    "topic_id": topic.topic_id or None,
                    **part,
                }
            )
    return rows


def _column(values: Any, kind: type) -> Any:
    return np.asarray(values, kind) if isinstance(values, list) else None


def _check_range(path: str, topic: wire.TopicSample) -> None:
    """Refuse numbers that Kafka cannot mean; JSON's integers have no bounds."""
    for name, limit in (
        ("partition", limits.JAVA_INT_MAX),
        ("leader_epoch", limits.JAVA_INT_MAX),
        ("log_start_offset", limits.JAVA_LONG_MAX),
        ("end_offset", limits.JAVA_LONG_MAX),
        ("log_size_bytes", limits.JAVA_LONG_MAX),
    ):
        column = getattr(topic, name)
        if isinstance(column, list) and column and max(column) > limit:
            raise TheirFault(f"{path}.{name}", f"{max(column)} is beyond {limit}")


def _refused(record: Any, fault: TheirFault) -> dict[str, Any]:
    return {
        "bucket": -1,
        "kind": "quarantine",
        "from_topic": record.topic,
        "from_partition": record.partition,
        "from_offset": record.offset,
        "path": fault.path,
        "message": fault.message,
        "head": (record.value or b"")[:HEAD_BYTES],
    }
