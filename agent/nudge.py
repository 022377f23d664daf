"""The nudge member: makes a stable group rebalance, so that its leader reads the new target.

It joins the group with an empty subscription, under the plugin's protocol name, tells epoch and
revision in its userData, takes part in one round and leaves; its departure and the members' own
rejoin after revoking are the second round. It never acts under another member's id, leaves a group
alone that is rebalancing anyway, and steps back at once if it is made leader. Whether members then
hold the target is not judged here: membership snapshots tell the core, which asks again if need be.

Built on aiokafka's client and protocol classes (docs/decisions/0004-nudge-member.md).
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from aiokafka.errors import KafkaError
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

from agent import wire
from agent.clients import Cluster
from agent.core.events import Nudge

SESSION_MS: Final = 10_000
ROUND_MS_MAX: Final = 60_000
"""Longest wait for one round, ms: members that do not rejoin meanwhile are removed."""
HEARTBEAT_S: Final = 0.1
STAY_S: Final = 0.5
"""How long the nudge stays after its round when nobody had anything to revoke."""

MEMBER_ID_REQUIRED: Final = 79
REBALANCE_IN_PROGRESS: Final = 27


@dataclass(frozen=True, slots=True)
class Nudged:
    """What became of a nudge: `done`, or `left-alone` / `failed` with the reason."""

    outcome: str
    detail: str = ""


async def nudge(cluster: Cluster, command: Nudge) -> Nudged:
    """Cause one rebalance of a stable group. Never raises: a nudge that failed is repeated.

    Each nudge has a connection of its own: a broker answers the requests of one connection in
    order, and a join waits for a whole round of its group.
    """
    client = AIOKafkaClient(
        **cluster.aiokafka(),
        client_id=wire.NUDGE_CLIENT_ID,
        request_timeout_ms=ROUND_MS_MAX + SESSION_MS,
    )
    try:
        await client.bootstrap()
        node = await client.coordinator_lookup(CoordinationType.GROUP, command.group)
        return await _Round(client, node, command).run()
    except (KafkaError, OSError, TimeoutError) as error:
        return Nudged("failed", f"{type(error).__name__}: {error}")
    finally:
        await client.close()


class _Round:
    def __init__(self, client: AIOKafkaClient, node: int, command: Nudge) -> None:
        self._client = client
        self._node = node
        self._command = command
        self._member_id = ""

    async def run(self) -> Nudged:
        state = await self._state()
        if state != "Stable":
            return Nudged("left-alone", f"group is {state}")
        try:
            return await self._take_part()
        finally:
            if self._member_id:
                await self._send(LeaveGroupRequest(self._command.group, self._member_id))

    async def _state(self) -> str:
        answer = await self._send(DescribeGroupsRequest([self._command.group]))
        return str(answer.groups[0][2])

    async def _take_part(self) -> Nudged:
        joined = await self._join()
        if joined.error_code == MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
            joined = await self._join()
        if joined.error_code:
            return Nudged("failed", f"JoinGroup error {joined.error_code}")
        self._member_id = joined.member_id
        if joined.leader_id == self._member_id:
            return Nudged("left-alone", "was made leader: the group has no other member")
        synced = await self._send(
            SyncGroupRequest(self._command.group, joined.generation_id, self._member_id, None, [])
        )
        if synced.error_code not in {0, REBALANCE_IN_PROGRESS}:
            return Nudged("failed", f"SyncGroup error {synced.error_code}")
        await self._stay(joined.generation_id)
        return Nudged("done", f"generation {joined.generation_id}")

    async def _join(self) -> Any:
        told = {
            "v": 1,
            "nudge": True,
            "epoch": self._command.epoch,
            "revision": self._command.revision,
        }
        subscription = ConsumerProtocolMemberMetadata(0, [], msgspec.json.encode(told)).encode()
        return await self._send(
            JoinGroupRequest(
                self._command.group,
                SESSION_MS,
                ROUND_MS_MAX,
                self._member_id,
                None,
                "consumer",
                [(self._command.assignor, subscription)],
            )
        )

    async def _stay(self, generation: int) -> None:
        """Wait until the next round begins, or long enough to see that none is needed."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + STAY_S
        while loop.time() < deadline:
            beat = await self._send(
                HeartbeatRequest(self._command.group, generation, self._member_id)
            )
            if beat.error_code:
                return
            await asyncio.sleep(HEARTBEAT_S)

    async def _send(self, request: Any) -> Any:
        return await self._client.send(self._node, request, group=ConnectionGroup.COORDINATION)
