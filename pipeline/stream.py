"""The streaming job: `plimsoll.broker-metrics` to `plimsoll.partition-load` and the lake."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import pandas as pd
import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- the name that every Spark program uses
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupStateTimeout

from agent import wire
from pipeline import door, schemas, state
from pipeline.settings import RECORDS_PER_BATCH_MAX, Settings

QUERY: Final = "plimsoll-partition-load"


def source(
    spark: SparkSession, settings: Settings, since_ms: int, options: dict[str, str]
) -> DataFrame:
    """Read metrics records; a new stream begins with those written at `since_ms` or later.

    Records that retention took before they were read are a gap in the samples, which estimates
    show; they do not stop the stream.
    """
    return (
        spark.readStream.format("kafka")
        .options(**options)
        .option("kafka.bootstrap.servers", settings.bootstrap_servers)
        .option("subscribe", wire.BROKER_METRICS)
        .option("startingTimestamp", str(since_ms))
        .option("startingOffsetsByTimestampStrategy", "latest")
        .option("maxOffsetsPerTrigger", str(RECORDS_PER_BATCH_MAX))
        .option("failOnDataLoss", "false")
        .load()
    )


def estimates(records: DataFrame, settings: Settings) -> DataFrame:
    """Turn Kafka rows into the rows of `schemas.OUT`."""
    chunk = settings.memory.chunk

    def unpack(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        return door.unpack(frames, chunk=chunk, buckets=settings.buckets)

    def fold(key: Any, frames: Iterator[pd.DataFrame], kept: Any) -> Iterator[pd.DataFrame]:
        return state.fold_bucket(key, frames, kept, settings)

    return (
        records.select(
            "key",
            "value",
            "topic",
            "partition",
            "offset",
            F.unix_millis("timestamp").alias("timestamp_ms"),
        )
        .mapInPandas(unpack, schemas.DOOR)
        .groupBy("bucket")
        .applyInPandasWithState(
            fold, schemas.OUT, schemas.STATE, "update", GroupStateTimeout.NoTimeout
        )
    )


def write_batch(
    rows: DataFrame, batch: int, *, settings: Settings, stream: str, options: dict[str, str]
) -> None:
    """Write one micro-batch. Written twice, it leaves the same lake and the same loads.

    A batch that is repeated after a crash overwrites its folders, and sends records to Kafka that
    are byte for byte the same under the same key.
    """
    rows = rows.persist()
    try:
        counts = {row["kind"]: row["count"] for row in rows.groupBy("kind").count().collect()}
        if counts.get("loads"):
            (
                rows.where("value is not null")
                .select("key", "value")
                .write.format("kafka")
                .options(**options)
                .option("kafka.bootstrap.servers", settings.bootstrap_servers)
                .option("topic", wire.PARTITION_LOAD)
                .save()
            )
        if counts.get("quarantine"):
            structlog.get_logger("pipeline").warning(
                "quarantined", batch=batch, records=counts["quarantine"]
            )
        for table, columns in schemas.TABLES.items():
            if counts.get(table):
                folder = f"{settings.lake}/{table}/stream={stream}/batch={batch}"
                part = rows.where(F.col("kind") == table).select(*columns)
                part.coalesce(1).write.mode("overwrite").parquet(folder)
    finally:
        rows.unpersist()


def start(
    spark: SparkSession,
    settings: Settings,
    *,
    checkpoint: str,
    stream: str,
    since_ms: int,
    trigger_s: float | None,
    options: dict[str, str],
) -> StreamingQuery:
    """Start the job; with no trigger it reads what is there and ends."""
    write: Callable[[DataFrame, int], None] = partial(
        write_batch, settings=settings, stream=stream, options=options
    )
    rows = estimates(source(spark, settings, since_ms, options), settings)
    writer = (
        rows.writeStream.queryName(QUERY)
        .outputMode("update")
        .option("checkpointLocation", checkpoint)
        .foreachBatch(write)
    )
    if trigger_s is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{round(trigger_s * 1000)} milliseconds").start()
