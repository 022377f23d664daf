"""Watches groups and keeps `plimsoll.membership` up to date.

A snapshot is written when a group changed, and every `repeat_s` all the same so that its age says
something. A group that its coordinators no longer list is taken off the topic by a tombstone, but
only when every broker answered: a broker that is away takes no group with it.
"""

import re
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.protocol.api_message import ApiMessage

from agent import wire
from agent.clients import Cluster
from agent.collector.bounds import CLIENT_ID, REQUEST_TIMEOUT_S
from agent.collector.clock import SteadyClock, ticks
from agent.collector.membership import (
    OWN_GROUPS,
    Group,
    classic_group,
    consumer_group,
    same,
    snapshot,
)
from agent.collector.topology import Topology, describe
from agent.errors import TheirFault

TOPOLOGY_AGE_MS_MAX: Final = 5_000
"""Leaders and racks in a snapshot may be this old; a new topic is looked up at once."""

READ_TIMEOUT_S: Final = 10.0
SCHEMAS: Final = "agent.collector.schemas"


class ConsumerGroupDescribeRequest(ApiMessage, load_json=SCHEMAS):  # type: ignore[call-arg,misc]  # untyped
    """Kafka's API 69, which kafka-python does not have."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=SCHEMAS):  # type: ignore[call-arg,misc]  # untyped
    """Its answer; with racks and subscriptions, which confluent-kafka's description lacks."""


class GroupWatcher:
    """Polls group descriptions until stopped."""

    def __init__(
        self,
        admin: Callable[[], KafkaAdminClient],
        publish: Callable[[str, str, bytes | None], None],
        include: re.Pattern[str],
        clock: SteadyClock,
        repeat_s: float,
    ) -> None:
        self._admin = admin
        self._publish = publish
        self._include = include
        self._clock = clock
        self._repeat_ms = round(repeat_s * 1000)
        self._said: dict[str, wire.Membership] = {}
        self._known: set[str] = set()
        self._topology = Topology({}, [])
        self._shapes: dict[str, wire.TopicShape] = {}
        self._topology_ms = 0
        self.failures = 0
        self.groups = 0

    def run(self, poll_s: float, known: Iterable[str], stop: threading.Event) -> None:
        """Poll until `stop`; `known` are the groups that the topic holds already."""
        self._known |= set(known)
        for _missed in ticks(poll_s, stop):
            try:
                self.poll()
            except (KafkaError, OSError):
                self.failures += 1

    def poll(self) -> None:
        """Describe all groups once and publish what changed."""
        admin = self._admin()
        found, complete = self._describe(admin)
        wanted = {group.name: group for group in found if group.wanted(self._include)}
        # While it rebalances a group has no assignor to tell a Streams application by: only groups
        # that were seen to be none are then spoken of.
        spoken_of = self._said.keys() | self._known
        shown = {
            name: group
            for name, group in wanted.items()
            if name in spoken_of or (group.members and group.assignor)
        }
        self._refresh(admin, {topic for group in shown.values() for topic in group.topics})
        now_ms = self._clock.now_ms()
        for group in shown.values():
            self._say(snapshot(group, self._shapes, now_ms))
        self.groups = len(shown)
        if complete:
            listed = {group.name for group in found}
            for name in sorted((self._known | self._said.keys()) - listed):
                self._publish(wire.MEMBERSHIP, name, None)
                self._said.pop(name, None)
                self._known.discard(name)

    def _say(self, record: wire.Membership) -> None:
        """Publish a snapshot that is new or due for repetition."""
        last = self._said.get(record.group)
        if last is not None and same(last, record) and record.ms - last.ms < self._repeat_ms:
            return
        self._said[record.group] = record
        self._publish(wire.MEMBERSHIP, record.group, wire.encode(record))

    def _describe(self, admin: KafkaAdminClient) -> tuple[list[Group], bool]:
        """Return the groups of every broker that answers, and whether all did."""
        groups: list[Group] = []
        complete = True
        for broker in admin.describe_cluster()["brokers"]:
            try:
                groups += _groups_of(admin, broker["broker_id"])
            except (KafkaError, OSError):
                complete = False
                self.failures += 1
        return groups, complete

    def _refresh(self, admin: KafkaAdminClient, topics: set[str]) -> None:
        """Look leaders and racks up again when they are old or a topic is new."""
        now_ms = self._clock.now_ms()
        fresh = now_ms - self._topology_ms < TOPOLOGY_AGE_MS_MAX
        if topics and not (fresh and topics <= self._shapes.keys()):
            self._shapes = describe(admin, topics).shapes()
            self._topology_ms = now_ms


def _groups_of(admin: KafkaAdminClient, broker: int) -> list[Group]:
    """Describe the groups that one broker coordinates."""
    listed = admin.list_groups(broker_ids=[broker])
    by_type: dict[str, list[str]] = {}
    for group in listed:
        if OWN_GROUPS.fullmatch(group["group_id"]):
            continue
        by_type.setdefault(group.get("group_type", "classic").lower(), []).append(group["group_id"])
    found = []
    if by_type.get("classic"):
        described = admin.describe_groups(by_type["classic"], group_coordinator_id=broker)
        found += [
            classic_group(name, group) for name, group in described.items() if not group["error"]
        ]
    if by_type.get("consumer"):
        request = ConsumerGroupDescribeRequest(
            group_ids=by_type["consumer"], include_authorized_operations=False
        )
        # kafka-python has no public way to send a request that it does not know.
        manager = admin._manager  # noqa: SLF001
        answer = manager.run(_send, manager, request, broker).to_dict()
        found += [consumer_group(group) for group in answer["groups"] if not group["error_code"]]
    return found


async def _send(manager: Any, request: ApiMessage, broker: int) -> Any:
    return await manager.send(request, node_id=broker)


def known_groups(cluster: Cluster) -> set[str]:
    """Read which groups of kind consumer the membership topic holds; none when it cannot be read.

    A group deleted while no collector ran is then still taken off the topic.
    """
    consumer = Consumer(cluster.confluent(group_id=CLIENT_ID, enable_auto_commit=False))
    held: set[str] = set()
    try:
        topic = consumer.list_topics(wire.MEMBERSHIP, timeout=REQUEST_TIMEOUT_S)
        for partition in topic.topics[wire.MEMBERSHIP].partitions:
            place = TopicPartition(wire.MEMBERSHIP, partition, 0)
            low, high = consumer.get_watermark_offsets(place, timeout=REQUEST_TIMEOUT_S)
            if low < high:
                consumer.assign([TopicPartition(wire.MEMBERSHIP, partition, low)])
                _read_until(consumer, place, high, held)
    except KafkaException:
        return held
    finally:
        consumer.close()
    return held


def _read_until(consumer: Consumer, place: TopicPartition, high: int, held: set[str]) -> None:
    clock_s = 0.0
    while clock_s < READ_TIMEOUT_S:
        message = consumer.poll(0.2)
        if message is None:
            clock_s += 0.2
        elif message.error() is None:
            key = (message.key() or b"").decode(errors="replace")
            if _is_consumer_group(message.value()):
                held.add(key)
            else:
                held.discard(key)
        position = consumer.position([place])[0].offset
        if position >= high:
            return


def _is_consumer_group(value: bytes | None) -> bool:
    try:
        return value is not None and wire.decode(wire.Membership, value).kind == "consumer"
    except (TheirFault, msgspec.MsgspecError):
        return False
