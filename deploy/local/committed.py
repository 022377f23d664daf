"""The committed records of a topic, read without a group and up to its end."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

PARTITION_EOF: Final = KafkaError._PARTITION_EOF  # noqa: SLF001 -- its public code
REFRESH_S: Final = 20.0
"""How long one reading may take."""


@dataclass(frozen=True, slots=True)
class Record:
    """A committed record of any topic."""

    ms: int
    """Its timestamp."""
    key: str
    value: bytes | None

    def json(self) -> Any:
        """Give the value of a record that holds JSON; None for a tombstone."""
        return json.loads(self.value or b"null")


class CommittedTopic:
    """Reads a topic from its beginning, committed records only, in the order of each partition."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.records: list[Record] = []
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": f"witness-of-{topic}",  # required by the library, never joined
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "log_level": 3,
            }
        )
        described = self._consumer.list_topics(topic, timeout=REFRESH_S).topics[topic]
        self._reached = dict.fromkeys(described.partitions, 0)
        self._consumer.assign([TopicPartition(topic, p, 0) for p in self._reached])

    def close(self) -> None:
        """Leave the brokers."""
        self._consumer.close()

    def refresh(self) -> Sequence[Record]:
        """Take in all that stands on the topic by now; return all records so far.

        Raises:
            TimeoutError: the end was not reached in time; what was read until then is kept.
        """
        deadline = time.monotonic() + REFRESH_S
        ends = {p: self._end(p) for p in self._reached}
        while any(self._reached[p] < end for p, end in ends.items()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._topic}: read to {self._reached}, not to {ends}")
            for message in self._consumer.consume(1000, timeout=0.05):
                place, offset, error = message.partition(), message.offset(), message.error()
                if place is None or offset is None:
                    continue
                if error is None:
                    key = (message.key() or b"").decode(errors="replace")
                    self.records.append(Record(message.timestamp()[1], key, message.value()))
                    self._reached[place] = offset + 1
                elif error.code() == PARTITION_EOF:
                    # Past what no record shows: the marks of transactions.
                    self._reached[place] = offset
        return self.records

    def _end(self, partition: int) -> int:
        """Give the offset before which everything is committed."""
        place = TopicPartition(self._topic, partition)
        return int(self._consumer.get_watermark_offsets(place, timeout=REFRESH_S)[1])
