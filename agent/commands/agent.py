"""`plimsoll agent`."""

from typing import Annotated

import typer

from agent.commands.options import BootstrapServer, CommandConfig, LogLevel, cluster_of


def agent(
    bootstrap_server: BootstrapServer,
    command_config: CommandConfig = None,
    http_host: Annotated[str, typer.Option(help="Address to serve HTTP on.")] = "127.0.0.1",
    http_port: Annotated[
        int, typer.Option(help="Port to serve HTTP on; 0 takes a free one.")
    ] = 8080,
    log_level: LogLevel = "INFO",
) -> None:
    """Decide and publish targets until SIGTERM.

    Exit 0: told to stop; 1: a fault, restart; 3: a newer agent has taken over.
    """
    from agent.runtime import Options, run  # noqa: PLC0415 -- needs the extra `agent`
    from agent.telemetry import configure_logging  # noqa: PLC0415

    cluster = cluster_of(bootstrap_server, command_config)
    configure_logging(log_level)
    raise typer.Exit(run(Options(cluster, http_host, http_port)))
