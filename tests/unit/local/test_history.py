"""Verdicts on journals: each violation is found, and nothing else."""

import json
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.local import history as h
from deploy.local import measures as m

P0, P1 = h.Partition("t", 0), h.Partition("t", 1)
Row = tuple[str, int, int, int, int, int, int, int, int]


def assigned(
    ms: int, client: str, generation: int, owned: Sequence[int], added: Sequence[int]
) -> str:
    """Write an `assigned` line."""
    line = {"event": "assigned", "ms": ms, "client": client, "generation": generation}
    return json.dumps({**line, "partitions": {"t": added}, "owned": {"t": owned}}) + "\n"


def revoked(ms: int, client: str, generation: int, partitions: Sequence[int]) -> str:
    """Write a `revoked` line."""
    line = {"event": "revoked", "ms": ms, "client": client, "generation": generation}
    return json.dumps({**line, "partitions": {"t": partitions}}) + "\n"


def processed(ms: int, client: str, *runs: Row) -> str:
    """Write a `processed` line whose records all took 100 ms."""
    count = sum(run[3] - run[2] + 1 for run in runs)
    line = {"event": "processed", "ms": ms, "client": client, "runs": runs}
    return json.dumps({**line, "latency": [[41, count]]}) + "\n"


def run(partition: int, first: int, last: int, start: int, end: int) -> Row:
    """Write a run of 10-byte records that were produced 100 ms before."""
    return ("t", partition, first, last, 10 * (last - first + 1), start, end, start - 100, 5)


HANDOVER = [
    [
        assigned(0, "a", 1, [0, 1], [0, 1]),
        processed(500, "a", run(0, 0, 9, 100, 400), run(1, 0, 9, 100, 400)),
        revoked(600, "a", 2, [1]),
        assigned(601, "a", 2, [0], []),
        processed(1000, "a", run(0, 10, 19, 500, 900)),
        assigned(1001, "a", 3, [0], []),
    ],
    [
        assigned(602, "b", 2, [], []),
        assigned(1002, "b", 3, [1], [1]),
        processed(1500, "b", run(1, 10, 14, 1200, 1400)),
    ],
]


def test_a_clean_handover_has_no_fault() -> None:
    """A cooperative move is neither double ownership nor overlap nor loss nor repetition."""
    history = h.read_history(HANDOVER)
    assert h.double_owned(history) == []
    assert h.overlaps(history) == []
    assert h.coverage(history) == h.Coverage(processed=35, redelivered=0, lost=())


def test_two_owners_in_a_generation_are_found() -> None:
    """A partition held by two members in one generation is named with both."""
    history = h.read_history(
        [[assigned(0, "a", 4, [0, 1], [0, 1])], [assigned(9, "b", 4, [1], [1])]]
    )
    assert h.double_owned(history) == [h.DoubleOwned(4, P1, ("a", "b"))]


def test_processing_after_the_other_began_is_found() -> None:
    """A consumer still at work on a partition that another one processes is an overlap."""
    history = h.read_history(
        [
            [processed(500, "a", run(0, 0, 9, 100, 400))],
            [processed(600, "b", run(0, 5, 9, 350, 500))],
        ]
    )
    assert [overlap.partition for overlap in h.overlaps(history)] == [P0]
    assert h.coverage(history).redelivered == 5


def test_a_skipped_offset_is_lost() -> None:
    """Offsets below a processed one that nobody processed are reported as a range."""
    history = h.read_history([[processed(9, "a", run(0, 0, 3, 1, 2), run(0, 7, 9, 3, 4))]])
    assert h.coverage(history).lost == ((P0, 4, 6),)
    assert h.coverage(history).lost_records == 3


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)), min_size=1, max_size=12))
def test_coverage_agrees_with_counting(spans: list[tuple[int, int]]) -> None:
    """Lost and repeated counts are those of counting single offsets."""
    rows = [run(0, first, first + more, at, at) for at, (first, more) in enumerate(spans)]
    seen = [offset for first, more in spans for offset in range(first, first + more + 1)]
    verdict = h.coverage(h.read_history([[processed(99, "a", *rows)]]))
    assert verdict.processed == len(seen)
    assert verdict.redelivered == len(seen) - len(set(seen))
    assert verdict.lost_records == max(seen) + 1 - len(set(seen))


