"""What reaches the core, and what it then owes.

Commands are ordered obligations: the shell carries them out one after the other, and feeds every
`Write` to the control topic back as the `Record` it has become before the next event.
"""

from dataclasses import dataclass

from agent import wire


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it stands on a topic; `ms` is when it was read."""

    ms: int
    topic: str
    key: str
    value: bytes | None
    offset: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passes; decisions are taken on ticks only, on whatever was folded before."""

    ms: int


Event = Record | Tick


@dataclass(frozen=True, slots=True)
class Write:
    """Put a record on a topic."""

    topic: str
    key: str
    value: wire.Target | wire.Decision | wire.ConfigStatus


@dataclass(frozen=True, slots=True)
class Nudge:
    """Make a stable group rebalance, so that it picks its target up."""

    group: str
    assignor: str
    epoch: int
    revision: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A record was refused: it is counted and told, and changed nothing."""

    topic: str
    offset: int
    key: str
    path: str
    message: str


Command = Write | Nudge | Quarantine
