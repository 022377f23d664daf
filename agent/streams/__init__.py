"""Kafka Streams tasks: KIP-925, KIP-441 and KIP-924 in Python, and an assignor of our own.

`answer` is the door for `plimsoll assign` (kind `streams-tasks`); `draw` paints the network of a
small problem. Everything else is pure: no I/O, no clock, no randomness.
"""

import time
from collections.abc import Callable
from typing import Final

from agent.streams import certificate, door, engine, high_availability, planner, recorded
from agent.streams.problem import Placement, Problem
from agent.streams.sticky import StickyTaskAssignor

__all__ = ["answer"]

ASSIGNORS: Final[dict[str, Callable[[Problem], Placement]]] = {
    "engine": engine.assign,
    "high-availability": high_availability.assign,
    "plimsoll": planner.assign,
    "sticky": recorded.adapt(StickyTaskAssignor()),
}


def answer(document: object) -> dict[str, object]:
    """Answer a decoded document of kind `streams-tasks`; raise `TheirFault` where it is wrong."""
    started = time.perf_counter()
    problem = door.read(document)
    placement = ASSIGNORS[problem.config.assignor](problem)
    result = _named(problem, placement)
    result["elapsed_ms"] = {"total": (time.perf_counter() - started) * 1e3}
    return result


def _named(problem: Problem, placement: Placement) -> dict[str, object]:
    """Give the answer in names; the maps are in the order of tasks and clients."""
    clients = problem.client_ids
    return {
        "id": problem.id,
        "active": {
            task: clients[client]
            for task, client in zip(problem.task_ids, placement.active, strict=True)
        },
        "standby": {
            task: [clients[client] for client in copies]
            for task, copies in zip(problem.task_ids, placement.standby, strict=True)
        },
        "warmup": {
            task: [clients[client] for client in copies]
            for task, copies in zip(problem.task_ids, placement.warmup, strict=True)
            if copies
        },
        "followup": placement.followup,
        "certificate": certificate.certify(problem, placement),
    }
