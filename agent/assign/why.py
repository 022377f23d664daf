"""One short sentence for each move, and the one partition that limits a plan."""

import numpy as np

from agent.assign.model import Certificate, GroupProblem, Ints, LimitedBy, Move


def explain(problem: GroupProblem, owner: Ints, certificate: Certificate) -> tuple[Move, ...]:
    """Name the cause and the gain of each partition that left a live, subscribed owner."""
    subscribed = [set(topics.tolist()) for topics in problem.subscriptions]
    moved = np.flatnonzero((problem.owner >= 0) & (owner >= 0) & (problem.owner != owner))
    rows = [
        row
        for row in moved.tolist()
        if int(problem.topic[row]) in subscribed[problem.subscription[problem.owner[row]]]
    ]
    if not rows:
        return ()
    sentence = _Reasons(problem, owner, certificate)
    return tuple(
        Move(row, int(problem.owner[row]), int(owner[row]), sentence.of(row)) for row in rows
    )


class _Reasons:
    """What was wrong before, so that each move can name the wrong that it rights."""

    def __init__(self, problem: GroupProblem, owner: Ints, certificate: Certificate) -> None:
        self._problem = problem
        self._owner = owner
        members = len(problem.member_ids)
        live = problem.owner >= 0
        before = np.bincount(problem.owner[live], weights=problem.load[live], minlength=members)
        after = np.bincount(owner[owner >= 0], weights=problem.load[owner >= 0], minlength=members)
        bound = certificate.lower_bound or 1.0
        self._before = before / problem.capacity / bound
        self._after = after / problem.capacity / bound
        self._held_before = np.bincount(problem.owner[live], minlength=members)
        self._enemies: dict[int, list[int]] = {}
        for a, b in problem.incompatible.tolist():
            self._enemies.setdefault(a, []).append(b)
            self._enemies.setdefault(b, []).append(a)

    def of(self, row: int) -> str:
        """Give the sentence for one moved row."""
        problem = self._problem
        source, target = int(problem.owner[row]), int(self._owner[row])
        names = problem.member_ids
        if problem.pinned[row] == target:
            return f"pinned to {names[target]}"
        if problem.excluded[source]:
            return f"{names[source]} is draining"
        for other in self._enemies.get(row, ()):
            if problem.owner[other] == source and self._owner[other] != target:
                topic, number = problem.partition_name(other)
                return f"keeps it apart from {topic}-{number}, with which it shared {names[source]}"
        racks = problem.rack_sets[problem.rack_set[row]]
        near = problem.member_rack[target] in racks and problem.member_rack[source] not in racks
        if problem.options.rack_aware and near and problem.member_rack[source] >= 0:
            rack = problem.racks[problem.member_rack[target]]
            return f"reads from a replica in its own rack {rack} instead of across racks"
        from_to = f"{self._before[source]:.2f} to {self._after[source]:.2f}"
        if not self._held_before[target]:
            return (
                f"fills {names[target]}; {names[source]} goes from {from_to} of the best possible"
            )
        if self._before[source] > self._after[source]:
            return f"{names[source]} goes from {from_to} of the best possible maximum"
        return f"makes room on {names[source]} for what another member must shed"


def limited_by(problem: GroupProblem, certificate: Certificate) -> LimitedBy | None:
    """Name the heaviest partition where it alone exceeds its member's fair share."""
    if not len(problem.load) or not len(problem.member_ids):
        return None
    row = int(problem.load.argmax())
    readable = {t for topics in problem.subscriptions for t in topics.tolist()}
    if int(problem.topic[row]) not in readable:
        return None
    counted = np.isin(problem.topic, sorted(readable))
    share = float(problem.load[counted].sum() / problem.capacity.sum())
    alone = float(problem.load[row] / problem.capacity.max())
    if share <= 0 or alone <= share * (1 + 1e-9) or alone < certificate.lower_bound * (1 - 1e-9):
        return None
    topic, number = problem.partition_name(row)
    return LimitedBy(
        row,
        f"{topic}-{number} alone is {alone / share:.2f} times a member's fair share, and a "
        "partition is indivisible: more partitions for its topic (or a key that spreads its "
        "records), a member of larger capacity, or parallel processing inside the member would "
        "help; more members would not",
    )
