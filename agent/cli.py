"""The `plimsoll` command: one line per verb, each verb in its own module of `agent/commands`."""

import typer

from agent.commands import agent, assign, collect, dev, doctor, pipeline, replay, topics

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Keep Kafka consumer groups level.",
)
app.command("agent")(agent.agent)
app.command("assign")(assign.assign)
app.command("collect")(collect.collect)
app.command("doctor")(doctor.doctor)
app.command("replay")(replay.replay)
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(topics.app, name="topics")
app.add_typer(dev.app, name="dev")


def main() -> None:
    """Run the command (console script)."""
    app()
