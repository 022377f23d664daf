"""`plimsoll pipeline`: the Spark job, and what is computed from its lake."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="From broker samples to partition loads, on Spark.")

Master = Annotated[str, typer.Option(help="local[N], spark://host:port or sc://host:port.")]
Jars = Annotated[
    Path | None, typer.Option(help="Folder of Spark's Kafka connector; fetched when not given.")
]


@app.command()
def run(
    bootstrap_server: Annotated[str, typer.Option(help="Brokers, host:port,host:port.")],
    checkpoint: Annotated[Path, typer.Option(help="Folder of the stream's state.")],
    lake: Annotated[Path, typer.Option(help="Folder of the Parquet tables.")],
    master: Master = "local[1]",
    trigger_s: Annotated[float, typer.Option(min=0.5, help="Seconds between micro-batches.")] = 5.0,
    window_s: Annotated[float, typer.Option(min=5, help="Seconds that a rate is a mean of.")] = 60,
    slide_s: Annotated[float, typer.Option(min=1, help="Seconds between windows.")] = 10.0,
    shuffle_partitions: Annotated[int, typer.Option(min=1, help="Tasks of a micro-batch.")] = 1,
    once: Annotated[bool, typer.Option(help="Read what is there now, and end.")] = False,
    command_config: Annotated[
        Path | None, typer.Option(exists=True, help="Client properties, librdkafka's names.")
    ] = None,
    jars: Jars = None,
) -> None:
    """Estimate partition loads until SIGTERM."""
    from agent.clients import read_cluster  # noqa: PLC0415 -- this verb only
    from agent.collector.stop import stop_on_signals  # noqa: PLC0415 -- same
    from agent.telemetry import configure_logging  # noqa: PLC0415 -- same
    from pipeline.job import Job  # noqa: PLC0415 -- same
    from pipeline.settings import Settings  # noqa: PLC0415 -- same

    configure_logging()
    stop = stop_on_signals()
    cluster = read_cluster(bootstrap_server, command_config)
    settings = Settings(bootstrap_server, str(lake.resolve()), window_s, slide_s)
    Job(
        settings,
        checkpoint=checkpoint.resolve(),
        master=master,
        jars=_connector(master, jars),
        shuffle_partitions=shuffle_partitions,
        properties=dict(cluster.properties),
    ).run(None if once else trigger_s, stop)


def _connector(master: str, jars: Path | None) -> Path | None:
    """Return the folder of the connector's jars; a Connect server has them already."""
    from deploy.local.artifacts import fetch  # noqa: PLC0415 -- this verb only

    if jars is not None or master.startswith("sc://"):
        return jars
    return fetch("spark")


Lake = Annotated[Path, typer.Option(exists=True, help="Folder of the Parquet tables.")]
Out = Annotated[Path, typer.Option(help="Folder to write; what it holds is replaced.")]


@app.command()
def backfill(
    lake: Lake,
    out: Out,
    from_ms: Annotated[int, typer.Option(help="First sample, epoch milliseconds.")] = 0,
    to_ms: Annotated[int, typer.Option(help="Last sample, epoch milliseconds.")] = 2**62,
    master: Master = "local[1]",
    window_s: Annotated[float, typer.Option(min=5, help="Seconds that a rate is a mean of.")] = 60,
    slide_s: Annotated[float, typer.Option(min=1, help="Seconds between windows.")] = 10.0,
) -> None:
    """Estimate loads again from the lake's samples, with the stream's own functions."""
    from pipeline.batch import recomputed_loads  # noqa: PLC0415 -- this verb only
    from pipeline.session import session  # noqa: PLC0415 -- same
    from pipeline.settings import Settings  # noqa: PLC0415 -- same

    settings = Settings("", str(lake.resolve()), window_s, slide_s)
    spark = session(master, None, shuffle_partitions=1)
    try:
        table = recomputed_loads(spark, settings, from_ms, to_ms)
        table.write.mode("overwrite").parquet(str(out.resolve()))
    finally:
        spark.stop()


@app.command()
def profile(lake: Lake, out: Out, master: Master = "local[1]") -> None:
    """Write each partition's usual load by hour of the day and of the week."""
    from pipeline.batch import profiles, published_loads  # noqa: PLC0415 -- this verb only
    from pipeline.session import session  # noqa: PLC0415 -- same

    spark = session(master, None, shuffle_partitions=1)
    try:
        table = profiles(published_loads(spark, str(lake.resolve())))
        table.write.mode("overwrite").parquet(str(out.resolve()))
    finally:
        spark.stop()
