"""Refusals name the path; everything else of the contract is read."""

from collections.abc import Callable
from typing import Any

import pytest

from agent import assign
from agent.errors import TheirFault

Make = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    ("where", "value", "path"),
    [
        (("partitions", 0, "load"), -1.0, "partitions[0].load"),
        (("partitions", 1, "load"), float("nan"), "partitions[1].load"),
        (("partitions", 1, "load"), float("inf"), "partitions[1].load"),
        (("partitions", 1, "load"), 1e300, "partitions[1].load"),
        (("partitions", 1, "load"), 10**400, "partitions[1].load"),
        (("partitions", 1, "load"), "much", "partitions[1].load"),
        (("partitions", 1, "load_stderr"), -0.5, "partitions[1].load_stderr"),
        (("partitions", 1, "partition"), 0, "partitions[1]"),
        (("partitions", 1, "partition"), -1, "partitions[1].partition"),
        (("partitions", 1, "partition"), 1.5, "partitions[1].partition"),
        (("members", 1, "id"), "m0", "members[1].id"),
        (("members", 1, "capacity"), 0, "members[1].capacity"),
        (("members", 1, "capacity"), float("nan"), "members[1].capacity"),
        (("members", 1, "capacity"), float("inf"), "members[1].capacity"),
        (("members", 1, "topics"), None, "members[1].topics"),
        (("members",), {}, "members"),
        (("incompatible",), [[["t", 0], ["t", 99]]], "incompatible[0][1]"),
        (("options",), {"imbalance": -1}, "options.imbalance"),
        (("options",), {"imbalance": float("nan")}, "options.imbalance"),
        (("options",), {"incompatibility": "other"}, "options.incompatibility"),
        (("options",), {"max_moves": -1}, "options.max_moves"),
        (("options",), {"max_moved_load": float("nan")}, "options.max_moved_load"),
        (("pin",), [["t", 0, "m0"], ["t", 0, "m1"]], "pin[1]"),
        (("kind",), "streams-tasks", "kind"),
    ],
)
def test_bad_values_are_refused_by_path(
    document: Make, where: tuple[Any, ...], value: Any, path: str
) -> None:
    """Each bad value is refused with the path of the field that holds it."""
    d: Any = document([1.0, 2.0])
    at = d
    for key in where[:-1]:
        at = at[key]
    at[where[-1]] = value
    with pytest.raises(TheirFault) as caught:
        assign.answer(d)
    assert caught.value.path == path


@pytest.mark.parametrize("not_a_document", [None, 3, [], "x", {}])
def test_other_things_are_refused(not_a_document: object) -> None:
    """What is no document at all is refused, never a crash."""
    with pytest.raises(TheirFault):
        assign.answer(not_a_document)


def test_unknown_fields_are_ignored(document: Make) -> None:
    """Fields that a later version may add do no harm."""
    assert assign.answer(document([1.0], later={"x": 1}))["id"] == "small"


def test_stale_configuration_is_ignored(document: Make) -> None:
    """Pins and exclusions of what is not here are ignored, at the top or under options."""
    d = document([1.0], pin=[["t", 9, "m0"], ["t", 0, "gone"]], exclude=["gone"])
    d["options"] = {"pin": [["t", 0, "m1"]], "copartition": [["gone", "t"]]}
    answer: Any = assign.answer(d)
    assert answer["assignment"]["m1"] == [["t", 0]]
