"""Properties of plans that hold for every problem."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from agent import assign

Document = dict[str, Any]

relaxed = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def _without_times(answer: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in answer.items() if k != "elapsed_ms"}


def _owned_by(document: Document, answer: dict[str, Any]) -> Document:
    owner = {(t, p): m for m, held in answer["assignment"].items() for t, p in held}
    after = deepcopy(document)
    for p in after["partitions"]:
        p["owner"] = owner.get((p["topic"], p["partition"]))
    return after


@relaxed
@given(data=st.data())
def test_every_plan_is_valid(documents: st.SearchStrategy[Document], data: st.DataObject) -> None:
    """Every subscribed partition has exactly one owner, live and subscribed, and pins are kept."""
    document = data.draw(documents)
    answer: Any = assign.answer(document)
    subscribed = {m["id"]: set(m["topics"]) for m in document["members"]}
    owner = {}
    for member, held in answer["assignment"].items():
        for topic, number in held:
            assert topic in subscribed[member]
            assert (topic, number) not in owner
            owner[topic, number] = member
    readable = set().union(*subscribed.values())
    wanted = {(p["topic"], p["partition"]) for p in document["partitions"]}
    assert set(owner) == {key for key in wanted if key[0] in readable}
    assert {(t, p) for t, p in answer.get("unassigned", [])} == wanted - set(owner)
    for topic, number, member in document["pin"]:
        if (topic, number) in owner and topic in subscribed.get(member, ()):
            assert owner[topic, number] == member


@relaxed
@given(data=st.data())
def test_certificate_is_consistent(
    documents: st.SearchStrategy[Document], data: st.DataObject
) -> None:
    """Bounds never exceed what they bound, and moves are counted as the contract defines them."""
    document = data.draw(documents)
    answer: Any = assign.answer(document)
    c = answer["certificate"]
    assert c["lower_bound"] <= c["max_utilisation"] * (1 + 1e-9)
    assert c["moves_lower_bound"] <= c["moves"] == len(answer["moves"])
    assert c["cross_rack_lower_bound"] <= c["cross_rack_load"] + 1e-9
    owner = {(t, p): m for m, held in answer["assignment"].items() for t, p in held}
    subscribed = {m["id"]: set(m["topics"]) for m in document["members"]}
    moved = [
        p
        for p in document["partitions"]
        if p["topic"] in subscribed.get(p["owner"], ())
        and owner[p["topic"], p["partition"]] != p["owner"]
    ]
    assert len(moved) == c["moves"]
    assert all(len(m["why"]) > 5 for m in answer["moves"])


@relaxed
@given(data=st.data())
def test_its_own_answer_is_a_fixed_point(
    documents: st.SearchStrategy[Document], data: st.DataObject
) -> None:
    """Planned again from its own answer, nothing moves and the assignment is the same."""
    document = data.draw(documents)
    first: Any = assign.answer(document)
    again: Any = assign.answer(_owned_by(document, first))
    assert again["certificate"]["moves"] == 0
    assert again["assignment"] == first["assignment"]


@relaxed
@given(data=st.data())
def test_listing_order_changes_nothing(
    documents: st.SearchStrategy[Document], data: st.DataObject
) -> None:
    """Members and partitions listed in another order give the same answer."""
    document = data.draw(documents)
    turned = {
        **document,
        "members": document["members"][::-1],
        "partitions": document["partitions"][::-1],
    }
    first, second = assign.answer(document), assign.answer(turned)
    assert _without_times(first) == _without_times(second)


LOAD_MIN = 1e-290
"""Below it a float has fewer digits than the next scale would need."""


@relaxed
@given(data=st.data(), factor=st.sampled_from([1000, 0.001, 3]))
def test_scale_changes_nothing(
    documents: st.SearchStrategy[Document], data: st.DataObject, factor: float
) -> None:
    """All loads multiplied by one number give the same assignment (without an absolute rule)."""
    document = data.draw(documents)
    if document["options"]["incompatibility"] == "astraea":
        document["options"]["incompatibility"] = "none"
    scaled = deepcopy(document)
    for p in scaled["partitions"]:
        assume(p["load"] == 0 or p["load"] > LOAD_MIN)
        p["load"] *= factor
    first: Any = assign.answer(document)
    second: Any = assign.answer(scaled)
    assert first["assignment"] == second["assignment"]


@relaxed
@given(data=st.data(), moves_max=st.integers(0, 4))
def test_move_budget_is_kept(
    documents: st.SearchStrategy[Document], data: st.DataObject, moves_max: int
) -> None:
    """Discretionary moves stay within max_moves; everything still has an owner."""
    document = data.draw(documents)
    document["pin"], document["exclude"] = [], []
    document["options"]["max_moves"] = moves_max
    answer: Any = assign.answer(document)
    assert answer["certificate"]["moves"] <= moves_max


@pytest.mark.parametrize("loads", [[0.0] * 12, [5.0] * 12])
def test_equal_partitions_spread_by_count(document: Any, loads: list[float]) -> None:
    """Partitions of equal load, idle ones too, are dealt evenly when nobody owns them."""
    answer: Any = assign.answer(document(loads, members=4))
    assert sorted(len(held) for held in answer["assignment"].values()) == [3, 3, 3, 3]


@relaxed
@given(data=st.data(), moves_max=st.integers(0, 4))
def test_a_trimmed_plan_is_the_plan_within_the_budget(
    documents: st.SearchStrategy[Document], data: st.DataObject, moves_max: int
) -> None:
    """Cutting the full plan down gives what planning with the budget gives."""
    problem = assign.parse(data.draw(documents))
    short = replace(problem, options=replace(problem.options, max_moves=moves_max))
    free = replace(problem, options=replace(problem.options, max_moves=None))
    trimmed = assign.trim(short, assign.solve(free))
    assert (trimmed.owner == assign.solve(short).owner).all()
    assert trimmed.moves == assign.solve(short).moves
