"""`plimsoll replay`: the core on recorded time, to the byte."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

HERE = Path(__file__).parent
TRANSCRIPTS = sorted((HERE / "transcripts").glob("*.in.jsonl"))


def run_replay(recording: bytes, hash_seed: str = "0") -> subprocess.CompletedProcess[bytes]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", "from agent.cli import main; main()", "replay", "-"],
        input=recording,
        capture_output=True,
        check=False,
        cwd=HERE.parents[2],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )


@pytest.mark.parametrize("recording", TRANSCRIPTS, ids=lambda p: p.name.removesuffix(".in.jsonl"))
def test_transcripts_are_reproduced_to_the_byte(recording: Path) -> None:
    """Each recording gives its committed records, under two hash seeds.

    After an intended change: `plimsoll replay X.in.jsonl > X.out.jsonl`; commit the difference
    only if every line of it is understood.
    """
    expected = recording.with_name(recording.name.replace(".in.", ".out.")).read_bytes()
    for seed in ("1", "271828"):
        done = run_replay(recording.read_bytes(), seed)
        assert (done.returncode, done.stdout) == (0, expected)


def test_bad_lines_are_named_and_the_others_replayed() -> None:
    """A line that is no event answers with its number and path, exit 1; the rest is replayed."""
    good = b'{"ms":1,"topic":"plimsoll.config","key":"group/g","value":{"v":1,"spec":{}}}\n'
    done = run_replay(b'{"ms":"x"}\n' + good + b"{nonsense\n")
    answers = [msgspec.json.decode(line) for line in done.stdout.splitlines()]

    assert done.returncode == 1
    assert answers[0]["line"] == 1
    assert answers[0]["error"]["path"] == "ms"
    assert answers[1]["topic"] == "plimsoll.config-status"
    assert answers[2]["line"] == 3
