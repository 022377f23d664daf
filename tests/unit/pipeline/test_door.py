"""The pipeline's door and state, without Spark."""

from typing import Any

import pandas as pd
import pytest
from msgspec import json

from agent import loads, wire
from agent.errors import TheirFault
from cost.rates import EMPTY, fold
from pipeline import door, state
from pipeline.frames import rows_of
from pipeline.job import kafka_options
from pipeline.settings import Settings

NOW_MS = 1_700_000_000_000
SETTINGS = Settings("", "", window_s=60, slide_s=10)
COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp_ms"]


def metrics(ms: int = NOW_MS, **more: Any) -> dict[str, Any]:
    """Give a metrics record of broker 1 as plain JSON."""
    index = (ms - NOW_MS) // 10_000
    topic = {
        "topic": "orders",
        "partition": [0, 1500],
        "end_offset": [100 * index, 10 * index],
        "log_size_bytes": [10_000 * index, 500 * index],
    }
    return {"v": 1, "ms": ms, "broker": "1", "chunk": 0, "chunks": 1, "topics": [topic], **more}


def enter(*records: tuple[bytes, bytes]) -> list[dict[str, Any]]:
    """Bring key and value pairs through the door."""
    frame = pd.DataFrame(
        [(key, value, "metrics", 2, 40 + i, NOW_MS) for i, (key, value) in enumerate(records)],
        columns=COLUMNS,
    )
    return list(rows_of(door.unpack(iter([frame]), chunk=1000, buckets=4)))


POISON = {
    "malformed": b'{"v":1,',
    "not-json": b"\xff\xfe\x00",
    "unknown-version": json.encode(metrics(v=2)),
    "nan": b'{"v":1,"ms":NaN}',
    "negative": json.encode(metrics()).replace(b'"log_size_bytes":[0', b'"log_size_bytes":[-5'),
    "beyond-64-bits": json.encode(metrics()).replace(
        b'"end_offset":[0', b'"end_offset":[%d' % 2**70
    ),
    "beyond-int": json.encode(metrics()).replace(b'"partition":[0', b'"partition":[%d' % 2**40),
    "another-broker": json.encode(metrics(broker="2")),
    "microseconds": json.encode(metrics(ms=NOW_MS * 1000)),
    "too-large": b'{"v":1,"x":"' + b"x" * 1_000_000 + b'"}',
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("kind", sorted(POISON))
def test_poison_is_set_aside_and_its_neighbours_pass(kind: str) -> None:
    """A refused record is quarantined with topic, partition and offset; the batch goes on."""
    good = json.encode(metrics())
    rows = enter((b"1", good), (b"1", POISON[kind]), (b"1", good))
    refused = [row for row in rows if row["kind"] == "quarantine"]
    assert len(refused) == 1
    assert (refused[0]["from_topic"], refused[0]["from_partition"]) == ("metrics", 2)
    assert refused[0]["from_offset"] == 41
    assert refused[0]["message"]
    assert len(refused[0]["head"]) <= door.HEAD_BYTES
    assert sum(row["kind"] == "samples" for row in rows) == 4


def test_chunks_of_one_topic_go_to_their_own_rows() -> None:
    """A row holds partitions of one chunk, and a chunk always goes to the same bucket."""
    rows = enter((b"1", json.encode(metrics())), (b"1", json.encode(metrics(ms=NOW_MS + 10_000))))
    assert [row["chunk"] for row in rows] == [0, 1, 0, 1]
    assert len({row["bucket"] for row in rows if row["chunk"] == 0}) == 1


def test_state_survives_being_saved() -> None:
    """A history read back from state is the history saved."""
    rows = enter(*((b"1", json.encode(metrics(NOW_MS + 10_000 * n))) for n in range(5)))
    history = fold(EMPTY, map(state.block_of, rows), SETTINGS.memory)
    again = state.load(state.save(history))
    assert again.topics == history.topics
    assert (again.rows == history.rows).all()
    assert state.load(state.save(EMPTY)).topics == ()


class Kept:
    """Spark's group state, as far as the pipeline uses it."""

    def __init__(self) -> None:
        self.value: Any = None

    @property
    def exists(self) -> bool:
        """Whether there is a value."""
        return self.value is not None

    @property
    def get(self) -> Any:
        """The value."""
        return self.value

    def update(self, value: Any) -> None:
        """Replace the value."""
        self.value = value


def test_the_stream_says_what_replay_says() -> None:
    """Loads of the bucket function equal those folded from the same wire records directly."""
    raw = [json.encode(metrics(NOW_MS + 10_000 * n)) for n in range(9)]
    kept: dict[int, Kept] = {}
    published = []
    for value in raw:
        for row in enter((b"1", value)):
            one = kept.setdefault(row["bucket"], Kept())
            out = state.fold_bucket((row["bucket"],), [pd.DataFrame([row])], one, SETTINGS)
            published += [r for r in rows_of(out) if r["kind"] == "loads"]
    history = EMPTY
    for value in raw:
        history = fold(history, loads.blocks(wire.decode(wire.BrokerMetrics, value)), loads.MEMORY)
    expected = dict(loads.records(history, NOW_MS + 80_000))
    newest = {row["key"]: row["value"] for row in published}
    assert newest == {key: wire.encode(record) for key, record in expected.items()}
    assert set(newest) == {"orders#0", "orders#1"}


def test_credentials_become_options_of_the_java_client() -> None:
    """User and password go into one JAAS line, and nowhere else."""
    options = kafka_options(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "u",
            "sasl.password": "p",
            "ssl.ca.location": "/ca.pem",
        }
    )
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.ssl.truststore.location"] == "/ca.pem"
    assert (
        'ScramLoginModule required username="u" password="p";'
        in (options["kafka.sasl.jaas.config"])
    )
    assert not any("username" in name or "password" in name for name in options)


def test_samples_of_refuses_with_a_path() -> None:
    """The refusal names the field."""
    with pytest.raises(TheirFault, match="broker"):
        door.samples_of(b"2", json.encode(metrics()), NOW_MS, 1000, 4)
