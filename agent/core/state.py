"""Everything the core knows. Only `step` changes it, and only by replaying records.

What must outlive the agent stands on the topics: the last target of a group (with the recent moves
that count against its budget) and its membership are compacted records, loads are sent again every
window. So the state rebuilt from the log equals the live state, compacted or not (promise S11);
what a restart forgets is when a verdict was last written and how often a group was nudged.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agent import wire
from agent.core.tuning import Accepted, Settings

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LoadChunk:
    """One load record as columns; rows whose confidence is `prior` are left out."""

    ms: int
    digest: str
    partition: Ints
    bytes_per_s: Floats
    bytes_per_s_stderr: Floats
    records_per_s: Floats
    records_per_s_stderr: Floats


@dataclass(slots=True)
class Group:
    """One consumer group."""

    membership: wire.Membership | None = None
    target: wire.Target | None = None
    dirty: bool = True
    review_ms: int = 0
    """When the verdict may change without new input."""
    attempts: int = 0
    nudged_ms: int = 0
    proposal: wire.Target | None = None
    """In `shadow` and `advise`: the plan that is kept apart."""
    proposed_for: Settings | None = None
    """The settings under which the proposal was made; others make it void."""
    measured_plan: str = ""
    """The plan whose outcome has been written."""
    verdict: wire.Decision | None = None
    """The newest verdict."""
    said: wire.Decision | None = None
    """The verdict last written; one that says the same is not written again for a while."""


@dataclass(slots=True)
class State:
    """All groups, loads and tuning; `epoch` is the offset of the newest claim."""

    epoch: int = 0
    groups: dict[str, Group] = field(default_factory=dict)
    loads: dict[str, dict[int, LoadChunk]] = field(default_factory=dict)
    configs: dict[str, Accepted] = field(default_factory=dict)
    now_ms: int = 0

    def group(self, name: str) -> Group:
        """Give the state of a group, made when first named."""
        return self.groups.setdefault(name, Group())
