"""`plimsoll replay`."""

import sys
from typing import Annotated

import typer


def replay(
    file: Annotated[
        typer.FileBinaryRead,
        typer.Argument(help="Recorded events, one JSON a line; - reads stdin."),
    ],
) -> None:
    """Run the decision core on recorded time and print the records it would have written.

    Exit 1 when a line was refused: its answer is {"line":…, "error":{"path","message"}}, and the
    others are still replayed. Records that the agent would have quarantined are told on stderr.
    """
    import msgspec  # noqa: PLC0415 -- only this verb pays for the solver's imports

    from agent.core.events import Quarantine  # noqa: PLC0415
    from agent.core.replay import Replay  # noqa: PLC0415
    from agent.errors import TheirFault  # noqa: PLC0415

    recording = Replay()
    refused = False

    def tell(answer: object) -> None:
        if isinstance(answer, Quarantine):
            where = f"{answer.topic} offset {answer.offset} key {answer.key!r} {answer.path}"
            typer.echo(f"quarantined: {where}: {answer.message}", err=True)
        else:
            sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")

    for number, text in enumerate(file, start=1):
        if not text.strip():
            continue
        try:
            for answer in recording.feed(msgspec.json.decode(text)):
                tell(answer)
        except (TheirFault, msgspec.DecodeError) as error:
            refused = True
            fault = error if isinstance(error, TheirFault) else TheirFault("", str(error))
            tell({"line": number, "error": fault.as_error()})
    for answer in recording.end():
        tell(answer)
    sys.stdout.buffer.flush()
    if refused:
        raise typer.Exit(1)
