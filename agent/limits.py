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

STREAMS_LOAD_MAX: Final = 1e18
"""Load of one task, any unit: sums over all tasks stay finite."""

STREAMS_TASKS_MAX: Final = 50_000
"""Tasks of one application, five times the largest that we measure."""

STREAMS_CLIENTS_MAX: Final = 5_000
"""Clients of one application, five times the largest that we measure."""

STREAMS_REPLICA_CELLS_MAX: Final = 60_000
"""Tasks x clients up to which `high-availability` finds Kafka's own choice among equal optima:
the largest size that Kafka itself solves (1000 x 50 takes it five minutes)."""

STREAMS_REPLICA_BALANCED_CELLS_MAX: Final = 12_000
"""The same under `balance_subtopology`, where Kafka needs 19 s for 500 x 20 and never ends at
1000 x 50."""

# Decision core

GROUPS_MAX: Final = 10_000
"""Groups whose state is held; the membership record of a further one is quarantined."""

LOAD_STALE_MS_MAX: Final = 120_000
"""Loads older than this do not decide anything: two windows of the pipeline's default 60 s."""

MEMBERSHIP_STALE_MS_MAX: Final = 60_000
"""A snapshot older than this is not the group any more: the collector repeats it twice as often."""

COMPLETENESS_MIN: Final = 0.95
"""Least share of a group's partitions with a fresh measured load (Cruise Control asks for 0.995
of a cluster; a group is smaller and one new topic must not blind it)."""

NUDGE_ATTEMPTS_MAX: Final = 3
"""Nudges for one target before the alarm `not-followed`."""

NUDGE_WAIT_MS: Final = 10_000
"""Between two nudges: three default heartbeat intervals of the members, and the snapshot's age."""

PAUSE_S_EXPECTED: Final = 3.5
"""Pause of a moved partition, s: Kafka's default heartbeat interval plus the two rounds."""

DECISION_REPEAT_MS: Final = 60_000
"""An unchanged verdict is written again after this, so that the newest is never older."""

BUDGET_WINDOW_MS: Final = 3_600_000
"""Window of `moves_per_hour_max` and `moved_load_share_per_hour_max`."""

WEIGHT_UNITS_MAX: Final = 10_000
"""Weight of a group's heaviest partition in a target: four digits keep 10,000 partitions small."""

# Measurements (agent/collector, pipeline)

SAMPLE_LATENESS_MS_MAX: Final = 30_000
"""A sample this much later than newer ones still corrects what was said; three usual intervals."""

PARTITION_UNSEEN_MS_MAX: Final = 900_000
"""A partition not sampled for this long is forgotten: longer than a broker's restart."""

SAMPLE_CLOCK_MS_MAX: Final = 600_000
"""A sample's time may differ from its Kafka record's by this: more is a wrong unit or clock."""

OUTCOME_AFTER_MS: Final = 90_000
"""A plan's outcome is measured this long after it was published: one window of loads and the
time members take to follow."""

DECISION_MOVES_MAX: Final = 2_000
"""Moves listed in one decision record, about 200 bytes each; the certificate counts them all."""

INGEST_QUEUE_MAX: Final = 10_000
"""Events waiting for the core; beyond it Faust's agents wait, and so the brokers keep them."""

STREAMS_YARDSTICK_CELLS_MAX: Final = 4_000
"""Tasks x clients up to which `plimsoll` measures itself against Kafka's placement: at 120 x 30
the yardstick takes some 0.15 s, thirty times the plan itself."""

STREAMS_EXCHANGES_MAX: Final = 2_000
"""Exchanges of copies that even out unequal loads: several for each client that we measure."""

STREAMS_LEVEL_SLACK: Final = 0.05
"""Share above the least highest load per thread that a plan may have, if it disturbs less."""

STREAMS_PARTNERS_MAX: Final = 16
"""Least loaded clients that an exchange is tried with, before loads count as even."""

STREAMS_GAIN_MIN: Final = 1e-3
"""Share of the highest load per thread that one exchange must save to be worth making."""

STREAMS_DRAWN_CELLS_MAX: Final = 1_000
"""Tasks x clients of a Streams problem that is drawn: more cannot be read."""

STREAMS_DRAWN_NAMES_MAX: Final = 4
"""Tasks of one class that are named in a picture."""

# --- agent/core: Streams applications -------------------------------------------------------------

STREAMS_FOLLOW_MS_MAX: Final = 1_200_000
"""How long an application may be on its way to a target before it is planned anew, milliseconds:
two of Streams' default intervals between probing rebalances."""
