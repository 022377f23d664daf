"""What the tests of the deployment share."""

import time
from collections.abc import Callable

import pytest


@pytest.fixture(scope="session")
def until() -> Callable[..., None]:
    """Wait for a condition: `until("the agent is ready", condition, timeout_s)`."""

    def wait(what: str, condition: Callable[[], object], timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
            time.sleep(0.1)

    return wait
