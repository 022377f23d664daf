"""Rows between the steps of the pipeline and in the lake, in Spark's own schema language.

The lake has three tables, each a folder of Parquet below `stream=ID/batch=N`:

samples     what brokers said: one row per record, topic and chunk
loads       what was estimated: one row per topic, chunk and tick; of rows with the same three the
            one of the highest batch is valid, the others were provisional
quarantine  records that were refused, with the place to find them
"""

from typing import Final

SAMPLE_COLUMNS: Final = (
    "topic string, chunk int, ms long, broker string, topic_id string, partition array<int>, "
    "leader_epoch array<int>, log_start_offset array<long>, end_offset array<long>, "
    "log_size_bytes array<long>"
)
LOAD_COLUMNS: Final = (
    "tick_ms long, window_s double, bytes_per_s array<double>, bytes_per_s_stderr array<double>, "
    "records_per_s array<double>, records_per_s_stderr array<double>, samples array<int>, "
    "samples_expected int, confidence array<string>, reason array<string>"
)
POISON_COLUMNS: Final = (
    "from_topic string, from_partition int, from_offset long, path string, message string, "
    "head binary"
)

DOOR: Final = f"bucket int, kind string, {SAMPLE_COLUMNS}, {POISON_COLUMNS}"
"""One sample of a chunk, or one refused record (kind `samples` or `quarantine`)."""

OUT: Final = (
    f"kind string, key string, value binary, {SAMPLE_COLUMNS}, {LOAD_COLUMNS}, {POISON_COLUMNS}"
)
"""A row for one of the tables (`kind`); loads that are news carry key and value for Kafka."""

STATE: Final = "topics string, rows binary"
"""A `History`: topic names, one a line, and its rows as bytes. Spark reads no arrays in states."""


def names(columns: str) -> list[str]:
    """Return the column names of a schema written as above."""
    return [column.strip().split(" ")[0] for column in columns.split(", ")]


SAMPLES: Final = names(SAMPLE_COLUMNS)
POISON: Final = names(POISON_COLUMNS)
LOADS: Final = [
    *("topic", "chunk", "tick_ms", "ms", "window_s", "partition"),
    *names(LOAD_COLUMNS)[2:],
]
TABLES: Final = {"samples": SAMPLES, "loads": LOADS, "quarantine": POISON}
