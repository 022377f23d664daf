"""The only writer: transactional, fenced by a fixed `transactional.id`.

Takeover is fence, read the control topic to its end, then claim and republish every group's last
target in one transaction. Every later write goes through the same producer, so an agent that was
replaced can write nothing more: the broker refuses, `Fenced` is raised, the process ends and is
restarted clean. An empty transaction of a fenced producer would commit without error; there is
none here, because `commit` is called with records only.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from msgspec import structs

from agent import wire
from agent.clients import Cluster
from agent.core.events import Record, Write
from agent.core.state import State
from agent.core.step import step

TRANSACTIONAL_ID: Final = "plimsoll"
TIMEOUT_S: Final = 30.0


class Fenced(Exception):  # noqa: N818 -- an event of the protocol, not an error of ours
    """A newer agent has taken over; this one must end."""


class Publisher:
    """Blocking; the runtime calls it from a worker thread, one call at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._producer = Producer(
            cluster.confluent(
                transactional_id=TRANSACTIONAL_ID,
                transaction_timeout_ms=60_000,
                linger_ms=0,
                client_id="plimsoll-agent",
            )
        )

    def take_over(self, agent: str, now_ms: int) -> list[Record]:
        """Fence, read to the end, claim and republish; gives the control topic's records."""
        self._producer.init_transactions(TIMEOUT_S)
        records = self._read_targets(now_ms)
        claim = wire.Claim(ms=now_ms, agent=agent, topic_id=self._topic_id())
        self._begin()
        claimed = wire.encode(claim)
        (epoch,) = self._send([(wire.TARGETS, wire.CLAIM_KEY, claimed)])
        again = [(wire.TARGETS, key, value) for key, value in _republished(records, epoch)]
        offsets = self._send(again)
        self._end()
        written = [(wire.TARGETS, wire.CLAIM_KEY, claimed), *again]
        return records + [
            Record(now_ms, topic, key, value, offset)
            for (topic, key, value), offset in zip(written, [epoch, *offsets], strict=True)
        ]

    def commit(self, writes: Sequence[Write], now_ms: int) -> list[Record]:
        """Write records in one transaction; gives back those on the control topic."""
        self._begin()
        records = [(write.topic, write.key, wire.encode(write.value)) for write in writes]
        offsets = self._send(records)
        self._end()
        return [
            Record(now_ms, topic, key, value, offset)
            for (topic, key, value), offset in zip(records, offsets, strict=True)
            if topic == wire.TARGETS
        ]

    def _begin(self) -> None:
        self._guarded(self._producer.begin_transaction)

    def _end(self) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                self._guarded(self._producer.commit_transaction, TIMEOUT_S)
            except KafkaException as error:
                # The broker died on the way: the outcome is unknown until the call is repeated.
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
            else:
                return

    def _send(self, records: Sequence[tuple[str, str, bytes]]) -> list[int]:
        """Produce (topic, key, value)s and wait for their offsets."""
        offsets: dict[int, int] = {}
        errors: list[KafkaError] = []

        def note(index: int, error: KafkaError | None, message: Message) -> None:
            if error is not None:
                errors.append(error)
            else:
                offsets[index] = message.offset() or 0

        for index, (topic, key, value) in enumerate(records):
            self._guarded(
                self._producer.produce, topic, value, key, on_delivery=partial(note, index)
            )
        try:
            self._producer.flush(TIMEOUT_S)
        except (KafkaException, SystemError):
            # A fatal error leaves flush garbled (as SystemError, when a delivery report ran under
            # it); the commit then says plainly what it is.
            self._guarded(self._producer.commit_transaction, TIMEOUT_S)
            raise
        if errors:
            self._raise(KafkaException(errors[0]))
        if len(offsets) < len(records):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 -- its public code
        return [offsets[index] for index in range(len(records))]

    def _guarded(self, call: Any, *args: Any, **kwargs: Any) -> None:
        try:
            call(*args, **kwargs)
        except KafkaException as error:
            self._raise(error)

    @staticmethod
    def _raise(error: KafkaException) -> None:
        code = error.args[0].code()
        if code in {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH}:  # noqa: SLF001
            raise Fenced(str(error)) from error
        raise error

    def _topic_id(self) -> str:
        admin = AdminClient(self._cluster.confluent())
        answer = admin.describe_topics(TopicCollection([wire.TARGETS]))
        return str(answer[wire.TARGETS].result(timeout=TIMEOUT_S).topic_id)

    def _read_targets(self, now_ms: int) -> list[Record]:
        """Read the control topic from its beginning to its end, committed records only."""
        consumer = Consumer(
            self._cluster.confluent(
                group_id="plimsoll-takeover",
                isolation_level="read_committed",
                enable_auto_commit=False,
                enable_partition_eof=True,
            )
        )
        records: list[Record] = []
        deadline = time.monotonic() + TIMEOUT_S
        try:
            consumer.assign([TopicPartition(wire.TARGETS, 0, OFFSET_BEGINNING)])
            while True:
                message = consumer.poll(1.0)
                if time.monotonic() > deadline:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
                if message is None:
                    continue
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                    return records
                if error is not None:
                    raise KafkaException(error)
                deadline = time.monotonic() + TIMEOUT_S
                records.append(
                    Record(
                        now_ms,
                        wire.TARGETS,
                        (message.key() or b"").decode(errors="replace"),
                        message.value(),
                        message.offset() or 0,
                    )
                )
        finally:
            consumer.close()


def _republished(records: Sequence[Record], epoch: int) -> list[tuple[str, bytes]]:
    """Give every group's last good target under the new epoch, content and revision unchanged."""
    read = State()
    for record in records:
        step(read, record)
    last = {name: group.target for name, group in read.groups.items()}
    return [
        (name, wire.encode(structs.replace(target, epoch=epoch)))
        for name, target in sorted(last.items())
        if target is not None
    ]
