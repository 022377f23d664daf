"""Other assignors as arms: what they would do with the same group.

`range`, `round_robin` and `sticky` follow Kafka 4.3.1's client assignors as the golden data shows
them (racks aside); `lpt` is the textbook; `astraea_*` follow the unmerged CostAwareAssignor of the
Astraea project. All take a problem and give the owner of each row; NOBODY where nobody subscribes.
"""

import random
from collections.abc import Callable, Sequence

import numpy as np

from agent.assign import GroupProblem
from agent.assign.model import NOBODY, Flags, Ints
from cost.incompatibility import astraea_lists

Peer = Callable[[GroupProblem], Ints]

SHUFFLES = 1_500
"""Random assignments that Astraea's shuffler draws here; its own run drew 95,657 in 5 s."""


def readers_of(problem: GroupProblem) -> list[list[int]]:
    """Give the members that subscribe to each topic, ascending."""
    readers: list[list[int]] = [[] for _ in problem.topics]
    for member, kind in enumerate(problem.subscription.tolist()):
        for topic in problem.subscriptions[kind].tolist():
            readers[topic].append(member)
    return readers


def _members_in_order(problem: GroupProblem, order: Sequence[int] | None) -> list[int]:
    return list(order) if order is not None else list(range(len(problem.member_ids)))


def range_assignor(problem: GroupProblem, order: Sequence[int] | None = None) -> Ints:
    """Cut each topic into consecutive shares, the first ones larger by one; `order` of members."""
    rank = {m: i for i, m in enumerate(_members_in_order(problem, order))}
    owner = np.full(len(problem.topic), NOBODY, dtype=np.int64)
    for topic, readers in enumerate(readers_of(problem)):
        rows = np.flatnonzero(problem.topic == topic)
        if not readers or not len(rows):
            continue
        share, extra = divmod(len(rows), len(readers))
        begin = 0
        for i, member in enumerate(sorted(readers, key=rank.__getitem__)):
            end = begin + share + (i < extra)
            owner[rows[begin:end]] = member
            begin = end
    return owner


def round_robin(problem: GroupProblem, order: Sequence[int] | None = None) -> Ints:
    """Deal all partitions, by topic and number, around the members, skipping non-subscribers."""
    members = _members_in_order(problem, order)
    readers = [set(r) for r in readers_of(problem)]
    owner = np.full(len(problem.topic), NOBODY, dtype=np.int64)
    at = 0
    for row, topic in enumerate(problem.topic.tolist()):
        if not readers[topic]:
            continue
        while members[at % len(members)] not in readers[topic]:
            at += 1
        owner[row] = members[at % len(members)]
        at += 1
    return owner


def sticky(problem: GroupProblem) -> Ints:
    """Balance counts and keep what is owned: the end of cooperative-sticky's closed loop.

    Equal subscriptions: each member keeps up to its quota (floor or ceil of the mean), the rest is
    dealt to those under theirs. Unequal ones: orphans go to the subscriber with fewest, then one
    partition at a time moves to a subscriber that holds at least two fewer, until none can.
    """
    readers = readers_of(problem)
    owner = problem.owner.copy()
    for row, topic in enumerate(problem.topic.tolist()):
        if owner[row] < 0 or int(owner[row]) not in readers[topic]:
            owner[row] = NOBODY
    wanted = np.array([len(readers[t]) > 0 for t in problem.topic.tolist()], dtype=np.bool_)
    if len({tuple(r) for r in readers if r}) <= 1 and wanted.any():
        _keep_quota(owner, wanted, readers[int(problem.topic[wanted][0])])
    count = np.bincount(owner[owner >= 0], minlength=len(problem.member_ids))
    few_readers_first = sorted(
        np.flatnonzero(wanted).tolist(), key=lambda row: (len(readers[problem.topic[row]]), row)
    )
    for row in few_readers_first:
        if owner[row] == NOBODY:
            target = min(readers[problem.topic[row]], key=lambda m: (count[m], m))
            owner[row] = target
            count[target] += 1
    changed = True
    while changed:
        changed = False
        for row in few_readers_first:
            source = int(owner[row])
            target = min(readers[problem.topic[row]], key=lambda m: (count[m], m))
            if count[source] - count[target] >= 2:
                owner[row] = target
                count[source] -= 1
                count[target] += 1
                changed = True
    return owner


