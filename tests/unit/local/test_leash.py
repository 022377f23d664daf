"""The leash: children end with their owner."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.local.leash import Leash, holders

SPAWN_AND_PAUSE = """
import pathlib, signal, sys
from deploy.local.leash import Leash
leash = Leash()
folder = pathlib.Path(sys.argv[1]) / "data"
folder.mkdir()
leash.delete_at_end(folder)
leash.spawn(["sh", "-c", "setsid sleep 600 & sleep 600"])
part = pathlib.Path(sys.argv[1]) / "token.part"
part.write_text(leash.token)
part.rename(part.with_suffix(""))
signal.pause()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_children_end_with_their_owner(tmp_path: Path, how: signal.Signals) -> None:
    """However the owner dies, children, re-parented grandchildren and folders are gone soon."""
    owner = subprocess.Popen(
        [sys.executable, "-c", SPAWN_AND_PAUSE, str(tmp_path)], stderr=subprocess.DEVNULL
    )
    try:
        _wait((tmp_path / "token").exists)
        token = (tmp_path / "token").read_text()
        _wait(lambda: len(holders(token)) == 3)  # sh and two sleeps
    finally:
        os.kill(owner.pid, how)
        owner.wait()
    _wait(lambda: not holders(token) and not (tmp_path / "data").exists())


def test_stop_ends_children_and_deletes_folders(tmp_path: Path) -> None:
    """After `stop` no child lives, a stubborn one neither, and the folders are gone."""
    folder = tmp_path / "data"
    folder.mkdir()
    with Leash() as leash:
        leash.delete_at_end(folder)
        leash.spawn(["sleep", "600"])
        assert len(holders(leash.token)) == 1
    assert holders(leash.token) == []
    assert not folder.exists()


def test_released_children_live_on(tmp_path: Path) -> None:
    """After `release` the children outlive their owner, and their token still finds them."""
    program = (
        "import sys, pathlib\n"
        "from deploy.local.leash import Leash\n"
        "leash = Leash()\n"
        "leash.spawn(['sleep', '600'])\n"
        "leash.release()\n"
        "pathlib.Path(sys.argv[1]).write_text(leash.token)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "token")], check=True)
    pids = holders((tmp_path / "token").read_text())
    assert len(pids) == 1
    os.kill(pids[0], signal.SIGKILL)


def _wait(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "condition not met in time"
        time.sleep(0.02)
