"""Recorded lines for the tests of `agent.streams`: an excerpt that is part of the repository."""

import pytest

from bench.streams import golden


@pytest.fixture(scope="session")
def instances() -> list[golden.Line]:
    """Instances that Kafka's assignors assigned once."""
    return list(golden.lines(golden.EXCERPT / "rack.jsonl.gz"))


@pytest.fixture(scope="session")
def closed_loops() -> list[golden.Line]:
    """Instances that Kafka's high-availability assignor assigned round after round."""
    return list(golden.lines(golden.EXCERPT / "rounds.jsonl.gz"))
