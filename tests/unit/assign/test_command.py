"""`plimsoll assign`: lines in, lines out, exit codes, and the same bytes under any hash seed."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agent.cli import app

Make = Callable[..., dict[str, Any]]


def _run(text: str, *more: str) -> tuple[int, list[dict[str, Any]]]:
    result = CliRunner().invoke(app, ["assign", "-", *more], input=text)
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]


def test_one_answer_line_for_each_problem(document: Make) -> None:
    """JSON Lines give one answer each, in order; all answered is exit 0."""
    lines = [json.dumps(document([1.0, 2.0], id=name)) for name in ("a", "b")]
    code, answers = _run("\n".join(lines) + "\n")
    assert code == 0
    assert [a["id"] for a in answers] == ["a", "b"]


def test_a_pretty_printed_document_is_one_problem(document: Make) -> None:
    """A single document may span lines."""
    code, answers = _run(json.dumps(document([1.0, 2.0]), indent=2))
    assert (code, len(answers)) == (0, 1)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "-1", '"x"', "1e999"])
def test_a_refused_line_does_not_stop_the_others(document: Make, literal: str) -> None:
    """A bad load is refused with its path, the other lines are answered, exit is 1."""
    bad = json.dumps(document([1.0, 987654.0], id="bad")).replace("987654.0", literal)
    code, answers = _run(bad + "\n" + json.dumps(document([1.0])) + "\n")
    assert code == 1
    assert answers[0]["id"] == "bad"
    assert answers[0]["error"]["path"] == "partitions[1].load"
    assert "assignment" in answers[1]


@pytest.mark.parametrize(
    "text", ["{", "nonsense", "[1,2]", "3", '{"kind":"other"}', "\xff", "[" * 9999]
)
def test_unreadable_lines_are_refused(text: str) -> None:
    """What is no JSON, or no problem, is one refusal without an id, never a traceback."""
    code, answers = _run(text)
    assert code == 1
    assert len(answers) == 1
    assert answers[0]["id"] is None
    assert answers[0]["error"]["message"]


def test_wrong_usage_is_exit_2(tmp_path: Path) -> None:
    """A file that is not there is wrong usage."""
    assert CliRunner().invoke(app, ["assign", str(tmp_path / "none.json")]).exit_code == 2


def test_drawing_is_an_svg_and_repeats(document: Make, tmp_path: Path) -> None:
    """--draw writes an SVG with before, after and the flow; the same plan gives the same bytes."""
    d = document([3.0, 2.0, 1.0])
    for p in d["partitions"]:
        p["owner"] = "m0"
    pictures = []
    for name in ("a.svg", "b.svg"):
        code, _ = _run(json.dumps(d), "--draw", str(tmp_path / name))
        assert code == 0
        pictures.append((tmp_path / name).read_bytes())
    assert pictures[0] == pictures[1]
    assert b"<svg" in pictures[0]


def test_hash_seeds_do_not_matter(document: Make) -> None:
    """The same problem gives the same bytes under different hash seeds."""
    d = document([float(i % 7) for i in range(40)], members=5)
    code = (
        "import json,sys; from agent import assign; a=assign.answer(json.load(sys.stdin));"
        "a.pop('elapsed_ms'); print(json.dumps(a))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            input=json.dumps(d).encode(),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
