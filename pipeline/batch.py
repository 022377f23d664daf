"""What is computed from the lake: loads once more, and the shape of each partition's load.

Both write Parquet tables below a folder of their own:

loads    as the lake's table of that name, one row per topic, chunk and tick
profile  topic, partition, period (`day` or `week`), hour (UTC, of the day or from Monday 0 h),
         bytes_per_s and records_per_s (means of that hour), bytes_per_s_p95, bytes_share (mean over
         the mean of all hours), ticks (estimates that went in)
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 -- the name that every Spark program uses

from cost.rates import EMPTY
from cost.shape import HOURS, shape
from cost.ticks import advance
from pipeline import schemas, state
from pipeline.frames import frame, rows_of
from pipeline.settings import Settings

PROFILE_COLUMNS: Final = (
    "topic string, partition int, period string, hour int, bytes_per_s double, "
    "bytes_per_s_p95 double, bytes_share double, records_per_s double, ticks long"
)
LOAD_TABLE: Final = (
    f"topic string, chunk int, ms long, partition array<int>, {schemas.LOAD_COLUMNS}"
)


def recomputed_loads(
    spark: SparkSession, settings: Settings, from_ms: int, to_ms: int
) -> DataFrame:
    """Estimate again from the lake's samples of a span, as a stream that began there would have.

    A chunk is computed in one piece: a day of 1,000 partitions every 10 s takes about 400 MB.
    """
    samples = spark.read.parquet(f"{settings.lake}/samples")
    samples = samples.where(F.col("ms").between(from_ms, to_ms)).select(*schemas.SAMPLES)

    def recompute(part: pd.DataFrame) -> pd.DataFrame:
        blocks = map(state.block_of, rows_of([part]))
        ticks = advance(EMPTY, blocks, settings.slide_ms, settings.memory)
        rows = [row for tick in ticks for row in state.load_rows(tick, settings)]
        return frame(rows, schemas.names(LOAD_TABLE))

    return samples.groupBy("topic", "chunk").applyInPandas(recompute, LOAD_TABLE)


def published_loads(spark: SparkSession, lake: str) -> DataFrame:
    """Return the valid rows of the lake's `loads`: of each tick the estimate made last."""
    last = Window.partitionBy("topic", "chunk", "tick_ms").orderBy(F.desc("batch"), "stream")
    return (
        spark.read.parquet(f"{lake}/loads")
        .withColumn("version", F.row_number().over(last))
        .where("version = 1")
        .select(*schemas.LOADS)
    )


def profiles(loads: DataFrame) -> DataFrame:
    """Return each partition's load by hour of the day and of the week."""

    def by_hour(part: pd.DataFrame) -> pd.DataFrame:
        return frame(list(_profile_rows(part)), schemas.names(PROFILE_COLUMNS))

    rates = loads.select(
        "topic",
        "tick_ms",
        F.explode(F.arrays_zip("partition", "bytes_per_s", "records_per_s")).alias("row"),
    ).select("topic", "tick_ms", "row.*")
    return rates.groupBy("topic", "partition").applyInPandas(by_hour, PROFILE_COLUMNS)


def _profile_rows(part: pd.DataFrame) -> Iterator[dict[str, Any]]:
    ms = part["tick_ms"].to_numpy(np.int64)
    for period in HOURS:
        in_bytes = shape(ms, part["bytes_per_s"].to_numpy(np.float64), period)
        in_records = shape(ms, part["records_per_s"].to_numpy(np.float64), period)
        for index, hour in enumerate(in_bytes.hour.tolist()):
            yield {
                "topic": part["topic"].iloc[0],
                "partition": int(part["partition"].iloc[0]),
                "period": period,
                "hour": hour,
                "bytes_per_s": float(in_bytes.mean[index]),
                "bytes_per_s_p95": float(in_bytes.p95[index]),
                "bytes_share": float(in_bytes.share[index]),
                "records_per_s": float(in_records.mean[index]),
                "ticks": int(in_bytes.count[index]),
            }
