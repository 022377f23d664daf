"""`plimsoll dev`: a cluster that stays until it is taken down."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from agent.commands.dev import app
from deploy.local.leash import holders


def test_up_stays_and_down_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`up` prints a cluster with Plimsoll's topics, again the same one; `down` ends it."""
    monkeypatch.setattr("deploy.local.paths.BUILD", tmp_path)
    runner = CliRunner()
    assert runner.invoke(app, ["status"]).exit_code == 1
    try:
        servers = runner.invoke(app, ["up"]).stdout.strip()
        assert runner.invoke(app, ["up"]).stdout.strip() == servers
        assert runner.invoke(app, ["status"]).exit_code == 0
        for address in servers.split(","):
            topics = AdminClient({"bootstrap.servers": address}).list_topics(timeout=10).topics
            assert {"plimsoll.targets", "plimsoll.config", "plimsoll.membership"} <= topics.keys()
        state = (tmp_path / "dev" / "cluster.json").read_text()
    finally:
        assert runner.invoke(app, ["down"]).exit_code == 0
    token = state.split('"token":"')[1].split('"')[0]
    assert holders(token) == []
    assert not (tmp_path / "dev").exists()
    assert runner.invoke(app, ["status"]).exit_code == 1
