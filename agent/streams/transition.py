"""From where the state is to where it should be: what can be used now, what warms up.

Make before break: an active whose client has not caught up runs on one that has, and a standby
that moves keeps its old place, until the new copy is ready. Copies that are extra meanwhile are
warmups; they are funded in *bytes*, cheapest first, so many small states move at once and a few
large ones do not swamp the network. What is not funded stays where it is and waits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.streams.problem import Ints, Placement, Problem
from agent.streams.target import Holdings


@dataclass(slots=True)
class _Task:
    """One task on its way."""

    active: int
    copies: list[int]
    goal: int | None
    """The client the active shall move to, if it cannot run there yet."""
    warmups: list[int]


class Transition:
    """What can be used now of a target."""

    def __init__(self, problem: Problem, holdings: Holdings) -> None:
        self.problem = problem
        self.holdings = holdings
        self.budget = _budget(problem)
        self.waiting = False

    def plan(self, target: Ints, copies: Sequence[Sequence[int]]) -> Placement:
        """Give the placement for now."""
        plans = [
            self._stand_in(task, int(client), list(copies[task]))
            for task, client in enumerate(target.tolist())
        ]
        wanted = [
            (self._bytes(task, client), task, client)
            for task, plan in enumerate(plans)
            for client in plan.warmups
        ]
        funded = self._fund(sorted(wanted))
        warmup: list[tuple[int, ...]] = []
        standby: list[tuple[int, ...]] = []
        for task, plan in enumerate(plans):
            extra = [client for client in plan.warmups if (task, client) in funded]
            warmup.append(tuple(sorted(extra)))
            standby.append(tuple(sorted(plan.copies + extra)))
        return Placement(
            active=tuple(plan.active for plan in plans),
            standby=tuple(standby),
            warmup=tuple(warmup),
            followup=self.waiting,
        )

    def _bytes(self, task: int, client: int) -> int:
        """Give the bytes that a copy has yet to restore."""
        problem = self.problem
        end = int(problem.end_offset[task])
        size = int(problem.state_bytes[task])
        lag = self.holdings.lag_of(task, client)
        return size if end == 0 or lag < 0 else size * min(lag, end) // end

    def _fund(self, wanted: list[tuple[int, int, int]]) -> set[tuple[int, int]]:
        """Fund the cheapest warmups; the first always, so that something moves every round."""
        funded: set[tuple[int, int]] = set()
        left = self.budget
        for size, task, client in wanted:
            if funded and size > left:
                break
            left -= size
            funded.add((task, client))
        return funded

    def _stand_in(self, task: int, goal: int, copies: list[int]) -> _Task:
        """Decide where the active runs now and which copies are extra."""
        plan = _Task(active=goal, copies=copies, goal=None, warmups=[])
        if not self.problem.stateful[task]:
            return plan
        if not self.holdings.can_run(task, goal):
            runner = self._better(task, goal)
            if runner is not None:
                self.waiting = True
                plan.active, plan.goal = runner, goal
                if runner in copies:
                    copies.remove(runner)
                    copies.append(goal)
                else:
                    plan.warmups.append(goal)
        self._keep_standbys(task, plan)
        return plan

    def _better(self, task: int, goal: int) -> int | None:
        """Find who runs the task meanwhile: its owner, else whoever lags least, if less."""
        holdings = self.holdings
        owner = int(holdings.owner[task])
        if owner >= 0 and holdings.can_run(task, owner):
            return owner
        others = sorted(
            (not holdings.can_run(task, c), holdings.lag_of(task, c), c)
            for c in holdings.lag[task]
            if c != goal
        )
        if not others:
            return None
        not_ready, lag, client = others[0]
        # Where nobody is ready, running elsewhere pays only if it is ready much sooner.
        if not_ready and 2 * lag >= holdings.lag_of(task, goal):
            return None
        return client

    def _keep_standbys(self, task: int, plan: _Task) -> None:
        """Let a ready standby stay while the one that shall replace it restores."""
        holdings = self.holdings
        taken = {plan.active, plan.goal, *plan.copies, *plan.warmups}
        spare = sorted(
            c for c in self.problem.held[task] if c not in taken and holdings.can_run(task, c)
        )
        for client in list(plan.copies):
            if not spare:
                return
            if client != plan.goal and not holdings.can_run(task, client):
                plan.copies.remove(client)
                plan.copies.append(spare.pop(0))
                plan.warmups.append(client)
                self.waiting = True


def _budget(problem: Problem) -> int:
    """Give the bytes that extra copies may restore at a time.

    Where the operator sets none, as many as `max_warmup_replicas` copies of the largest state:
    never less than a count of copies would allow.
    """
    config = problem.config
    if config.warmup_bytes_max is not None:
        return config.warmup_bytes_max
    return config.max_warmup_replicas * int(problem.state_bytes.max(initial=0))
