"""From a coordinator's description of a group to a `plimsoll.membership` record. Pure.

Not here: Streams applications whose assignor is Kafka's own "stream" protocol. What their tasks,
stores and lags look like is known only inside the application; Plimsoll's plugin there publishes
the record itself, under the same key, and the collector must not overwrite it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from agent import wire

OWN_GROUPS: Final = re.compile(r"plimsoll-.*")
"""Groups of the agent's own ingestion."""

STREAMS_ASSIGNOR: Final = "stream"


@dataclass(frozen=True, slots=True)
class Group:
    """A group as its coordinator describes it, in either protocol, names as Kafka's."""

    name: str
    protocol: Literal["classic", "consumer"]
    protocol_type: str
    assignor: str
    state: str
    members: tuple[wire.Member, ...]
    generation: int | UnsetType = UNSET
    """Known for consumer-protocol groups only: their group epoch."""

    def wanted(self, include: re.Pattern[str]) -> bool:
        """Say whether the collector speaks for this group."""
        return (
            self.protocol_type == "consumer"
            and self.assignor != STREAMS_ASSIGNOR
            and not OWN_GROUPS.fullmatch(self.name)
            and include.fullmatch(self.name) is not None
        )

    @property
    def topics(self) -> set[str]:
        """All topics subscribed or owned."""
        return {topic for m in self.members for topic in (*m.topics, *m.owned)}


def classic_group(name: str, described: Mapping[str, Any]) -> Group:
    """Read kafka-python's description of a classic group."""
    return Group(
        name=name,
        protocol="classic",
        protocol_type=described["protocol_type"],
        assignor=described["protocol_data"],
        state=described["group_state"],
        members=_sorted(_classic_member(member) for member in described["members"]),
    )


def consumer_group(described: Mapping[str, Any]) -> Group:
    """Read the coordinator's description of a group of the consumer protocol (KIP-848)."""
    return Group(
        name=described["group_id"],
        protocol="consumer",
        protocol_type="consumer",
        assignor=described["assignor_name"],
        state=described["group_state"],
        members=_sorted(_consumer_member(member) for member in described["members"]),
        generation=described["group_epoch"],
    )


def snapshot(group: Group, shapes: Mapping[str, wire.TopicShape], ms: int) -> wire.Membership:
    """Give the group's record; topics that the cluster does not know are left out of `topics`."""
    return wire.Membership(
        ms=ms,
        group=group.name,
        kind="consumer",
        protocol=group.protocol,
        assignor=group.assignor,
        state=group.state,
        generation=group.generation,
        members=list(group.members),
        topics={topic: shapes[topic] for topic in sorted(group.topics) if topic in shapes},
    )


def same(one: wire.Membership, other: wire.Membership) -> bool:
    """Say whether two snapshots differ in their time only."""
    return wire.encode(_at(one, 0)) == wire.encode(_at(other, 0))


def member(
    *,
    member_id: str,
    client_id: str,
    instance_id: str | None,
    host: str,
    rack: str | None,
    topics: Iterable[str],
    owned: Mapping[str, Iterable[int]],
) -> wire.Member:
    """Give a member with its stable id: the instance id, else the client id."""
    return wire.Member(
        stable_id=instance_id or client_id,
        member_id=member_id,
        client_id=client_id,
        instance_id=instance_id,
        host=host,
        rack=rack,
        topics=sorted(topics),
        owned={topic: sorted(owned[topic]) for topic in sorted(owned) if owned[topic]},
    )


def _classic_member(described: Mapping[str, Any]) -> wire.Member:
    """Read one classic member; while a group rebalances it has neither subscription nor share."""
    subscription = described["member_metadata"]
    assignment = described["member_assignment"]
    subscription = subscription if isinstance(subscription, dict) else {}
    assignment = assignment if isinstance(assignment, dict) else {}
    return member(
        member_id=described["member_id"],
        client_id=described["client_id"],
        instance_id=described.get("group_instance_id"),
        host=described["client_host"].lstrip("/"),
        rack=subscription.get("rack_id"),
        topics=subscription.get("topics", []),
        owned={
            part["topic"]: part["partitions"] for part in assignment.get("assigned_partitions", [])
        },
    )


def _consumer_member(described: Mapping[str, Any]) -> wire.Member:
    """Read one member; one that subscribes by pattern names the topics it was given."""
    parts = {
        kind: described[kind]["topic_partitions"] for kind in ("assignment", "target_assignment")
    }
    given = [part["topic_name"] for kind in parts.values() for part in kind]
    return member(
        member_id=described["member_id"],
        client_id=described["client_id"],
        instance_id=described["instance_id"],
        host=described["client_host"].lstrip("/"),
        rack=described["rack_id"] or None,
        topics={*described["subscribed_topic_names"], *given},
        owned={part["topic_name"]: part["partitions"] for part in parts["assignment"]},
    )


def _sorted(members: Iterable[wire.Member]) -> tuple[wire.Member, ...]:
    seen = (m for m in members if m.client_id != wire.NUDGE_CLIENT_ID)
    return tuple(sorted(seen, key=lambda m: (m.stable_id, m.member_id)))


def _at(record: wire.Membership, ms: int) -> wire.Membership:
    return replace(record, ms=ms)
