"""What a takeover republishes, as a function of what stands on the control topic."""

from collections.abc import Callable

from agent import wire
from agent.core.events import Record
from agent.publish import _republished


def test_takeover_republishes_the_last_good_target_of_each_group(
    a_target: Callable[[int, int], wire.Target],
) -> None:
    """Garbage and targets of a fenced agent are passed over; a tombstone forgets; ms stays."""

    def target(epoch: int, revision: int) -> bytes:
        return wire.encode(a_target(epoch, revision))

    claim = wire.encode(wire.Claim(ms=1, agent="a", topic_id="t"))
    log = [
        ("claim", claim),
        ("g", target(0, 3)),
        ("gone", target(0, 1)),
        ("claim", claim),
        ("g", target(3, 4)),
        ("g", target(0, 9)),
        ("g", b"\x00garbage"),
        ("gone", None),
    ]
    records = [Record(1, wire.TARGETS, key, value, i) for i, (key, value) in enumerate(log)]

    ((name, value),) = _republished(records, 8)
    again = wire.decode(wire.Target, value)

    assert name == "g"
    assert (again.epoch, again.revision, again.ms) == (8, 4, 1)
