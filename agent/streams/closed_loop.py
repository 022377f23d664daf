"""An application in a closed loop: assign, restore for a while, assign again, until it is quiet.

Time passes in rounds. In a round every assigned copy restores `catch_up_per_round`; state on disk
that is not assigned, on live clients or not, falls behind by `growth_per_round`. Events add,
remove, restart or resize clients. After an event the loop runs until an assignment wants no
follow-up.

Promise: deterministic, no clock. The rules are those by which the recorded rounds of Kafka's
assignor were made, so replaying `high-availability` gives those rounds again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.streams.problem import RUNNING, UNKNOWN

Document = dict[str, Any]
Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """What happens to clients, by id, before the application settles again."""

    add: Sequence[str] = ()
    remove: Sequence[str] = ()
    restart: Sequence[str] = ()
    wipe: bool = False
    """Whether removed clients lose their disk."""
    threads: Mapping[str, int] = field(default_factory=dict)
    unknown: Sequence[tuple[str, str]] = ()
    """(client, task) whose lag becomes unknown."""


@dataclass(frozen=True, slots=True)
class Round:
    """One assignment and what it was made from."""

    event: int
    round: int
    document: Document
    answer: Answer
    restored: int
    """Offsets restored in the round after it."""


@dataclass(slots=True)
class _Client:
    threads: int
    live: bool = False
    lags: dict[str, int] = field(default_factory=dict)
    prev_active: list[str] = field(default_factory=list)
    prev_standby: list[str] = field(default_factory=list)

    def forget(self) -> None:
        """Stop running: what was running is on disk, complete."""
        self.prev_active, self.prev_standby = [], []
        for task, lag in self.lags.items():
            if lag == RUNNING:
                self.lags[task] = 0


class ClosedLoop:
    """One application and its clients, most of which may not have joined yet."""

    def __init__(
        self, document: Document, *, catch_up_per_round: int, growth_per_round: int, rounds_max: int
    ) -> None:
        self.document = document
        self.catch_up = catch_up_per_round
        self.growth = growth_per_round
        self.rounds_max = rounds_max
        self.end = {
            task["id"]: task.get("end_offset", 0) for task in document["tasks"] if task["stateful"]
        }
        self.clients = {c["id"]: _Client(threads=c["threads"]) for c in document["clients"]}

    def run(self, events: Sequence[Event], assign: Callable[[Document], Answer]) -> Iterator[Round]:
        """Go through the events; give every round."""
        for number, event in enumerate(events):
            self._happen(event)
            for round_number in range(1, self.rounds_max + 1):
                document = self.present()
                answer = assign(document)
                restored = self._pass_time(answer)
                yield Round(number, round_number, document, answer, restored)
                if not answer["followup"]:
                    break

    def present(self) -> Document:
        """Give the document of the live clients as they stand."""
        clients = []
        for client in self.document["clients"]:
            state = self.clients[client["id"]]
            if state.live:
                clients.append(
                    {
                        **client,
                        "threads": state.threads,
                        "prev_active": state.prev_active,
                        "prev_standby": state.prev_standby,
                        "lags": dict(state.lags),
                    }
                )
        return {**self.document, "clients": clients}

    def _happen(self, event: Event) -> None:
        for name in event.add:
            self.clients[name].live = True
        for name in event.remove:
            self.clients[name].live = False
            self.clients[name].forget()
            if event.wipe:
                self.clients[name].lags.clear()
        for name in event.restart:
            self.clients[name].forget()
        for name, threads in event.threads.items():
            self.clients[name].threads = threads
        for name, task in event.unknown:
            self.clients[name].lags[task] = UNKNOWN

    def _pass_time(self, answer: Answer) -> int:
        """Let copies restore and the rest fall behind; give the offsets restored."""
        active: dict[str, list[str]] = {name: [] for name in self.clients}
        standby: dict[str, list[str]] = {name: [] for name in self.clients}
        for task, name in answer["active"].items():
            active[name].append(task)
        for task, names in answer["standby"].items():
            for name in names:
                standby[name].append(task)
        restored = 0
        for name, client in self.clients.items():
            client.prev_active, client.prev_standby = active[name], standby[name]
            held = {*active[name], *standby[name]} & self.end.keys()
            for task in client.lags.keys() - held:
                lag = client.lags[task]
                if lag != UNKNOWN:
                    client.lags[task] = min(self.end[task], max(lag, 0) + self.growth)
            running = set(active[name])
            for task in sorted(held):
                before = client.lags.get(task, UNKNOWN)
                lag = self.end[task] if before == UNKNOWN else max(before, 0)
                after = max(0, lag - self.catch_up)
                restored += lag - after
                client.lags[task] = RUNNING if task in running and after == 0 else after
        return restored
