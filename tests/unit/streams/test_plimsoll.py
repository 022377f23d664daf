"""What only our own assignor promises."""

import uuid
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent import streams
from agent.errors import TheirFault
from agent.streams import door, planner
from agent.streams.ahead import ROUNDS_MAX, caught_up, rounds_left
from agent.streams.closed_loop import ClosedLoop, Event
from agent.streams.draw import draw
from agent.streams.problem import Placement, Problem

Document = dict[str, Any]
IDS = [str(uuid.UUID(int=n + 1)) for n in range(4)]


def application(clients: int, tasks: int, **config: Any) -> Document:
    """Make stateful tasks of one subtopology in three racks, nothing assigned yet."""
    racks = ["a", "b", "c"]
    return {
        "kind": "streams-tasks",
        "id": "app",
        "config": {"assignor": "plimsoll", "rack_aware_strategy": "min_traffic", **config},
        "topics": [
            {"name": name, "partitions": [[racks[p % 3]] for p in range(tasks)]}
            for name in ("in", "log")
        ],
        "tasks": [
            {
                "id": f"0_{p}",
                "stateful": True,
                "source": [["in", p]],
                "changelog": [["log", p]],
                "end_offset": 100_000,
                "state_bytes": 1_000 * (p + 1),
            }
            for p in range(tasks)
        ],
        "clients": [
            {"id": IDS[c], "rack": racks[c % 3], "threads": 1, "tags": {}} for c in range(clients)
        ],
    }


def follow(document: Document, answer: dict[str, Any], *, caught_up: bool) -> None:
    """Let clients hold what they were given; copies are complete, or still restoring."""
    for client in document["clients"]:
        name = client["id"]
        active = [t for t, c in answer["active"].items() if c == name]
        standby = [t for t, cs in answer["standby"].items() if name in cs]
        before = client.get("lags", {})
        ready = (
            dict.fromkeys(standby, 0) if caught_up else {t: before.get(t, 90_000) for t in standby}
        )
        client.update(
            prev_active=active, prev_standby=standby, lags=dict.fromkeys(active, -2) | ready
        )


def loads(answer: dict[str, Any]) -> list[int]:
    """Count the actives of each client that has any."""
    owners = list(answer["active"].values())
    return sorted(owners.count(client) for client in set(owners))


def test_a_settled_application_stays() -> None:
    """Assigning again what is level and local moves nothing and wants no follow-up."""
    document = application(3, 9, num_standby_replicas=1)
    first: Any = streams.answer(document)
    follow(document, first, caught_up=True)
    again: Any = streams.answer(document)
    assert again["active"] == first["active"]
    assert not again["followup"]
    assert again["certificate"]["moves"] == 0


def test_scaling_out_warms_up_before_it_moves() -> None:
    """A new client gets copies first, its actives only when they are complete."""
    document = application(3, 12)
    follow(document, streams.answer(document), caught_up=True)
    document["clients"].append({"id": IDS[3], "rack": "a", "threads": 1, "tags": {}})
    waiting: Any = streams.answer(document)
    assert waiting["followup"]
    assert IDS[3] not in waiting["active"].values()
    assert any(IDS[3] in clients for clients in waiting["warmup"].values())
    for _ in range(6):
        follow(document, waiting, caught_up=True)
        waiting = streams.answer(document)
        if not waiting["followup"]:
            break
    assert loads(waiting) == [3, 3, 3, 3]


def test_warmups_are_funded_in_bytes() -> None:
    """The bytes that warm up at a time stay within the budget, and at least one copy does."""
    document = application(3, 12, warmup_bytes_max=4_000)
    follow(document, streams.answer(document), caught_up=True)
    document["clients"].append({"id": IDS[3], "rack": "a", "threads": 1, "tags": {}})
    answer: Any = streams.answer(document)
    size = {task["id"]: task["state_bytes"] for task in document["tasks"]}
    warming = [size[task] for task in answer["warmup"]]
    assert len(warming) == 1 or sum(warming) <= 4_000
    assert warming


def test_unequal_loads_are_levelled_by_load() -> None:
    """One heavy task weighs as much as all others: its client gets nothing else."""
    document = application(2, 7)
    for task in document["tasks"]:
        task["load"] = 6.0 if task["id"] == "0_0" else 1.0
    answer: Any = streams.answer(document)
    assert answer["certificate"]["load_per_thread_max"] <= 7.0
    assert loads(answer)[0] <= 2


