"""Recorded closed loops, replayed with any assignor."""

import copy
from collections.abc import Iterator, Sequence
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


def rounds_to_converge(line: Line, rounds: Sequence[Round]) -> list[int]:
    """Give per event the round that wanted no follow-up."""
    settled = [NEVER] * len(line["simulation"]["events"])
    for step in rounds:
        if not step.answer["followup"]:
            settled[step.event] = step.round
    return settled


def restored(rounds: Sequence[Round]) -> int:
    """Sum what was restored."""
    return sum(step.restored for step in rounds)