def test_moves_name_both_ends_and_times() -> None:
    """A move runs from the revocation at the source to the assignment at the destination."""
    history = h.read_history(HANDOVER)
    assert h.moves(history) == [h.Move(P1, "a", "b", 600, 1002)]
    assert h.owners_at(history, 900) == {P0: "a", P1: "a"}
    assert h.owners_at(history, 1002) == {P0: "a", P1: "b"}


def test_a_killed_source_left_when_it_last_processed() -> None:
    """A source that never revoked is taken to have left at its last processed record."""
    journals = [
        [assigned(0, "a", 1, [0], [0]), processed(500, "a", run(0, 0, 9, 100, 400))],
        [assigned(7000, "b", 2, [0], [0]), processed(7500, "b", run(0, 8, 20, 7100, 7400))],
    ]
    history = h.read_history(journals)
    assert h.moves(history) == [h.Move(P0, "a", "b", 400, 7000)]
    assert m.moved_pauses_ms(history, h.moves(history)) == [100]  # produced at 7000


def test_pause_starts_at_the_revocation_or_the_next_record() -> None:
    """A moved partition's pause is from its revocation, or its next record, to processing it."""
    history = h.read_history(HANDOVER)
    moved = h.moves(history)
    assert m.moved_pauses_ms(history, moved) == [100]  # produced at 1100, processed at 1200
    assert m.unmoved_pauses_ms(history, moved, 0, 2000) == [5]


def test_applied_is_when_the_last_member_complies() -> None:
    """A target is applied when every named member holds exactly its part, not before."""
    history = h.read_history(HANDOVER)
    assert h.applied_ms(history, {"a": {"t": [0]}, "b": {"t": [1]}}, 0) == 1002
    assert h.applied_ms(history, {"a": {"t": [1]}, "b": {"t": [0]}}, 0) is None


def test_an_unfinished_last_line_is_left_out() -> None:
    """The torn line of a killed consumer is no error."""
    assert h.read_history([['{"event":"assi']]) == h.read_history([[]])


def test_delivered_and_lag_agree_with_the_truth() -> None:
    """Delivered bytes count repeated records once, and lag is produced minus delivered."""
    journals = [
        [processed(500, "a", run(0, 0, 9, 100, 400))],
        [processed(900, "b", run(0, 5, 14, 500, 800))],
    ]
    history = h.read_history(journals)
    produced = np.array([[0.0], [200.0]])
    truth = m.Truth((P0,), np.array([0.0, 1000.0]), produced, 20)
    assert m.delivered_bytes(history, 0, 1000) == pytest.approx(150)
    assert m.lag_bytes(history, truth, [1000]) == pytest.approx([50])
    assert truth.between(250, 750) == {P0: pytest.approx(100)}


def test_load_per_client_conserves_bytes() -> None:
    """The steps of the load series add up to all processed bytes."""
    history = h.read_history(HANDOVER)
    _, loads = m.load_per_client(history, 0, 2000, 250)
    assert sum(float(series.sum()) for series in loads.values()) * 0.25 == pytest.approx(350)


@given(st.integers(0, 10**7))
@settings(max_examples=100, deadline=None)
def test_latency_buckets_are_narrow(ms: int) -> None:
    """The middle of the bucket that the consumer counts a latency in is within 3.2 % of it."""
    exponent = max(0, ms.bit_length() - 5)
    bucket = ms if ms < 16 else 16 * (exponent + 1) + (ms >> exponent) - 16
    assert abs(m.bucket_ms(bucket) - ms) <= max(0.5, 0.032 * ms)


def test_balance_predicts_what_capped_consumers_deliver() -> None:
    """One consumer with all the load delivers its cap, one with nothing delivers nothing."""
    verdict = m.balance({P0: 3e6, P1: 1e6}, {P0: "a", P1: "a"}, ["a", "b"], cap=2.5e6)
    assert verdict == m.Balance(2.0, 4.0, 0.625)
