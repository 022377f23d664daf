"""Every bound of Plimsoll, with its unit and its reason, in this one file (promise S12).

Functions of `cost/` take bounds as arguments; whoever calls them passes the constant from here.
"""

from typing import Final

RECORD_BYTES_MAX: Final = 900_000
"""Largest record we write, bytes: below Kafka's default message.max.bytes of 1 MiB with headers."""

BROKER_METRICS_PARTITIONS_MAX: Final = 2_000
"""Partitions in one `plimsoll.broker-metrics` record: 33k of them would be over 1 MB."""

PARTITION_LOAD_CHUNK: Final = 1_000
"""Partitions in one `plimsoll.partition-load` record (key `topic#chunk`)."""
