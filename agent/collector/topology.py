"""Brokers with racks, topics with ids, leaders and replicas, as the cluster describes itself."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent import wire

if TYPE_CHECKING:
    from kafka import KafkaAdminClient


@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """Where a partition lives; `leader` is -1 while there is none."""

    topic: str
    partition: int
    topic_id: str | None
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topology:
    """One description of the cluster."""

    racks: dict[int, str | None]
    places: list[PartitionPlace]

    def shapes(self) -> dict[str, wire.TopicShape]:
        """Give each topic's partitions with the racks that hold them and their leaders."""
        by_topic: dict[str, list[PartitionPlace]] = {}
        for place in self.places:
            by_topic.setdefault(place.topic, []).append(place)
        return {topic: self._shape(places) for topic, places in sorted(by_topic.items())}

    def _shape(self, places: list[PartitionPlace]) -> wire.TopicShape:
        count = max(place.partition for place in places) + 1
        racks: list[list[str]] = [[] for _ in range(count)]
        leader = [""] * count
        for place in places:
            known = {self.racks.get(broker) for broker in place.replicas} - {None}
            racks[place.partition] = sorted(rack for rack in known if rack)
            leader[place.partition] = str(place.leader) if place.leader >= 0 else ""
        return wire.TopicShape(partitions=count, racks=racks, leader=leader)


def describe(
    admin: "KafkaAdminClient",
    topics: Iterable[str] | None = None,
    accept: Callable[[str], bool] = lambda _: True,
) -> Topology:
    """Ask for the brokers and for some or all topics; unknown topics are left out."""
    cluster = admin.describe_cluster()
    racks = {broker["broker_id"]: broker["rack"] or None for broker in cluster["brokers"]}
    places = []
    for topic in admin.describe_topics(None if topics is None else sorted(topics)):
        if topic["error_code"] or not accept(topic["name"]):
            continue
        topic_id = str(topic["topic_id"]) if topic.get("topic_id") else None
        places += [
            PartitionPlace(
                topic["name"],
                part["partition_index"],
                topic_id,
                part["leader_id"],
                part.get("leader_epoch", -1),
                tuple(part["replica_nodes"]),
            )
            for part in topic["partitions"]
        ]
    return Topology(racks, places)