@settings(max_examples=30, deadline=None)
@given(
    weights=st.lists(st.floats(0.2, 5.0), min_size=8, max_size=20),
    clients=st.integers(2, 4),
    standbys=st.integers(0, 2),
    strategy=st.sampled_from(["none", "min_traffic"]),
)
def test_unequal_loads_come_to_rest(
    weights: list[float], clients: int, standbys: int, strategy: str
) -> None:
    """They settle and stay; the most loaded client is within one task of the mean."""
    config = {"num_standby_replicas": standbys, "rack_aware_strategy": strategy}
    document = application(clients, len(weights), **config)
    for task, weight in zip(document["tasks"], weights, strict=True):
        task["load"] = weight
    for _ in range(8):
        answer: Any = streams.answer(document)
        follow(document, answer, caught_up=True)
        if not answer["followup"]:
            break
    again: Any = streams.answer(document)
    assert not again["followup"]
    assert (again["active"], again["standby"]) == (answer["active"], answer["standby"])
    copies = min(clients, 1 + standbys)
    mean = sum(weights) * copies / clients
    assert answer["certificate"]["load_per_thread_max"] <= mean * 1.05 + max(weights)
    assert all(len(holders) == copies - 1 for holders in answer["standby"].values())


def test_who_runs_a_task_is_shared_out_by_load() -> None:
    """Both hold all tasks; the heavy ones do not run on one of them."""
    document = application(2, 8, num_standby_replicas=1)
    heavy = {"0_0", "0_2", "0_4", "0_6"}
    follow(document, streams.answer(document), caught_up=True)
    for client, parity in zip(document["clients"], (0, 1), strict=True):
        mine = [f"0_{p}" for p in range(8) if p % 2 == parity]
        other = [f"0_{p}" for p in range(8) if p % 2 != parity]
        lags = dict.fromkeys(mine, -2) | dict.fromkeys(other, 0)
        client.update(prev_active=mine, prev_standby=other, lags=lags)
    for task in document["tasks"]:
        task["load"] = 10.0 if task["id"] in heavy else 1.0
    answer: Any = streams.answer(document)
    assert answer["certificate"]["active_load_per_thread_max"] <= 22.0 * 1.05
    assert answer["certificate"]["bytes_restored"] == 0
    assert answer["certificate"]["moves"] == 4


def test_unknown_racks_are_worked_around() -> None:
    """A client without a rack does not keep others from reading in their rack."""
    document = application(3, 9)
    document["clients"][2]["rack"] = None
    answer: Any = streams.answer(document)
    assert answer["certificate"]["cross_rack_active"] <= 6


@pytest.mark.parametrize("field", ["threads", "rack", "lags"])
def test_wrong_types_are_refused_with_their_path(field: str) -> None:
    """A field of the wrong type is named by its path."""
    document = application(2, 2)
    document["clients"][1][field] = [1]
    with pytest.raises(TheirFault) as refusal:
        streams.answer(document)
    assert refusal.value.path.startswith(f"clients[1].{field}")


def test_a_small_network_is_drawn(tmp_path: Any) -> None:
    """The picture of a settled application is written; one without owners is refused."""
    document = application(3, 6)
    with pytest.raises(TheirFault):
        draw(document, tmp_path / "network.svg")
    follow(document, streams.answer(document), caught_up=True)
    draw(document, tmp_path / "network.svg")
    assert (tmp_path / "network.svg").stat().st_size > 1_000


def test_the_next_round_is_that_of_a_loop_in_which_copies_catch_up() -> None:
    """After each round of scaling out, the problem foreseen is the one that comes."""
    document = application(4, 12, num_standby_replicas=1)
    loop = ClosedLoop(document, catch_up_per_round=10**9, growth_per_round=0, rounds_max=8)
    rounds = list(loop.run([Event(add=IDS[:3]), Event(add=IDS[3:])], streams.answer))
    compared = 0
    for this, following in pairwise(rounds):
        if this.event != following.event:
            continue
        problem = door.read(this.document)
        foreseen = caught_up(problem, planner.assign(problem))
        came = door.read(following.document)
        assert foreseen.prev_active == came.prev_active
        assert foreseen.prev_standby == came.prev_standby
        assert foreseen.lags == came.lags
        compared += 1
    assert compared


def test_rounds_are_counted_until_nothing_is_wanted() -> None:
    """Settled is none, a loop that never settles is the bound, else the rounds that come."""
    document = application(3, 6)
    problem = door.read(document)
    quiet = planner.assign(problem)
    asked: list[Problem] = []

    def always(problem: Problem) -> Placement:
        asked.append(problem)
        return Placement(quiet.active, quiet.standby, quiet.warmup, followup=len(asked) < 3)

    restless = Placement(quiet.active, quiet.standby, quiet.warmup, followup=True)
    assert rounds_left(problem, quiet, always) == 0
    assert rounds_left(problem, restless, always) == 3
    assert rounds_left(problem, restless, lambda _: restless) == ROUNDS_MAX
