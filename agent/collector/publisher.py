"""Writes records to Plimsoll's topics and counts what did not arrive."""

from collections import Counter
from typing import Any, Final

from confluent_kafka import Producer

from agent.clients import Cluster
from agent.collector.bounds import CLIENT_ID

FLUSH_TIMEOUT_S: Final = 10.0
MESSAGE_TIMEOUT_MS: Final = 30_000
"""A sample older than this is of no use to anybody: dropped and counted."""


class Publisher:
    """A producer that never blocks sampling and never raises for a broker that is away."""

    def __init__(self, cluster: Cluster) -> None:
        self._producer = Producer(
            cluster.confluent(
                client_id=CLIENT_ID,
                acks="all",
                enable_idempotence=True,
                linger_ms=5,
                compression_type="lz4",
                message_timeout_ms=MESSAGE_TIMEOUT_MS,
            )
        )
        self.delivered: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()

    def publish(self, topic: str, key: str, value: bytes | None) -> None:
        """Hand one record over; None is a tombstone."""

        def report(error: Any, _message: Any) -> None:
            (self.lost if error else self.delivered)[topic] += 1

        try:
            self._producer.produce(topic, key=key, value=value, on_delivery=report)
        except BufferError:
            self.lost[topic] += 1
        self._producer.poll(0)

    def close(self) -> None:
        """Wait for what is under way."""
        self._producer.flush(FLUSH_TIMEOUT_S)
