"""Options that several verbs share."""

from pathlib import Path
from typing import Annotated

import typer

from agent.clients import Cluster, read_cluster
from agent.errors import TheirFault

BootstrapServer = Annotated[
    str,
    typer.Option(
        envvar="PLIMSOLL_BOOTSTRAP_SERVER", help="Brokers to start from, host:port,host:port."
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        envvar="PLIMSOLL_COMMAND_CONFIG",
        help="Properties file with security settings, in librdkafka's names.",
        exists=True,
        dir_okay=False,
    ),
]
LogLevel = Annotated[str, typer.Option(envvar="PLIMSOLL_LOG_LEVEL", help="DEBUG, INFO, WARNING.")]


def cluster_of(bootstrap_server: str, command_config: Path | None) -> Cluster:
    """Read how to reach the cluster; a wrong file is wrong usage (exit 2)."""
    try:
        return read_cluster(bootstrap_server, command_config)
    except TheirFault as fault:
        raise typer.BadParameter(str(fault), param_hint="--command-config") from None
