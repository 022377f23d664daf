"""Child processes that never outlive the process that started them, however it ends.

Every child carries a token in its environment, which grandchildren inherit. A small keeper process
in a session of its own waits on a pipe; when the owner ends, for whatever reason including SIGKILL,
the pipe reaches its end, and the keeper kills every process that carries the token and deletes the
folders it was told of. Threads, daemons and re-parented grandchildren are covered alike, which
neither PR_SET_PDEATHSIG (bound to the *thread* that forked) nor process groups (left by `setsid`)
would give. Needs /proc to find the token (Linux); elsewhere only `stop` cleans up.

It promises nothing for a process that clears its environment.
"""

import atexit
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self, cast

TOKEN_VARIABLE: Final = "PLIMSOLL_LEASH"  # noqa: S105 -- the name of a variable, not a secret
TERMINATE_GRACE_S: Final = 15.0
"""A broker under load takes some seconds to close its logs after SIGTERM."""

POLL_S: Final = 0.05


class Leash:
    """Starts children and answers for their end; `release` lets them live on."""

    def __init__(self, token: str | None = None) -> None:
        self.token = token or secrets.token_hex(8)
        self._children: list[subprocess.Popen[bytes]] = []
        self._keeper: subprocess.Popen[bytes] | None = None
        self._folders: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def delete_at_end(self, folder: Path) -> None:
        """Delete `folder` when the leash is stopped or its owner dies."""
        self._folders.append(folder)
        pipe = self._keeper_pipe()
        pipe.write(f"delete {folder}\n".encode())
        pipe.flush()

    def spawn(
        self,
        command: Sequence[str],
        *,
        output: Path | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        """Start `command` in a session of its own, appending what it prints to file `output`."""
        self._keeper_pipe()
        environment = {**os.environ, **(env or {}), TOKEN_VARIABLE: self.token}
        with (output or Path(os.devnull)).open("ab") as sink:
            child = subprocess.Popen(
                list(command),
                stdin=stdin,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=cwd,
                start_new_session=True,
            )
        self._children.append(child)
        return child

    def stop(self) -> None:
        """End every child and grandchild, politely first; delete the folders. Idempotent."""
        for child in self._children:
            with suppress(ProcessLookupError):
                child.terminate()
        deadline = time.monotonic() + TERMINATE_GRACE_S
        for child in self._children:
            with suppress(subprocess.TimeoutExpired):
                child.wait(max(0.0, deadline - time.monotonic()))
        kill_all(self.token)
        for child in self._children:
            child.wait()
        self._children.clear()
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)
        self._folders.clear()
        self.release()

    def release(self) -> None:
        """Let children and folders outlive this process."""
        atexit.unregister(self.stop)
        if self._keeper is not None:
            with suppress(BrokenPipeError):
                self._keeper.communicate(b"release\n")
            self._keeper = None

    def _keeper_pipe(self) -> IO[bytes]:
        """Return the pipe to the keeper, which starts before the first child does."""
        if self._keeper is None:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, self.token],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            atexit.register(self.stop)
        return cast("IO[bytes]", self._keeper.stdin)


def holders(token: str) -> list[int]:
    """Return the ids of the processes that carry `token`, our own excepted."""
    needle = f"{TOKEN_VARIABLE}={token}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile, or is another user's
            if needle in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return sorted(pid for pid in found if pid != os.getpid())


def kill_all(token: str, deadline_s: float = 10.0) -> None:
    """Kill every process that carries `token`, until none is left to be found."""
    deadline = time.monotonic() + deadline_s
    while (pids := holders(token)) and time.monotonic() < deadline:
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S)


def terminate_all(token: str, grace_s: float = TERMINATE_GRACE_S) -> None:
    """End every process that carries `token`: SIGTERM, then SIGKILL for those still there."""
    for pid in holders(token):
        with suppress(OSError):
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while holders(token) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    kill_all(token)


def _keep(token: str) -> None:
    """Be the keeper: wait for the end of the owner, then sweep unless released."""
    folders = []
    for line in sys.stdin:
        verb, _, rest = line.rstrip("\n").partition(" ")
        if verb == "release":
            return
        folders.append(Path(rest))
    kill_all(token)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _keep(sys.argv[1])
