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

# Consumer-group assignor

GROUP_PARTITIONS_MAX: Final = 4_000_000
"""Partitions of one group: four times the largest size measured, about 6 GiB of working memory."""

GROUP_MEMBERS_MAX: Final = 100_000
"""Members of one group: ten times the largest group that a coordinator has been seen to hold."""

GROUP_LOAD_MAX: Final = 1e18
"""One load, its standard error or a capacity, any unit: an exabyte per second, sums stay finite."""

INCOMPATIBLE_PAIRS_MAX: Final = 5_000_000
"""Pairs of partitions to keep apart, given or computed: 80 MB of rows, and they square quickly."""

# Kafka Streams tasks (agent/streams)

JAVA_INT_MAX: Final = 2**31 - 1
"""Largest count that the Java side can hold."""

JAVA_LONG_MAX: Final = 2**63 - 1
"""Largest offset; as acceptable recovery lag it means that everything counts as caught up."""

STREAMS_COST_MAX: Final = 1_000_000
"""Largest traffic or non-overlap cost: keeps sums over all tasks far inside 64 bits."""

STREAMS_TASKS_MAX: Final = 50_000
"""Tasks of one application, five times the largest that we measure."""

STREAMS_CLIENTS_MAX: Final = 5_000
"""Clients of one application, five times the largest that we measure."""
