"""One short sentence for each move, and the one partition that limits a plan."""

import numpy as np

from agent.assign.model import Certificate, Flags, GroupProblem, Ints, LimitedBy, Move


def explain(problem: GroupProblem, owner: Ints, certificate: Certificate) -> tuple[Move, ...]:
    """Name the cause and the gain of each partition that left a live, subscribed owner."""
    rows = np.flatnonzero((problem.owner >= 0) & (owner >= 0) & (problem.owner != owner))
    reads = np.zeros((len(problem.subscriptions), len(problem.topics)), dtype=np.bool_)
    for i, topics in enumerate(problem.subscriptions):
        reads[i, topics] = True
    rows = rows[reads[problem.subscription[problem.owner[rows]], problem.topic[rows]]]
    if not len(rows):
        return ()
    reasons = _Reasons(problem, owner, certificate)
    source, target = problem.owner[rows], owner[rows]
    near = _comes_near(problem, rows, source, target)
    pinned = problem.pinned[rows] == target
    columns = (rows, source, target, pinned, near)
    return tuple(
        Move(row, a, b, reasons.of(row, a, b, is_pinned=is_pinned, is_near=is_near))
        for row, a, b, is_pinned, is_near in zip(*(c.tolist() for c in columns), strict=True)
    )


def _comes_near(problem: GroupProblem, rows: Ints, source: Ints, target: Ints) -> Flags:
    """Tell which rows have a replica in the rack of their target and none in that of their source.

    [rows]; False where racks do not count or the source's is unknown.
    """
    holds = np.zeros((len(problem.rack_sets), len(problem.racks) + 1), dtype=np.bool_)
    for i, racks in enumerate(problem.rack_sets):
        holds[i, list(racks)] = True
    sets, before = problem.rack_set[rows], problem.member_rack[source]
    gains = holds[sets, problem.member_rack[target]] & ~holds[sets, before] & (before >= 0)
    return np.asarray(gains & problem.options.rack_aware)


class _Reasons:
    """What was wrong before, so that each move can name the wrong that it rights."""

    def __init__(self, problem: GroupProblem, owner: Ints, certificate: Certificate) -> None:
        self._problem = problem
        self._owner = owner
        members = len(problem.member_ids)
        live = problem.owner >= 0
        before = np.bincount(problem.owner[live], weights=problem.load[live], minlength=members)
        after = np.bincount(owner[owner >= 0], weights=problem.load[owner >= 0], minlength=members)
        best = problem.capacity * (certificate.lower_bound or 1.0)
        self._goes = [
            f"{name} goes from {a:.2f} to {b:.2f} of the best possible"
            for name, a, b in zip(problem.member_ids, before / best, after / best, strict=True)
        ]
        self._relieves = [
            f"{goes} maximum"
            if a > b
            else f"makes room on {name} for what another member must shed"
            for name, goes, a, b in zip(problem.member_ids, self._goes, before, after, strict=True)
        ]
        self._rack: list[int] = problem.member_rack.tolist()
        self._comes_near = [
            f"reads from a replica in its own rack {rack} instead of across racks"
            for rack in problem.racks
        ]
        self._filled: list[bool] = (
            np.bincount(problem.owner[live], minlength=members) == 0
        ).tolist()
        self._draining: list[bool] = problem.excluded.tolist()
        self._enemies: dict[int, list[int]] = {}
        for a, b in problem.incompatible.tolist():
            self._enemies.setdefault(a, []).append(b)
            self._enemies.setdefault(b, []).append(a)

    def of(self, row: int, source: int, target: int, *, is_pinned: bool, is_near: bool) -> str:
        """Give the sentence for one moved row."""
        problem = self._problem
        names = problem.member_ids
        if is_pinned:
            return f"pinned to {names[target]}"
        if self._draining[source]:
            return f"{names[source]} is draining"
        for other in self._enemies.get(row, ()):
            if problem.owner[other] == source and self._owner[other] != target:
                topic, number = problem.partition_name(other)
                return f"keeps it apart from {topic}-{number}, with which it shared {names[source]}"
        if is_near:
            return self._comes_near[self._rack[target]]
        if self._filled[target]:
            return f"fills {names[target]}; {self._goes[source]}"
        return self._relieves[source]


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
