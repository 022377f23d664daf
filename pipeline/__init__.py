"""PySpark wiring from plimsoll.broker-metrics to plimsoll.partition-load and the lake."""
