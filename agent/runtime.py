"""The shell around the core: takes events one by one, steps, carries out what is owed in order.

One queue, one pump. Faust's agents and its timer put events in; the pump steps the core in a worker
thread (a large plan must not stall heartbeats), commits all writes of a step in one transaction,
and steps the control-topic records that these became before the next event. Nudges run beside the
pump. The process ends on SIGTERM (0), when fenced by a newer agent (3), and on any other fault (1);
it is always restarted clean and never repaired in place.
"""

import asyncio
import gc
import os
import signal
import socket
import time
from dataclasses import dataclass
from typing import Final

import structlog
from msgspec import UNSET

from agent import limits, topics, wire
from agent.clients import Cluster
from agent.core.events import Command, Event, Nudge, Quarantine, Record, Tick, Write
from agent.core.state import State
from agent.core.step import step
from agent.core.view import view
from agent.http import Door, serve
from agent.ingest import Ingest, now_ms
from agent.nudge import nudge
from agent.publish import Fenced, Publisher
from agent.telemetry import Metrics

EXIT_OK: Final = 0
EXIT_FAULT: Final = 1
EXIT_FENCED: Final = 3
WATCH_S: Final = 1.0

log = structlog.get_logger("plimsoll.agent")


@dataclass(frozen=True, slots=True)
class Options:
    """How one agent runs."""

    cluster: Cluster
    http_host: str
    http_port: int


class Agent:
    """One agent, from takeover to drain."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._id = f"{socket.gethostname()}-{os.getpid()}-{now_ms():x}"
        self._state = State()
        self._metrics = Metrics()
        self._door = Door(self._metrics)
        self._queue: asyncio.Queue[Event] = asyncio.Queue(limits.INGEST_QUEUE_MAX)
        self._ingest = Ingest(options.cluster, self._id, self._queue.put)
        self._nudges: dict[str, asyncio.Task[None]] = {}
        self._publisher: Publisher

    async def run(self) -> int:
        """Run until told to stop; gives the exit code."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        problems = await asyncio.to_thread(topics.check, self._options.cluster)
        if problems:
            for problem in problems:
                log.error("topic", problem=problem)
            return EXIT_FAULT
        runner, port = await serve(self._door, self._options.http_host, self._options.http_port)
        log.info("listening", host=self._options.http_host, port=port)
        try:
            return await self._run_until(stop)
        except Fenced as error:
            log.warning("fenced", detail=str(error))
            return EXIT_FENCED
        finally:
            await runner.cleanup()

    async def _run_until(self, stop: asyncio.Event) -> int:
        self._publisher = await asyncio.to_thread(Publisher, self._options.cluster)
        for record in await asyncio.to_thread(self._publisher.take_over, self._id, now_ms()):
            await self._step(record)
        log.info("claimed", agent=self._id, epoch=self._state.epoch)
        # What is there by now stays: a full collection in the middle of a step costs some 30 ms.
        gc.collect()
        gc.freeze()
        pump = asyncio.create_task(self._pump())
        stopped = asyncio.create_task(stop.wait())
        watch = asyncio.create_task(self._watch())
        try:
            await self._ingest.start()
            await asyncio.wait({pump, stopped, watch}, return_when=asyncio.FIRST_COMPLETED)
            if pump.done():
                pump.result()
            if watch.done():
                watch.result()
            log.info("draining", queued=self._queue.qsize())
        finally:
            await self._ingest.stop()
            pump.cancel()
            watch.cancel()
            stopped.cancel()
            # A nudge that is inside a group leaves it before the agent goes.
            await asyncio.gather(*self._nudges.values(), return_exceptions=True)
        log.info("stopped")
        return EXIT_OK

    async def _watch(self) -> None:
        """Raise what Faust keeps to itself."""
        while True:
            await asyncio.sleep(WATCH_S)
            crash = self._ingest.crash()
            if crash is not None:
                raise RuntimeError("ingestion died") from crash

    async def _pump(self) -> None:
        while True:
            event = await self._queue.get()
            commands, step_s = await self._step(event)
            await self._carry_out(commands, step_s)
            if isinstance(event, Tick):
                self._door.ticked_s = time.monotonic()
                self._door.view = view(self._state)
                self._metrics.show(self._door.view)

    async def _step(self, event: Event) -> tuple[list[Command], float]:
        commands, step_s = await asyncio.to_thread(_timed_step, self._state, event)
        kind = event.topic if isinstance(event, Record) else "tick"
        self._metrics.step_seconds.labels(kind).observe(step_s)
        if isinstance(event, Record):
            self._metrics.records.labels(event.topic).inc()
        return commands, step_s

    async def _carry_out(self, commands: list[Command], step_s: float) -> None:
        writes = [command for command in commands if isinstance(command, Write)]
        if writes:
            became = await asyncio.to_thread(self._publisher.commit, writes, now_ms())
            for record in became:
                await self._step(record)
        for command in commands:
            if isinstance(command, Write):
                self._tell(command, step_s)
            elif isinstance(command, Quarantine):
                self._metrics.quarantined.labels(command.topic).inc()
                log.warning(
                    "quarantine",
                    topic=command.topic,
                    offset=command.offset,
                    key=command.key,
                    path=command.path,
                    message=command.message,
                )
            else:
                self._nudge(command)

    def _tell(self, write: Write, step_s: float) -> None:
        value = write.value
        if isinstance(value, wire.Decision):
            self._metrics.decisions.labels(value.group, value.verdict, value.reason).inc()
            told = {"group": value.group, "verdict": value.verdict, "reason": value.reason}
            detail = None if value.detail is UNSET else value.detail
            log.info(
                "decision",
                **told,
                detail=detail,
                plan_id=value.plan_id,
                revision=value.revision,
                step_ms=round(step_s * 1e3, 1),
            )
            if value.verdict == "publish" and value.certificate is not None:
                self._metrics.moves.labels(value.group).inc(value.certificate["moves"])
        elif isinstance(value, wire.ConfigStatus):
            error = None if value.error is None else value.error.message
            if not value.accepted:
                self._metrics.config_rejected.inc()
            log.info("config", key=write.key, accepted=value.accepted, error=error)

    def _nudge(self, command: Nudge) -> None:
        running = self._nudges.get(command.group)
        if running is None or running.done():
            self._nudges[command.group] = asyncio.create_task(self._nudge_now(command))

    async def _nudge_now(self, command: Nudge) -> None:
        began = time.perf_counter()
        done = await nudge(self._options.cluster, command)
        self._metrics.nudges.labels(command.group, done.outcome).inc()
        log.info(
            "nudge",
            group=command.group,
            revision=command.revision,
            attempt=command.attempt,
            outcome=done.outcome,
            detail=done.detail,
            ms=round((time.perf_counter() - began) * 1e3),
        )


def _timed_step(state: State, event: Event) -> tuple[list[Command], float]:
    """Give what is owed and how long that took, in seconds: without the way into the thread."""
    began = time.perf_counter()
    commands = step(state, event)
    return commands, time.perf_counter() - began


def run(options: Options) -> int:
    """Run one agent in this process; gives the exit code."""
    return asyncio.run(Agent(options).run())
