"""`plimsoll topics create|check`."""

from typing import Annotated

import typer

from agent.commands.options import BootstrapServer, CommandConfig, cluster_of

app = typer.Typer(no_args_is_help=True, help="Plimsoll's own topics.")

Replication = Annotated[
    int | None, typer.Option(help="Replication factor; default 3, or the number of brokers.")
]


@app.command()
def create(
    bootstrap_server: BootstrapServer,
    command_config: CommandConfig = None,
    replication_factor: Replication = None,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the commands and do nothing.")
    ] = False,
) -> None:
    """Create the topics that are missing; existing ones are left as they are."""
    from agent import topics  # noqa: PLC0415 -- only this verb pays for the client

    if print_only:
        for line in topics.commands(bootstrap_server, replication_factor or 3):
            typer.echo(line)
        return
    made = topics.create(cluster_of(bootstrap_server, command_config), replication_factor)
    typer.echo("\n".join(f"created {name}" for name in made) or "nothing to create", err=True)


@app.command()
def check(bootstrap_server: BootstrapServer, command_config: CommandConfig = None) -> None:
    """Verify policies and partition counts. Exit 1 when something is wrong."""
    from agent import topics  # noqa: PLC0415

    problems = topics.check(cluster_of(bootstrap_server, command_config))
    for problem in problems:
        typer.echo(problem)
    if problems:
        raise typer.Exit(1)
    typer.echo("all topics are as they must be", err=True)
