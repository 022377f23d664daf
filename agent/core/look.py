"""One look at one group: what a review has at hand, and the records that it writes."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from agent import limits, wire
from agent.core.events import Write
from agent.core.state import Group, State
from agent.core.tuning import Settings


@dataclass(frozen=True, slots=True)
class Look:
    """One look at one group, and all it needs."""

    state: State
    name: str
    group: Group
    membership: wire.Membership
    settings: Settings

    def decision(
        self, verdict: Literal["publish", "hold", "refuse"], reason: str, **more: Any
    ) -> wire.Decision:
        """Give a verdict with what every verdict carries."""
        return wire.Decision(
            ms=self.state.now_ms,
            group=self.name,
            verdict=verdict,
            reason=reason,
            inputs=digest_of(self.state, self.membership, self.settings),
            mode=self.settings.mode,
            **more,
        )

    def cooldown_left_s(self) -> float:
        """Give how long a discretionary target must still wait, and look again then."""
        if self.group.target is None:
            return 0.0
        ready_ms = self.group.target.ms + int(self.settings.cooldown_s * 1000)
        if self.state.now_ms < ready_ms:
            self.group.review_ms = min(self.group.review_ms, ready_ms)
        return max(0.0, (ready_ms - self.state.now_ms) / 1e3)

    def publish(
        self, target: wire.Target, reason: str, said: dict[str, Any]
    ) -> Iterator[Write | wire.Decision]:
        """Write a target and the verdict on it; refuse one that its topic would not take."""
        size = len(wire.encode(target))
        if size > limits.RECORD_BYTES_MAX:
            detail = f"{size} bytes, limit {limits.RECORD_BYTES_MAX}"
            yield self.decision("refuse", "target-too-large", detail=detail)
            return
        yield Write(wire.TARGETS, self.name, target)
        yield self.decision("publish", reason, revision=target.revision, **said)


def digest_of(state: State, membership: wire.Membership, settings: Settings) -> str:
    """Name the inputs of a verdict, so that the same ones can be recognised in a replay."""
    digest = hashlib.sha256(wire.encode(membership))
    digest.update(repr(settings).encode())
    for topic in sorted(membership.topics):
        for chunk in sorted(state.loads.get(topic, {})):
            digest.update(state.loads[topic][chunk].digest.encode())
    return digest.hexdigest()[:16]
