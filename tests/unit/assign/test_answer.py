"""Small problems whose answers one can check by hand."""

from collections.abc import Callable
from typing import Any

import pytest

from agent import assign
from agent.errors import TheirFault

Make = Callable[..., dict[str, Any]]


def _answer(document: dict[str, Any]) -> Any:
    return assign.answer(document)


def test_a_level_group_is_left_alone(document: Make) -> None:
    """A group inside its band keeps every owner."""
    d = document([1.0, 1.0, 1.0, 1.0])
    for i, p in enumerate(d["partitions"]):
        p["owner"] = f"m{i % 2}"
    assert _answer(d)["certificate"]["moves"] == 0


def test_fewest_moves_leave_an_overfull_member(document: Make) -> None:
    """One move of the right partition is found where one is enough."""
    d = document([6.0, 2.0, 1.0, 1.0, 2.0])
    for p in d["partitions"]:
        p["owner"] = "m0" if p["partition"] < 3 else "m1"
    d["options"] = {"imbalance": 0.0}
    answer = _answer(d)
    assert answer["certificate"]["max_utilisation"] == pytest.approx(6.0)
    assert answer["certificate"]["moves"] == 2
    assert all(move["from"] == "m0" for move in answer["moves"])


def test_departed_owners_are_forced_moves(document: Make) -> None:
    """A partition whose owner is gone is placed and counted as forced, not as a move."""
    d = document([1.0, 1.0])
    d["partitions"][0]["owner"] = "left"
    c = _answer(d)["certificate"]
    assert (c["moves"], c["forced_moves"]) == (0, 1)


def test_giant_partition_is_named(document: Make) -> None:
    """A partition bigger than a fair share is named with what would help, and is the bound."""
    answer = _answer(document([10.0, 1.0, 1.0], members=3))
    assert answer["limited_by"]["partition"] == ["t", 0]
    assert "more partitions" in answer["limited_by"]["message"]
    assert answer["certificate"]["ratio"] == pytest.approx(1.0)


def test_capacity_is_respected(document: Make) -> None:
    """A member of three times the capacity gets three times the load."""
    d = document([1.0] * 12)
    d["members"][0]["capacity"] = 3.0
    held = _answer(d)["assignment"]
    assert (len(held["m0"]), len(held["m1"])) == (9, 3)


def test_co_partitions_stay_together(document: Make) -> None:
    """Equal partition numbers of co-partitioned topics share an owner."""
    d = document([3.0, 2.0, 1.0, 1.0])
    for m in d["members"]:
        m["topics"] = ["t", "u"]
    d["partitions"] += [{"topic": "u", "partition": i, "load": float(i)} for i in range(4)]
    d["copartition"] = [["t", "u"]]
    held = _answer(d)["assignment"]
    for partitions in held.values():
        numbers = {topic: {p for t, p in partitions if t == topic} for topic in ("t", "u")}
        assert numbers["t"] == numbers["u"]


def test_co_partitions_that_nobody_can_hold_are_refused(document: Make) -> None:
    """Co-partitioning topics that no member reads together is refused by name."""
    d = document([1.0])
    d["members"][1]["topics"] = ["u"]
    d["partitions"].append({"topic": "u", "partition": 0, "load": 1.0})
    d["copartition"] = [["t", "u"]]
    with pytest.raises(TheirFault, match="no member subscribes to all of t, u"):
        assign.answer(d)


def test_draining_member_is_emptied(document: Make) -> None:
    """An excluded member gives everything up while another may take it, and says why."""
    d = document([1.0, 1.0], options={"exclude": ["m0"], "max_moves": 0})
    d["partitions"][0]["owner"] = "m0"
    answer = _answer(d)
    assert answer["assignment"]["m0"] == []
    assert answer["moves"][0]["why"] == "m0 is draining"


def test_last_reader_keeps_what_only_it_can_read(document: Make) -> None:
    """Draining never leaves a subscribed partition without an owner."""
    answer = _answer(document([1.0], members=1, exclude=["m0"]))
    assert answer["assignment"]["m0"] == [["t", 0]]


def test_racks_are_matched_when_told(document: Make) -> None:
    """Partitions go beside a replica; where racks are unknown nothing crosses."""
    d = document([1.0, 1.0, 1.0, 1.0])
    for i, m in enumerate(d["members"]):
        m["rack"] = f"r{i}"
    for p in d["partitions"]:
        p["racks"] = [f"r{p['partition'] // 2}"]
        p["owner"] = f"m{p['partition'] % 2}"
    answer = _answer(d)
    assert answer["certificate"]["cross_rack_load"] == 0
    assert "own rack" in answer["moves"][0]["why"]
    d["options"] = {"rack_aware": False}
    assert _answer(d)["certificate"]["moves"] == 0


def test_incompatible_pairs_are_separated(document: Make) -> None:
    """A named pair does not share a member when it need not, and the move says so."""
    d = document([1.0, 1.0, 1.0, 1.0], incompatible=[[["t", 0], ["t", 1]]])
    for p in d["partitions"]:
        p["owner"] = "m0" if p["partition"] < 2 else "m1"
    answer = _answer(d)
    assert answer["certificate"]["conflicts"] == 0
    assert any("apart from t-" in move["why"] for move in answer["moves"])


def test_topic_without_subscribers_is_listed(document: Make) -> None:
    """A topic that nobody subscribes to is left unassigned and listed."""
    d = document([1.0])
    d["partitions"].append({"topic": "lonely", "partition": 0, "load": 5.0})
    assert _answer(d)["unassigned"] == [["lonely", 0]]


def test_edges_have_answers(document: Make) -> None:
    """No members, no partitions, and one member with ten thousand are answered."""
    assert _answer(document([1.0], members=0))["unassigned"] == [["t", 0]]
    assert _answer(document([]))["assignment"] == {"m0": [], "m1": []}
    assert len(_answer(document([1.0] * 10_000, members=1))["assignment"]["m0"]) == 10_000


def test_moves_are_counted_as_asked(document: Make) -> None:
    """By count one big partition leaves; by load several small ones, together lighter."""
    d = document([4.0, 1.0, 1.0, 1.0, 1.0, 4.0])
    for p in d["partitions"]:
        p["owner"] = "m0" if p["partition"] < 5 else "m1"
    d["options"] = {"imbalance": 0.17, "move_unit": "count"}
    by_count = _answer(d)["certificate"]
    d["options"]["move_unit"] = "load"
    by_load = _answer(d)["certificate"]
    assert by_count["moves"] <= by_load["moves"]
    assert by_load["moved_load"] <= by_count["moved_load"]


@pytest.mark.parametrize("unit", [1e-309, 1.0, 1e17])
def test_loads_next_to_nothing_are_loads(document: Make, unit: float) -> None:
    """Only ratios count, down to loads whose inverse is past all floats."""
    d = document([3 * unit, unit, unit, unit])
    c = _answer(d)["certificate"]
    assert c["ratio"] == pytest.approx(1.0)
