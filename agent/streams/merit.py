"""What placements are measured by, whoever made them."""

from dataclasses import dataclass

import numpy as np

from agent.streams.problem import UNKNOWN, Placement, Problem
from agent.streams.target import load_per_thread


@dataclass(frozen=True, slots=True)
class Merit:
    """What a placement is measured by; less is better throughout."""

    load_max: float
    load_spread: float
    active_max: float
    cross_rack: int
    cold_moves: int
    shared_racks: int
    copies_missing: int
    bytes_restored: int
    followup: bool

    def rank(self, *, racks: bool) -> tuple[float, ...]:
        """Order plans that are good enough: settled first, level, then what disturbs least.

        What is level now is not set in motion by the next event. `racks` says if they count.
        """
        order = (self.followup, self.load_spread, self.bytes_restored, self.cold_moves)
        return (*order, self.shared_racks, self.cross_rack) if racks else order

    def no_worse(self, other: "Merit") -> bool:
        """Whether nothing here is worse than there."""
        eps = 1e-9
        return (
            self.load_max <= other.load_max + eps
            and self.load_spread <= other.load_spread + eps
            and self.cross_rack <= other.cross_rack
            and self.cold_moves <= other.cold_moves
            and self.shared_racks <= other.shared_racks
            and self.copies_missing <= other.copies_missing
            # What a placement on its way restores now says nothing of what it will restore.
            and (self.bytes_restored <= other.bytes_restored or other.followup)
            and self.followup <= other.followup
        )


def measure(problem: Problem, placement: Placement) -> Merit:
    """Measure a placement."""
    owner = np.array(placement.active, dtype=np.int64)
    load = load_per_thread(problem, placement.active, placement.standby)
    active = load_per_thread(problem, placement.active, ())
    before = problem.previous_active
    moved = np.flatnonzero((before >= 0) & (before != owner) & problem.stateful).tolist()
    racks = len(set(problem.client_rack[problem.client_rack < len(problem.racks)].tolist()))
    rack: list[int] = problem.client_rack.tolist()
    shared = missing = 0
    for task in problem.stateful_tasks:
        copies = (placement.active[task], *placement.standby[task])
        shared += len({rack[c] for c in copies}) < min(len(copies), racks)
        if problem.has_changelog[task]:
            missing += max(0, problem.copies - len(copies))
    return Merit(
        load_max=float(load.max()),
        load_spread=float(load.max() - load.min()),
        active_max=float(active.max()),
        cross_rack=int(problem.source_away_of[np.arange(len(owner)), owner].sum()),
        cold_moves=sum(placement.active[task] not in problem.held[task] for task in moved),
        shared_racks=shared,
        copies_missing=missing,
        bytes_restored=bytes_to_restore(problem, placement),
        followup=placement.followup,
    )


def bytes_to_restore(problem: Problem, placement: Placement) -> int:
    """Sum what all assigned copies have yet to restore; unknown lags count as nothing there."""
    left = 0
    ends: list[int] = problem.end_offset.tolist()
    sizes: list[int] = problem.state_bytes.tolist()
    for task in problem.stateful_tasks:
        end = ends[task]
        for client in (placement.active[task], *placement.standby[task]):
            lag = problem.lags[client].get(task, end)
            share = end if lag == UNKNOWN else max(0, min(lag, end))
            left += sizes[task] * share // end if end else 0
    return left
