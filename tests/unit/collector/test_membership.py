"""Group descriptions become snapshots."""

import re
from typing import Any

from agent import wire
from agent.collector.membership import classic_group, consumer_group, same, snapshot
from agent.collector.topology import PartitionPlace, Topology

ALL = re.compile(".*")


def classic_member(client: str, instance: str | None = None, **more: Any) -> dict[str, Any]:
    """Give a member as kafka-python describes it."""
    return {
        "member_id": f"{client}-uuid",
        "group_instance_id": instance,
        "client_id": client,
        "client_host": "/10.0.0.1",
        "member_metadata": {"topics": ["orders"], "user_data": "", "rack_id": "r1"},
        "member_assignment": {
            "assigned_partitions": [{"topic": "orders", "partitions": [3, 0]}],
            "user_data": "",
        },
        **more,
    }


def classic(*members: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Give a classic group as kafka-python describes it."""
    return {
        "protocol_type": "consumer",
        "protocol_data": "plimsoll",
        "group_state": "Stable",
        "members": list(members),
        **more,
    }


def test_members_carry_stable_id_rack_and_share() -> None:
    """The stable id is the instance id, else the client id; rack and owned come from the bytes."""
    group = classic_group("g", classic(classic_member("c2", "static-2"), classic_member("c1")))
    assert [(m.stable_id, m.rack, m.owned) for m in group.members] == [
        ("c1", "r1", {"orders": [0, 3]}),
        ("static-2", "r1", {"orders": [0, 3]}),
    ]


def test_the_nudge_is_no_member() -> None:
    """The agent's transient member is left out."""
    group = classic_group("g", classic(classic_member("c1"), classic_member(wire.NUDGE_CLIENT_ID)))
    assert [m.client_id for m in group.members] == ["c1"]


def test_whom_the_collector_speaks_for() -> None:
    """Not for its own groups, Connect clusters, or Streams applications on the classic protocol."""
    member = classic_member("c1")
    assert classic_group("g", classic(member)).wanted(ALL)
    assert not classic_group("g", classic(member)).wanted(re.compile("orders-.*"))
    assert not classic_group("plimsoll-agent-1", classic(member)).wanted(ALL)
    assert not classic_group("g", classic(member, protocol_data="stream")).wanted(ALL)
    assert not classic_group("g", classic(member, protocol_type="connect")).wanted(ALL)


def test_a_group_in_rebalance_has_members_without_shares() -> None:
    """While a group rebalances its coordinator tells no subscription; that is no error."""
    group = classic_group(
        "g",
        classic(
            classic_member("c1", member_metadata=b"", member_assignment=b""),
            group_state="PreparingRebalance",
        ),
    )
    assert (group.state, group.members[0].topics, group.members[0].owned) == (
        "PreparingRebalance",
        [],
        {},
    )


def test_a_consumer_protocol_group_is_read() -> None:
    """A KIP-848 group has its epoch as generation, and topics of a pattern from its target."""
    parts = [{"topic_name": "orders", "partitions": [1]}]
    group = consumer_group(
        {
            "group_id": "g",
            "group_state": "Reconciling",
            "group_epoch": 9,
            "assignor_name": "uniform",
            "members": [
                {
                    "member_id": "m",
                    "instance_id": None,
                    "rack_id": "r2",
                    "client_id": "c1",
                    "client_host": "/10.0.0.1",
                    "subscribed_topic_names": [],
                    "assignment": {"topic_partitions": parts},
                    "target_assignment": {
                        "topic_partitions": [*parts, {"topic_name": "clicks", "partitions": [0]}]
                    },
                }
            ],
        }
    )
    record = snapshot(group, {}, 5)
    assert (record.protocol, record.generation, record.members[0].rack) == ("consumer", 9, "r2")
    assert record.members[0].topics == ["clicks", "orders"]
    assert record.members[0].owned == {"orders": [1]}


def test_snapshots_differ_only_by_what_matters() -> None:
    """Two snapshots are the same when only their time differs."""
    group = classic_group("g", classic(classic_member("c1")))
    one, later = snapshot(group, {}, 1), snapshot(group, {}, 2)
    fewer = snapshot(classic_group("g", classic()), {}, 2)
    assert same(one, later)
    assert not same(one, fewer)


def test_shapes_give_racks_and_leaders() -> None:
    """A topic's shape has racks of replicas and the leader of each partition; none is empty."""
    topology = Topology(
        {1: "r1", 2: "r2", 3: None},
        [
            PartitionPlace("orders", 1, None, -1, 0, (3,)),
            PartitionPlace("orders", 0, None, 2, 0, (2, 1)),
        ],
    )
    assert topology.shapes() == {
        "orders": wire.TopicShape(partitions=2, racks=[["r1", "r2"], []], leader=["2", ""])
    }