def _keep_quota(owner: Ints, wanted: Flags, members: list[int]) -> None:
    """Release what members own above their quota; only so many may keep the larger quota."""
    floor, larger = divmod(int(wanted.sum()), len(members))
    for member in members:
        rows = np.flatnonzero(owner == member)
        quota = floor
        if len(rows) > floor and larger > 0:
            quota, larger = floor + 1, larger - 1
        owner[rows[quota:]] = NOBODY


def lpt(problem: GroupProblem) -> Ints:
    """Longest processing time first, from scratch: heaviest partition to the least utilised."""
    readers = [np.array(r, dtype=np.int64) for r in readers_of(problem)]
    load_on = np.zeros(len(problem.member_ids))
    owner = np.full(len(problem.topic), NOBODY, dtype=np.int64)
    for row in np.argsort(-problem.load, kind="stable").tolist():
        among = readers[problem.topic[row]]
        if len(among):
            after = (load_on[among] + problem.load[row]) / problem.capacity[among]
            owner[row] = among[int(after.argmin())]
            load_on[owner[row]] += problem.load[row]
    return owner


class _Astraea:
    """What both of Astraea's assignors share: per-broker cost and one-sided bad sets."""

    def __init__(self, problem: GroupProblem) -> None:
        self.problem = problem
        self.readers = readers_of(problem)
        per_broker = np.zeros(len(problem.brokers) + 1)
        np.add.at(per_broker, problem.broker, problem.load)
        total = per_broker[problem.broker]
        self.cost = np.divide(problem.load, total, out=np.zeros_like(total), where=total > 0)
        self.bad: list[set[int]] = [set() for _ in range(len(problem.topic))]
        for a, b in astraea_lists(problem.load, problem.broker, pairs_max=10**7).tolist():
            self.bad[a].add(b)

    def conflicts(self, owner: Ints) -> int:
        return sum(owner[a] == owner[b] for a, bad in enumerate(self.bad) for b in bad)


def astraea_greedy(problem: GroupProblem) -> Ints:
    """Take partitions in listed order; least cost among subscribers without a bad partner."""
    shared = _Astraea(problem)
    held: list[set[int]] = [set() for _ in problem.member_ids]
    cost_on = np.zeros(len(problem.member_ids))
    owner = np.full(len(problem.topic), NOBODY, dtype=np.int64)
    for row, topic in enumerate(problem.topic.tolist()):
        readers = shared.readers[topic]
        if not readers:
            continue
        clean = [m for m in readers if not held[m] & shared.bad[row]]
        target = min(clean or readers, key=lambda m: (cost_on[m], m))
        owner[row] = target
        held[target].add(row)
        cost_on[target] += shared.cost[row]
    return owner


def astraea_shuffle(problem: GroupProblem, *, tries: int = SHUFFLES, seed: int = 1) -> Ints:
    """Draw hinted random assignments; the first without conflicts and perfectly even wins.

    None is in practice, so it is the most even of those rejected, conflicts aside: what the
    published runs did.
    """
    shared = _Astraea(problem)
    rng = random.Random(seed)
    best: tuple[float, Ints] | None = None
    for _ in range(tries):
        owner, spread = _shuffled(shared, rng)
        if spread == 0 and shared.conflicts(owner) == 0:
            return owner
        if best is None or spread < best[0]:
            best = spread, owner
    return best[1] if best is not None else astraea_greedy(problem)


def _shuffled(shared: _Astraea, rng: random.Random) -> tuple[Ints, float]:
    """Place each partition at random among the cheaper half that has the fewest bad partners."""
    problem = shared.problem
    members = len(problem.member_ids)
    cost_on = [0.0] * members
    against = [[0] * members for _ in range(len(problem.topic))]
    owner = np.full(len(problem.topic), NOBODY, dtype=np.int64)
    for row, topic in enumerate(problem.topic.tolist()):
        readers = shared.readers[topic]
        if not readers:
            continue
        cheap = sorted(readers, key=cost_on.__getitem__)[: (len(readers) + 1) // 2]
        fewest = min(against[row][m] for m in readers)
        both = [m for m in cheap if against[row][m] == fewest]
        target = rng.choice(both or readers)
        owner[row] = target
        cost_on[target] += float(shared.cost[row])
        for other in shared.bad[row]:
            against[other][target] += 1
    return owner, float(np.std(cost_on))


ARMS: dict[str, Peer] = {
    "range": range_assignor,
    "round-robin": round_robin,
    "sticky (coop. loop)": sticky,
    "LPT from scratch": lpt,
    "Astraea greedy": astraea_greedy,
    "Astraea shuffle": astraea_shuffle,
}
