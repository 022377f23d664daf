"""Recorded closed loops, replayed with any assignor."""

import copy
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from agent import streams
from agent.streams.closed_loop import ClosedLoop, Event, Round
from bench.streams import golden

Line = dict[str, Any]

NEVER = 10**6
"""Rounds of an event that did not settle."""


def run(line: Line, assignor: str) -> list[Round]:
    """Go through the events of a line."""
    loop, events = _prepared(line, assignor)
    return list(loop.run(events, streams.answer))


def both_from_ours(line: Line) -> Iterator[tuple[list[Round], list[Round]]]:
    """Settle each event twice from where ours stands: with ours, and with Kafka's assignor."""
    loop, events = _prepared(line, "plimsoll")
    for event in events:
        other = copy.deepcopy(loop)
        config = {**other.document["config"], "assignor": "high-availability"}
        other.document = {**other.document, "config": config}
        ours, theirs = (list(each.run([event], streams.answer)) for each in (loop, other))
        yield ours, theirs


def _prepared(line: Line, assignor: str) -> tuple[ClosedLoop, list[Event]]:
    simulation, clients, tasks = line["simulation"], line["clients"], line["tasks"]
    ids = [client["id"] for client in clients]
    events = [
        Event(
            add=[ids[c] for c in event["add"]],
            remove=[ids[c] for c in event["remove"]],
            restart=[ids[c] for c in event["restart"]],
            wipe=event["wipe"],
            threads={ids[int(c)]: n for c, n in event.get("threads", {}).items()},
            unknown=[(ids[c], tasks[t]["id"]) for c, t in event.get("unknown", [])],
        )
        for event in simulation["events"]
    ]
    everyone = [{"client": i} for i in range(len(clients))]
    loop = ClosedLoop(
        golden.document(line, assignor, simulation["strategy"], clients=everyone),
        catch_up_per_round=simulation["catch_up_per_round"],
        growth_per_round=simulation["growth_per_round"],
        rounds_max=simulation["max_rounds_per_event"],
    )
    return loop, events


def settled_after(rounds: Sequence[Round]) -> int:
    """Give the round of an event that wanted no follow-up."""
    return NEVER if rounds[-1].answer["followup"] else rounds[-1].round


def rounds_to_converge(rounds: Sequence[Round]) -> list[int]:
    """Give the same for each event of a loop."""
    return [settled_after([last]) for last in last_rounds(rounds)]


def last_rounds(rounds: Sequence[Round]) -> list[Round]:
    """Give the last round of each event of a loop."""
    return [list(steps)[-1] for _, steps in groupby(rounds, lambda step: step.event)]


def restored(rounds: Sequence[Round]) -> int:
    """Sum what was restored."""
    return sum(step.restored for step in rounds)
