"""Live view of a run: journals and truth as they grow."""

import math
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Final

from deploy.local.history import History, Partition, merge, read_history
from deploy.local.measures import Truth, delivered_bytes, latency_quantile_ms, read_truth

REPORT_DELAY_MS: Final = 1_500
"""Consumers report four times a second, the load once: what is older than this is complete."""


class GrowingFile:
    """The complete lines of a file that somebody else appends to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0

    def fresh_lines(self) -> list[str]:
        """Return the lines that were completed since the last call."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._read)
            fresh = file.read()
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._read += len(whole)
        return whole.decode().splitlines(keepends=True)


class Watch:
    """All that is known so far of load and consumers."""

    def __init__(self, truth_path: Path) -> None:
        self.truth_path = truth_path
        self._truth = GrowingFile(truth_path)
        self._truth_lines: list[str] = []
        self._journals: dict[str, GrowingFile] = {}
        self._parts: list[History] = []
        self._processed_bytes = 0

    def add_consumer(self, journal: Path) -> None:
        """Follow one more journal."""
        self._journals[journal.stem] = GrowingFile(journal)

    def refresh(self) -> None:
        """Take in what was written since the last call."""
        self._truth_lines += self._truth.fresh_lines()
        fresh = [journal.fresh_lines() for journal in self._journals.values()]
        if any(fresh):
            part = read_history(fresh)
            self._parts.append(part)
            self._processed_bytes += sum(run.payload_bytes for run in part.runs)

    def history(self) -> History:
        """Return what all consumers did so far."""
        self._parts = [merge(self._parts)]
        return self._parts[0]

    def truth(self) -> Truth:
        """Return what was produced so far."""
        return read_truth(self._truth_lines)

    def recent(self, since_ms: int) -> History:
        """Return a history that is complete since a time; older events may be missing."""
        late = [part for part in self._parts if part.runs and part.runs[-1].last_ms >= since_ms]
        return merge(late)

    def members(self) -> dict[str, frozenset[Partition]]:
        """Return what each consumer was last left with by a rebalance."""
        return {e.client: e.owned for part in self._parts for e in part.assigned}

    def slowest_p95_ms(self, clients: Collection[str], since_ms: int) -> float:
        """Return the largest p95 latency among `clients`; infinite if one delivered nothing."""
        recent = self.recent(since_ms)
        worst = 0.0
        for client in clients:
            own = tuple(report for report in recent.latencies if report.client == client)
            only = replace(recent, latencies=own)
            latency = latency_quantile_ms(only, since_ms, 1 << 62, 0.95)
            worst = math.inf if math.isnan(latency) else max(worst, latency)
        return worst

    def lag_bytes(self) -> float:
        """Return about how much is produced and not yet processed."""
        produced = self.truth().produced_bytes
        return float(produced[-1].sum()) - self._processed_bytes if len(produced) else 0.0

    def state_line(self, now_ms: int) -> str:
        """Summarise the last seconds for the progress line."""
        end_ms = now_ms - REPORT_DELAY_MS
        start_ms = end_ms - 4_000
        truth = self.truth()
        offered = truth.total_at(end_ms) - truth.total_at(start_ms) if len(truth.ms) else 0.0
        if not offered:
            return ""
        delivered = delivered_bytes(self.recent(start_ms), start_ms, end_ms)
        return (
            f"offered {offered / 4e6:.2f} MB/s, delivered {delivered / offered:4.0%}, "
            f"lag {max(0.0, self.lag_bytes()) / 1e6:.1f} MB"
        )
