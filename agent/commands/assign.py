"""`plimsoll assign`: problems in, answers out, one line each, in order.

Promises: each input line gets exactly one answer line, refused or not, and never a traceback for
what a caller wrote. Does not: decide anything; `agent.assign` and `agent.streams` do.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, cast

import msgspec
import typer

from agent.errors import TheirFault


def assign(
    file: Annotated[str, typer.Argument(help="JSON document or JSON Lines; - is standard input.")],
    draw: Annotated[
        Path | None,
        typer.Option(help="Also draw the one problem as SVG: before, after, and the flow."),
    ] = None,
) -> None:
    """Answer assignment problems (kinds consumer-group and streams-tasks), one line each."""
    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        print(f"cannot read {file}: {error.strerror}", file=sys.stderr)  # noqa: T201 -- a command
        raise typer.Exit(2) from error
    texts = list(_documents(raw))
    if draw is not None and len(texts) != 1:
        print("--draw takes exactly one problem", file=sys.stderr)  # noqa: T201 -- a command
        raise typer.Exit(2)
    refused = False
    for text in texts:
        line, fault = _answer_line(text, draw)
        refused |= fault
        sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
    if refused:
        raise typer.Exit(1)


def _documents(raw: bytes) -> Iterator[bytes]:
    """Split the input: one document, however many lines it spans, or one document a line."""
    lines = [line for line in raw.splitlines() if line.strip()]
    if len(lines) > 1 and (_is_object(raw) or not any(map(_is_object, lines))):
        yield raw
    else:
        yield from lines


def _is_object(text: bytes) -> bool:
    """Tell whether a text is one whole JSON object."""
    try:
        return isinstance(_decode(text), dict)
    except TheirFault:
        return False


def _decode(text: bytes) -> object:
    """Read JSON; Python's NaN and Infinity pass: they are refused later, with their path."""
    try:
        return cast("object", msgspec.json.decode(text))
    except msgspec.DecodeError as first:
        try:
            return cast("object", json.loads(text))
        except (ValueError, RecursionError):
            raise TheirFault("", f"not JSON: {first}") from first
    except RecursionError as error:
        raise TheirFault("", "not JSON: nested too deeply") from error


def _answer_line(text: bytes, draw: Path | None) -> tuple[bytes, bool]:
    """Give the answer as one line of JSON, and whether it is a refusal."""
    name: object = None
    try:
        document = _decode(text)
        if isinstance(document, dict):
            given = document.get("id")
            name = given if isinstance(given, str | int) else None
        return msgspec.json.encode(_dispatch(document, draw)), False
    except TheirFault as fault:
        return msgspec.json.encode({"id": name, "error": fault.as_error()}), True


def _dispatch(document: object, draw: Path | None) -> dict[str, object]:
    if not isinstance(document, dict):
        raise TheirFault("", "a problem is a JSON object")
    kind = document.get("kind")
    if kind == "consumer-group":
        from agent import assign as group  # noqa: PLC0415 -- the solver is slow to import

        if draw is None:
            return group.answer(document)
        from agent.assign.draw import draw_plan  # noqa: PLC0415 -- matplotlib is an extra

        problem = group.parse(document)
        plan = group.solve(problem)
        draw_plan(problem, plan, draw)
        return group.render(problem, plan)
    if kind == "streams-tasks":
        from agent import streams  # noqa: PLC0415 -- only this kind needs it

        if draw is not None:
            from agent.streams.draw import draw as draw_network  # noqa: PLC0415 -- as above

            draw_network(document, draw)
        return streams.answer(document)
    raise TheirFault("kind", "must be consumer-group or streams-tasks")
