"""The rights as data and as commands."""

import shlex
import subprocess
import sys
from typing import Final

from agent import wire
from deploy.kafka.acls import grants, principals
from deploy.local.paths import ROOT

CONNECTION: Final = ("--bootstrap-server", "broker:9092")


def test_only_the_agent_writes_targets_and_decisions() -> None:
    """No rule of another principal, however wide, lets it write what only the agent may say."""
    for grant in grants():
        if grant.resource != "topic" or "Write" not in grant.operations:
            continue
        for topic in (wire.TARGETS, wire.DECISIONS, wire.CONFIG_STATUS):
            covers = topic.startswith(grant.name) if grant.prefixed else grant.name == topic
            assert not covers or grant.principal == "User:plimsoll-agent"


def test_nobody_may_destroy_or_change_rights() -> None:
    """No rule grants Delete, Alter, AlterConfigs, ClusterAction or All."""
    given = {operation for grant in grants() for operation in grant.operations}
    assert given == {"Read", "Write", "Describe", "DescribeConfigs", "Create"}


def test_narrower_names_replace_everything() -> None:
    """Named groups and topics stand where otherwise everything does; `*` at the end is a prefix."""
    wide = {grant.name for grant in grants()}
    narrow = {(g.name, g.prefixed) for g in grants(groups=["orders", "bill*"], topics=["shop.*"])}
    assert "*" in wide
    assert {("orders", False), ("bill", True), ("shop.", True)} <= narrow
    assert not any(name == "*" for name, _ in narrow)


def test_commands_say_what_the_grant_says() -> None:
    """A command names principal, operations, resource and pattern of its grant, and adds only."""
    for grant in grants(users={"agent": "User:CN=agent,O=Example Ltd"}):
        words = shlex.split(grant.command(CONNECTION))
        assert words[:4] == ["kafka-acls.sh", *CONNECTION, "--add"]
        assert words[words.index("--allow-principal") + 1] == grant.principal
        operations = [words[i + 1] for i, word in enumerate(words) if word == "--operation"]
        assert operations == list(grant.operations)
        assert ("prefixed" in words) == grant.prefixed
        if grant.resource == "cluster":
            assert "--cluster" in words
        else:
            assert words[words.index(f"--{grant.resource}") + 1] == grant.name


def test_the_command_prints_one_line_per_grant() -> None:
    """`python -m deploy.kafka.acls` prints every grant under its principal, and does nothing."""
    command = [sys.executable, "-m", "deploy.kafka.acls", *CONNECTION, "--group", "orders"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        grant.command(CONNECTION) for grant in grants(groups=["orders"])
    ]
    assert [line for line in lines if line.startswith("#")] == [
        f"# User:{role['user']}" for role in principals().values()
    ]


def test_the_page_lists_every_grant() -> None:
    """docs/security.md names, for each principal, every resource of its rules."""
    page = (ROOT / "docs" / "security.md").read_text()
    for role, data in principals().items():
        (row,) = (line for line in page.splitlines() if line.startswith(f"| {role} |"))
        for rule in data["allow"]:
            assert f"`{rule['name']}`" in row, f"{role}: {rule['name']}"
