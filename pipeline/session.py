"""A Spark session for this job: the same code on local cores, a cluster or Spark Connect."""

import os
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # One bucket's rows must reach Python in one portion with its state.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.streaming.metricsEnabled": "false",
}
"""Needed wherever the job runs; a Connect server must be started with them."""

DRIVER: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.log.level": "WARN",
}
LOCAL: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def session(master: str, jars: Path | None, shuffle_partitions: int) -> SparkSession:
    """Return a session on `master`: local[N], spark://host:port, or sc://host:port (Connect).

    `jars` holds Spark's Kafka connector; a Connect server brings its own.
    """
    # Workers otherwise take whatever `python3` is, which may lack pyarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    partitions = {"spark.sql.shuffle.partitions": str(shuffle_partitions)}
    builder = SparkSession.builder.appName("plimsoll-pipeline")
    if master.startswith("sc://"):
        remote = builder.remote(master).getOrCreate()
        for name, value in partitions.items():
            remote.conf.set(name, value)
        return remote
    settings = {**SETTINGS, **DRIVER, **partitions}
    if master.startswith("local"):
        settings |= LOCAL
    if jars is not None:
        settings["spark.jars"] = ",".join(sorted(str(jar) for jar in jars.glob("*.jar")))
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.master(master).getOrCreate()
