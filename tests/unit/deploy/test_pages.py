"""The pages for operators say what the programs do."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator

from agent import wire
from agent.core.events import Record, Tick, Write
from agent.core.state import State
from agent.core.step import step
from agent.core.view import view
from deploy.local.paths import ROOT

DOCS: Final = ROOT / "docs"
SCHEMA: Final[dict[str, Any]] = json.loads((DOCS / "schemas/plan.schema.json").read_text())
START_MS: Final = 1_790_000_000_000


def test_the_table_of_metrics_is_what_there_is(metrics: frozenset[tuple[str, str, str]]) -> None:
    """docs/metrics.md lists each metric with its type and labels, and no other."""
    rows = re.findall(
        r"^\| `(plimsoll_\w+)` \| (\w+) \| ([\w, ]*?) ?\| .+ \|$",
        (DOCS / "metrics.md").read_text(),
        re.MULTILINE,
    )
    assert sorted(rows) == sorted(metrics)


def test_every_page_of_the_door_is_documented() -> None:
    """docs/http.md has a row for each route that agent/http.py adds."""
    routes = set(re.findall(r'add_get\(\s*"(/\w+)"', (ROOT / "agent/http.py").read_text()))
    rows = re.findall(r"^\| `(/\w+)` \|", (DOCS / "http.md").read_text(), re.MULTILINE)
    assert set(rows) == routes


@pytest.fixture
def states() -> Iterator[State]:
    """Give one group's state: unknown, observed, then with a target, as it really comes about."""

    def walk() -> Iterator[State]:
        state = State()
        yield state
        _fold(state, wire.MEMBERSHIP, "g", MEMBERSHIP)
        _fold(state, wire.PARTITION_LOAD, "orders#0", LOADS)
        yield state
        _tick(state)
        yield state
        _fold(state, wire.CONFIG, "group/g", CONFIG)
        _tick(state)
        assert state.groups["g"].target is not None
        yield state

    return walk()


MEMBERSHIP: Final = {
    "v": 1,
    "ms": START_MS,
    "group": "g",
    "assignor": "plimsoll",
    "state": "Stable",
    "members": [
        {"stable_id": name, "member_id": name, "topics": ["orders"], "owned": {"orders": owned}}
        for name, owned in (("a", [0, 1, 2]), ("b", [3]))
    ],
    "topics": {"orders": {"partitions": 4}},
}
LOADS: Final = {
    "v": 1,
    "ms": START_MS,
    "topic": "orders",
    "window_s": 60.0,
    "partition": [0, 1, 2, 3],
    "bytes_per_s": [1e6] * 4,
    "bytes_per_s_stderr": [1.0] * 4,
    "records_per_s": [1e3] * 4,
    "records_per_s_stderr": [1.0] * 4,
    "samples": [6] * 4,
    "samples_expected": 6,
    "confidence": ["measured"] * 4,
    "reason": [None] * 4,
}
SPEC: Final = {
    "mode": "enforce",
    "capacity": [{"match": "a", "units": 1.0}],
    "moved_load_share_per_hour_max": 1.0,
}
CONFIG: Final = {"v": 1, "ms": START_MS, "author": "me", "reason": "level", "spec": SPEC}


def _fold(state: State, topic: str, key: str, value: Mapping[str, Any]) -> None:
    step(state, Record(START_MS, topic, key, json.dumps(value).encode(), 1))


def _tick(state: State) -> None:
    """Let a second pass, and feed what is written to the control topic back."""
    for offset, command in enumerate(step(state, Tick(max(state.now_ms, START_MS) + 1_000))):
        if isinstance(command, Write) and command.topic == wire.TARGETS:
            value = wire.encode(command.value)
            step(state, Record(state.now_ms, wire.TARGETS, command.key, value, offset))


def test_plan_follows_its_schema(states: Iterator[State]) -> None:
    """What /plan shows of a group, at every stage of its life, is valid by the published schema."""
    Draft202012Validator.check_schema(SCHEMA)
    validator = Draft202012Validator(SCHEMA)
    for state in states:
        shown = json.loads(json.dumps(view(state), default=list))
        assert [error.message for error in validator.iter_errors(shown)] == []


def test_plan_shows_nothing_that_the_schema_leaves_out(states: Iterator[State]) -> None:
    """Every field of /plan is described, so that nobody relies on one that is not."""
    for state in states:
        _described(json.loads(json.dumps(view(state), default=list)), SCHEMA)


def _described(value: Any, schema: Mapping[str, Any]) -> None:
    """Walk down a document and its schema together."""
    while "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if isinstance(value, dict):
        fields, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, part in value.items() if fields or others else ():
            assert name in fields or others is not None, name
            _described(part, fields.get(name, others or {}))
    elif isinstance(value, list) and "items" in schema:
        for part in value:
            _described(part, schema["items"])
