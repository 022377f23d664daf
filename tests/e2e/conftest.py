"""What end-to-end tests share: one real cluster a session, and names nobody else uses."""

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.local.cluster import LocalCluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test below this folder `e2e`."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """Give the session's cluster; a test that stops a broker starts it again, or has its own."""
    with LocalCluster() as running:
        yield running


@pytest.fixture
def fresh_name() -> Callable[[str], str]:
    """Give a maker of names (topics, groups) that no other test uses: `fresh_name("orders")`."""
    suffix = secrets.token_hex(4)
    return lambda stem: f"{stem}-{suffix}"
