"""Faust as the ingestion shell: membership, loads and config become events for the core.

What it is held to (measured on Faust 0.15.3): concurrency 1, no tables, web off, topics neither
declared nor led, and a fresh application id per process start that replays from the earliest
record. Every instance so holds the whole stream; committed offsets mean nothing. A rejoin of
Faust's own group delivers records again, so whatever does not lie above the last offset folded is
dropped here. Nothing below reads a Faust offset to decide anything.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from tempfile import TemporaryDirectory
from typing import Any, Final

import faust
from faust.types import TP, AppT, StreamT

from agent import wire
from agent.clients import Cluster
from agent.core.events import Record, Tick

TOPICS: Final = (wire.MEMBERSHIP, wire.PARTITION_LOAD, wire.CONFIG)
TICK_S: Final = 1.0
START_S_MAX: Final = 60.0
"""Faust hangs silently when its assignment fails; after this long the agent gives up."""
QUIET_S: Final = 3.0

Deliver = Callable[[Record | Tick], Awaitable[None]]


def now_ms() -> int:
    """Give the wall clock in epoch milliseconds: the only clock that events carry."""
    return time.time_ns() // 1_000_000


class Ingest:
    """Feeds `deliver`; ticks begin once everything written before the start has been delivered."""

    def __init__(self, cluster: Cluster, agent_id: str, deliver: Deliver) -> None:
        self._deliver = deliver
        self._seen: dict[tuple[str, int], int] = {}
        self._heard_s = time.monotonic()
        self._folder = TemporaryDirectory(prefix="plimsoll-")  # Faust makes one, and uses it not
        self._app: Any = faust.App(
            f"plimsoll-{agent_id}",
            **cluster.faust(),
            store="memory://",
            datadir=self._folder.name,
            web_enabled=False,
            topic_allow_declare=False,
            topic_disable_leader=True,
            consumer_auto_offset_reset="earliest",
            broker_request_timeout=12,
            broker_session_timeout=10,
            broker_heartbeat_interval=2,
            broker_rebalance_timeout=15,
            stream_wait_empty=False,
        )
        for topic in TOPICS:
            self._add(topic)
        self.caught_up = False
        self._app.timer(interval=TICK_S)(self._tick)

    async def start(self) -> None:
        """Start and wait for the first assignment. Raises TimeoutError when there is none."""
        self._app.finalize()
        await asyncio.wait_for(self._app.start(), START_S_MAX)

    async def stop(self) -> None:
        """Stop reading."""
        await self._app.stop()
        self._folder.cleanup()

    def crash(self) -> BaseException | None:
        """Give why Faust died, if it did: an embedded app raises nothing by itself."""
        if not self._app.crashed:
            return None
        return self._app.crash_reason or RuntimeError("faust crashed")

    def _add(self, topic: str) -> None:
        channel = self._app.topic(topic, key_serializer="raw", value_serializer="raw")

        async def read(stream: StreamT[bytes]) -> None:
            async for event in stream.events():
                message = event.message
                at = (message.topic, message.partition)
                if message.offset <= self._seen.get(at, -1):
                    continue
                key = (message.key or b"").decode(errors="replace")
                await self._deliver(Record(now_ms(), topic, key, message.value, message.offset))
                self._seen[at] = message.offset
                self._heard_s = time.monotonic()

        self._app.agent(channel, name=f"read-{topic}", concurrency=1)(read)

    async def _tick(self, _app: AppT | None = None) -> None:
        if not self.caught_up:
            self.caught_up = await self._at_end()
        if self.caught_up:
            await self._deliver(Tick(now_ms()))

    async def _at_end(self) -> bool:
        """Tell whether every partition's records up to now have been folded."""
        consumer = self._app.consumer
        partitions: set[TP] = consumer.assignment()
        if {tp.topic for tp in partitions} != set(TOPICS):
            return False
        ends = await consumer.highwaters(*partitions)
        for tp in partitions:
            position = await consumer.position(tp)
            if position is None or position < (ends[tp] or 0):
                return False
        # A compacted topic may end in offsets that hold no record: then silence is the sign.
        folded = all(
            self._seen.get((tp.topic, tp.partition), -1) + 1 >= (ends[tp] or 0) for tp in partitions
        )
        return folded or time.monotonic() - self._heard_s > QUIET_S
