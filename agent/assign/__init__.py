"""The brain for ordinary consumer groups: a problem in, a plan with its proof out.

Pure: no I/O, no randomness, no logging; the only clock is the one that fills `elapsed_ms`.
`docs/assignor.md` tells how it works.
"""

from collections.abc import Mapping

from agent.assign.door import parse, render
from agent.assign.model import (
    Certificate,
    GroupPlan,
    GroupProblem,
    LimitedBy,
    Member,
    Move,
    Options,
    Partitions,
)
from agent.assign.solver import solve, trim, with_incompatible

__all__ = [
    "Certificate",
    "GroupPlan",
    "GroupProblem",
    "LimitedBy",
    "Member",
    "Move",
    "Options",
    "Partitions",
    "answer",
    "parse",
    "render",
    "solve",
    "trim",
    "with_incompatible",
]


def answer(document: object | Mapping[str, object]) -> dict[str, object]:
    """Answer one `consumer-group` document of the contract; raises TheirFault(path, message)."""
    problem = parse(document)
    return render(problem, solve(problem))
