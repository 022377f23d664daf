"""`plimsoll doctor`: which ways of measuring work here."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer


def doctor(
    bootstrap_server: Annotated[
        str | None, typer.Option(help="Brokers; tries the Kafka protocol.")
    ] = None,
    prometheus_url: Annotated[
        str | None, typer.Option(help="A Prometheus; tries every profile.")
    ] = None,
    profiles_file: Annotated[
        Path | None, typer.Option(exists=True, help="More profiles, in TOML.")
    ] = None,
    command_config: Annotated[
        Path | None, typer.Option(exists=True, help="Client properties, librdkafka's names.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Try every way of measuring; exit 1 when none works."""
    from agent.clients import read_cluster  # noqa: PLC0415 -- this verb only
    from agent.collector.doctor import try_profiles, try_source  # noqa: PLC0415 -- same
    from agent.collector.profiles import read_profiles  # noqa: PLC0415 -- same
    from agent.collector.prometheus_client import PrometheusClient  # noqa: PLC0415 -- same
    from agent.collector.run import kafka_source  # noqa: PLC0415 -- same

    if bootstrap_server is None and prometheus_url is None:
        raise typer.BadParameter("give --bootstrap-server, --prometheus-url or both")
    findings = []
    if bootstrap_server is not None:
        source = kafka_source(read_cluster(bootstrap_server, command_config))
        findings.append(try_source(source))
        source.close()
    if prometheus_url is not None:
        client = PrometheusClient(prometheus_url)
        findings += try_profiles(client, read_profiles(profiles_file), time.time())
    for finding in findings:
        typer.echo(json.dumps(asdict(finding)) if as_json else str(finding))
    if not any(finding.works for finding in findings):
        raise typer.Exit(1)
