"""The `plimsoll` command: one line per verb, each verb in its own module of `agent/commands`."""

import typer

from agent.commands import assign

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Keep Kafka consumer groups level.",
)
app.command("assign")(assign.assign)


@app.callback()
def _root() -> None:
    """Keep Kafka consumer groups level."""


def main() -> None:
    """Run the command (console script)."""
    app()
