"""`plimsoll collect`: sample brokers and groups until SIGTERM."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Source(StrEnum):
    """Ways of measuring."""

    KAFKA = "kafka"
    PROMETHEUS = "prometheus"


def collect(
    bootstrap_server: Annotated[str, typer.Option(help="Brokers, host:port,host:port.")],
    interval_s: Annotated[float, typer.Option(min=0.5, help="Seconds between samples.")] = 10.0,
    command_config: Annotated[
        Path | None, typer.Option(exists=True, help="Client properties, as Kafka's tools take.")
    ] = None,
    source: Annotated[Source, typer.Option(help="Where counters come from.")] = Source.KAFKA,
    prometheus_url: Annotated[str, typer.Option(help="With --source prometheus.")] = "",
    profile: Annotated[str, typer.Option(help="How its series are named.")] = "jmx-default",
    profiles_file: Annotated[
        Path | None, typer.Option(exists=True, help="More profiles, in TOML.")
    ] = None,
    topics: Annotated[str, typer.Option(help="Pattern of the topics to sample.")] = ".*",
    groups: Annotated[str, typer.Option(help="Pattern of the groups to describe.")] = ".*",
    membership_interval_s: Annotated[
        float, typer.Option(min=0.2, help="Seconds between looks at the groups.")
    ] = 1.0,
    membership_repeat_s: Annotated[
        float, typer.Option(min=1.0, help="Repeat an unchanged snapshot after this long.")
    ] = 30.0,
    metrics_port: Annotated[
        int | None, typer.Option(min=1, help="Serve Prometheus metrics here; without it none.")
    ] = None,
    metrics_host: Annotated[str, typer.Option(help="Address of --metrics-port.")] = "127.0.0.1",
) -> None:
    """Sample brokers into plimsoll.broker-metrics and groups into plimsoll.membership."""
    import threading  # noqa: PLC0415 -- this verb only

    from agent.clients import read_cluster  # noqa: PLC0415 -- same
    from agent.collector import groups as group_watching  # noqa: PLC0415 -- same
    from agent.collector import run  # noqa: PLC0415 -- same
    from agent.collector.metrics import CollectorMetrics, serve  # noqa: PLC0415 -- same
    from agent.collector.publisher import Publisher  # noqa: PLC0415 -- same
    from agent.collector.stop import stop_on_signals  # noqa: PLC0415 -- same
    from agent.telemetry import configure_logging  # noqa: PLC0415 -- same

    configure_logging()
    stop = stop_on_signals()
    cluster = read_cluster(bootstrap_server, command_config)
    kafka = run.kafka_source(cluster, topics)
    counters = (
        run.prometheus_source(kafka, prometheus_url, profile, profiles_file)
        if source is Source.PROMETHEUS
        else kafka
    )
    publisher = Publisher(cluster)
    watcher = group_watching.GroupWatcher(
        kafka.admin, publisher.publish, re.compile(groups), kafka.clock, membership_repeat_s
    )
    known = group_watching.known_groups(cluster)
    watching = threading.Thread(
        target=watcher.run, args=(membership_interval_s, known, stop), name="groups"
    )
    watching.start()
    collector = run.Collector(counters, publisher, interval_s)
    if metrics_port is not None:
        serve(metrics_host, metrics_port, CollectorMetrics(collector, watcher, publisher))
    try:
        collector.run(stop)
    finally:
        stop.set()
        watching.join()
        counters.close()
        publisher.close()
