"""`plimsoll dev`: a local Kafka cluster that stays up between commands, for people."""

import shutil
from typing import Annotated

import msgspec
import typer

from agent.commands.options import cluster_of

app = typer.Typer(no_args_is_help=True, help="A local Kafka cluster, without containers.")


class DevCluster(msgspec.Struct, frozen=True):
    """What `dev up` writes down for the later commands."""

    bootstrap_servers: str
    token: str
    """Every process of the cluster carries it; see deploy/local/leash.py."""
    logs: str


@app.command()
def up(
    log_level: Annotated[str, typer.Option(help="Log level of the brokers.")] = "WARN",
) -> None:
    """Start three brokers, create Plimsoll's topics, print the bootstrap servers."""
    from agent import topics  # noqa: PLC0415 -- needed by this verb only
    from deploy.local.cluster import LocalCluster  # noqa: PLC0415 -- same
    from deploy.local.leash import holders  # noqa: PLC0415 -- same
    from deploy.local.paths import BUILD  # noqa: PLC0415 -- same

    running = _read_state()
    if running is not None and holders(running.token):
        typer.echo(running.bootstrap_servers)
        return
    folder = BUILD / "dev" / "data"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    typer.echo("starting three brokers", err=True)
    cluster = LocalCluster(folder=folder, log_level=log_level).start()
    topics.create(cluster_of(cluster.bootstrap_servers, None))
    state = DevCluster(
        bootstrap_servers=cluster.bootstrap_servers,
        token=cluster.release(),
        logs=str(cluster.logs),
    )
    (BUILD / "dev" / "cluster.json").write_bytes(msgspec.json.encode(state))
    typer.echo(state.bootstrap_servers)


@app.command()
def down() -> None:
    """Stop the brokers of `dev up` and delete their data; logs stay."""
    from deploy.local.leash import terminate_all  # noqa: PLC0415 -- needed by this verb only
    from deploy.local.paths import BUILD  # noqa: PLC0415 -- same

    state = _read_state()
    if state is not None:
        terminate_all(state.token)
    shutil.rmtree(BUILD / "dev", ignore_errors=True)


@app.command()
def status() -> None:
    """Print each broker and whether it answers; exit 1 unless all do."""
    from confluent_kafka import KafkaException  # noqa: PLC0415 -- needed by this verb only
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 -- same

    state = _read_state()
    if state is None:
        typer.echo("not running", err=True)
        raise typer.Exit(1)
    silent = 0
    for address in state.bootstrap_servers.split(","):
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        try:
            known = len(admin.list_topics(timeout=3).brokers)
            typer.echo(f"{address} answers and knows {known} brokers")
        except KafkaException:
            typer.echo(f"{address} does not answer")
            silent += 1
    typer.echo(f"logs in {state.logs}", err=True)
    if silent:
        raise typer.Exit(1)


def _read_state() -> DevCluster | None:
    """Return what the last `dev up` wrote down, if it was not taken down."""
    from deploy.local.paths import BUILD  # noqa: PLC0415 -- needed by these verbs only

    path = BUILD / "dev" / "cluster.json"
    return msgspec.json.decode(path.read_bytes(), type=DevCluster) if path.exists() else None
