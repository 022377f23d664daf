"""The core on recorded time: the records that the agent would have written, from recorded ones.

A group that is not observed any more between two membership lines is *modelled*: its members stay
as they are, take every target at once, and its snapshot stays fresh. `plimsoll.broker-metrics`
lines become loads by the functions that the pipeline uses. Decisions fall on tick lines; a
recording without any is decided once, at its end. The same input gives the same bytes.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec
from msgspec import structs

from agent import limits, loads, wire
from agent.core.events import Event, Quarantine, Record, Tick, Write
from agent.core.state import State
from agent.core.step import step
from agent.errors import TheirFault
from cost.rates import EMPTY, History
from cost.ticks import advance

SLIDE_MS: Final = 10_000
"""Grid of the estimates: the pipeline's default trigger."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a recording."""

    ms: int
    topic: str = ""
    key: str = ""
    value: Any = None
    offset: int | None = None
    tick: Literal[True] | None = None


class Replay:
    """Feed lines in order; each gives the records then written, and what was refused."""

    def __init__(self) -> None:
        self._state = State()
        self._history: History = EMPTY
        self._ends: Counter[str] = Counter()
        self._ticked = False

    def feed(self, line: object) -> Iterator[dict[str, Any] | Quarantine]:
        """Step one line. Raises TheirFault when it is not a line of a recording."""
        try:
            told = msgspec.convert(line, Line)
        except msgspec.ValidationError as error:
            raise wire.fault_of(error) from None
        if told.tick:
            self._ticked = True
            yield from self._tick(told.ms)
            return
        if not told.topic:
            raise TheirFault("topic", "a line has a topic or is a tick")
        value = None if told.value is None else wire.encode(told.value)
        if told.topic == wire.BROKER_METRICS:
            yield from self._measure(told.ms, value)
            return
        yield from self._step(Record(told.ms, told.topic, told.key, value, self._offset(told)))

    def end(self) -> Iterator[dict[str, Any] | Quarantine]:
        """Decide a recording that held no tick."""
        if not self._ticked:
            yield from self._tick(self._state.now_ms)

    def _offset(self, line: Line) -> int:
        offset = self._ends[line.topic] if line.offset is None else line.offset
        self._ends[line.topic] = offset + 1
        return offset

    def _measure(self, ms: int, value: bytes | None) -> Iterator[dict[str, Any] | Quarantine]:
        blocks = loads.blocks(wire.decode(wire.BrokerMetrics, value))
        for estimated in advance(self._history, blocks, SLIDE_MS, loads.MEMORY):
            self._history = estimated.history
            if not estimated.newest:
                continue
            for key, load in loads.records_of(estimated.rates):
                yield from self._step(Record(ms, wire.PARTITION_LOAD, key, wire.encode(load), 0))

    def _tick(self, ms: int) -> Iterator[dict[str, Any] | Quarantine]:
        for group in self._state.groups.values():
            snapshot = group.membership
            if snapshot is not None and ms - snapshot.ms > limits.MEMBERSHIP_STALE_MS_MAX // 2:
                group.membership = structs.replace(snapshot, ms=ms)
        yield from self._step(Tick(ms))

    def _step(self, event: Event) -> Iterator[dict[str, Any] | Quarantine]:
        for command in step(self._state, event):
            if isinstance(command, Quarantine):
                yield command
            elif isinstance(command, Write):
                value = wire.to_builtins(command.value)
                yield {
                    "ms": self._state.now_ms,
                    "topic": command.topic,
                    "key": command.key,
                    "value": value,
                }
                if isinstance(command.value, wire.Target):
                    self._follow(command.key, command.value)

    def _follow(self, name: str, target: wire.Target) -> None:
        """Read the target back, and let members hold what it says."""
        record = Record(
            target.ms, wire.TARGETS, name, wire.encode(target), self._ends[wire.TARGETS]
        )
        self._ends[wire.TARGETS] += 1
        step(self._state, record)
        group = self._state.groups[name]
        if group.membership is not None:
            members = [
                structs.replace(m, owned=target.assignment.get(m.stable_id, {}))
                for m in group.membership.members
            ]
            group.membership = structs.replace(group.membership, ms=target.ms, members=members)
