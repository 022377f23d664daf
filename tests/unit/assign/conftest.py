"""Shared problems: documents of the contract and a Hypothesis strategy for them."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

Document = dict[str, Any]


@pytest.fixture
def document() -> Callable[..., Document]:
    """Give a maker of small valid documents: members m0…, one topic t, loads as told."""

    def make(loads: list[float], members: int = 2, **changes: Any) -> Document:
        base: Document = {
            "kind": "consumer-group",
            "id": "small",
            "members": [
                {"id": f"m{i}", "capacity": 1.0, "rack": None, "topics": ["t"]}
                for i in range(members)
            ],
            "partitions": [
                {"topic": "t", "partition": i, "load": load, "racks": [], "owner": None}
                for i, load in enumerate(loads)
            ],
        }
        return {**base, **changes}

    return make


@pytest.fixture(scope="session")
def documents() -> st.SearchStrategy[Document]:
    """Give a strategy of documents that differ in everything the contract knows."""
    return _documents()


@st.composite
def _documents(draw: st.DrawFn) -> Document:
    topics = [f"t{i}" for i in range(draw(st.integers(1, 4)))]
    racks = [None, "r1", "r2", "r3"]
    members = [
        {
            "id": f"m{i}",
            "capacity": draw(st.sampled_from([0.5, 1.0, 2.0])),
            "rack": draw(st.sampled_from(racks)),
            "topics": draw(st.lists(st.sampled_from(topics), unique=True)),
        }
        for i in range(draw(st.integers(0, 5)))
    ]
    owners = st.sampled_from([None, "gone", *(m["id"] for m in members)])
    loads = st.one_of(
        st.sampled_from([0.0, 1.0]), st.floats(0, 1e6, allow_nan=False, allow_infinity=False)
    )
    partitions = [
        {
            "topic": topic,
            "partition": number,
            "load": draw(loads),
            "racks": draw(st.lists(st.sampled_from(racks[1:]), unique=True)),
            "broker": draw(st.sampled_from([None, "1", "2"])),
            "owner": draw(owners),
        }
        for topic in topics
        for number in range(draw(st.integers(0, 6)))
    ]
    names = [[p["topic"], p["partition"]] for p in partitions]
    pairs = st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=4)
    pins = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["m0", "m1", "gone"])), max_size=2)
    return {
        "kind": "consumer-group",
        "id": "drawn",
        "members": members,
        "partitions": partitions,
        "incompatible": [list(p) for p in draw(pairs)] if names else [],
        "pin": [["t0", number, member] for number, member in dict(draw(pins)).items()],
        "exclude": draw(st.lists(st.sampled_from(["m0", "m4"]), unique=True)),
        "options": {
            "imbalance": draw(st.sampled_from([0.0, 0.05, 0.3])),
            "incompatibility": draw(st.sampled_from(["none", "network-ingress", "astraea"])),
            "rack_aware": draw(st.booleans()),
            "move_unit": draw(st.sampled_from(["count", "load"])),
        },
    }
