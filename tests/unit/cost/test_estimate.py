"""Properties of the rates that `cost` estimates from counter samples."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost.estimate import CONFIDENCE, REASON, Rates, estimate
from cost.rates import EMPTY, Block, History, Memory, block, fold

MEMORY = Memory()
EPOCH_MS = 1_700_000_000_000


@dataclass
class Log:
    """A partition's log as a broker would report it, one sample every 10 s."""

    records_per_sample: list[int]
    record_bytes: int = 100
    broker: str = "1"
    topic_id: str | None = "T"
    leader_epoch: int = 3
    partition: int = 0
    segment_records: int | None = None
    """Delete the oldest segments of this many records; at most three stay."""
    samples: list[Block] = field(default_factory=list)

    def run(self, first_sample: int = 0, end: int = 1000) -> "Log":
        """Let the log grow from `end` and sample it."""
        start = 0
        for index, records in enumerate([0, *self.records_per_sample]):
            end += records
            if self.segment_records:
                start = max(start, (end // self.segment_records - 2) * self.segment_records)
            self.samples.append(self.sample(first_sample + index, start, end))
        return self

    def sample(self, index: int, start: int, end: int) -> Block:
        """Give one sample of the log."""
        return block(
            "orders",
            ms=EPOCH_MS + 10_000 * index,
            broker=self.broker,
            partition=[self.partition],
            end_offset=[end],
            log_size_bytes=[(end - start) * self.record_bytes],
            topic_id=self.topic_id,
            leader_epoch=[self.leader_epoch],
            log_start_offset=[start],
        )


def history_of(*logs: Log) -> History:
    """Fold all samples of some logs."""
    return fold(EMPTY, [sample for log in logs for sample in log.samples], MEMORY)


def rates_of(history: History) -> Rates:
    """Estimate at the newest sample."""
    return estimate(history, int(history.rows["ms"].max()), MEMORY)


def said(rates: Rates, row: int = 0) -> tuple[str, str | None]:
    """Give confidence and reason in words."""
    return CONFIDENCE[rates.confidence[row]], REASON[rates.reason[row]]


def test_steady_traffic_is_measured_exactly() -> None:
    """A log that grows evenly has its rate, its samples counted and no reason."""
    rates = rates_of(history_of(Log([50] * 12).run()))
    assert rates.records_per_s[0] == 5
    assert rates.bytes_per_s[0] == 500
    assert (rates.samples[0], rates.samples_expected[0]) == (6, 6)
    assert said(rates) == ("measured", None)


def test_retention_leaves_bytes_alone() -> None:
    """Segments deleted in most steps neither raise nor lower the rate; the reason is given."""
    rates = rates_of(history_of(Log([1000] * 12, segment_records=3700).run()))
    assert rates.bytes_per_s[0] == pytest.approx(10_000)
    assert said(rates) == ("partial", "retention")


def test_retention_in_every_step_falls_back_to_the_log_as_a_whole() -> None:
    """With a deletion in each step the mean record size is that of the whole log."""
    rates = rates_of(history_of(Log([1000] * 12, segment_records=500).run()))
    assert rates.bytes_per_s[0] == pytest.approx(10_000)
    assert rates.bytes_per_s_stderr[0] >= 0.09 * 10_000


def test_compaction_is_told_from_retention() -> None:
    """A log that shrinks behind an unmoved start offset keeps its record size."""
    log = Log([100] * 12).run()
    for sample in log.samples[6:]:
        sample.rows["size"] -= 55_000
    rates = rates_of(history_of(log))
    assert rates.bytes_per_s[0] == pytest.approx(1000)
    assert said(rates) == ("partial", "compacted")


def test_a_moved_leader_keeps_the_rate() -> None:
    """The new leader's log has another size; offsets go on, the rate stays, the reason is given."""
    before = Log([100] * 9).run()
    after = Log([100] * 3, broker="2", leader_epoch=4).run(first_sample=10, end=2000)
    for sample in after.samples:
        sample.rows["size"] += 10_000_000
    rates = rates_of(history_of(before, after))
    assert rates.bytes_per_s[0] == pytest.approx(1000)
    assert said(rates) == ("partial", "leader-moved")


def test_a_fenced_leader_is_not_believed() -> None:
    """Samples of a lower epoch that come after a higher one change nothing."""
    log = Log([100] * 12).run()
    zombie = Log([0] * 3, broker="9", leader_epoch=2).run(first_sample=8, end=1300)
    for sample in zombie.samples:
        sample.rows["ms"] += 5_000
    assert rates_of(history_of(log, zombie)).records_per_s[0] == 10


def test_a_recreated_topic_starts_afresh() -> None:
    """The old life's rate is shown as prior until the new one has a step of its own."""
    old = Log([100] * 9).run()
    new = Log([500] * 3, topic_id="U", leader_epoch=0).run(first_sample=10, end=0)
    first = rates_of(history_of(old, Log([], topic_id="U").run(first_sample=10, end=0)))
    assert (first.records_per_s[0], said(first)) == (10, ("prior", "recreated"))
    later = rates_of(history_of(old, new))
    assert (later.records_per_s[0], said(later)) == (50, ("partial", "recreated"))


def test_recreation_that_outgrew_the_old_log_is_seen() -> None:
    """A topic id shows re-creation even where every counter has only grown."""
    old = Log([10] * 3).run(end=0)
    new = Log([], topic_id="U").run(first_sample=4, end=1_000_000)
    assert rates_of(history_of(old, new)).records_per_s[0] == 1


@pytest.mark.parametrize("steps", [1, 2])
def test_a_thousandfold_jump_is_held_back(steps: int) -> None:
    """One or two steps beyond belief do not reach the rate."""
    rates = rates_of(history_of(Log([100] * 9 + [100_000] * steps).run()))
    assert (rates.records_per_s[0], said(rates)) == (10, ("partial", "jump"))


def test_a_confirmed_jump_is_believed() -> None:
    """Three steps at the new level are traffic."""
    rates = rates_of(history_of(Log([100] * 9 + [100_000] * 3).run()))
    assert rates.records_per_s[0] == pytest.approx((3 * 100 + 3 * 100_000) / 60)


def test_a_slip_of_units_in_sizes_is_held_back() -> None:
    """Log sizes that are suddenly a thousand times larger leave bytes/s where they were."""
    log = Log([100] * 12).run()
    for sample in log.samples[-3:]:
        sample.rows["size"] *= 1000
    assert rates_of(history_of(log)).bytes_per_s[0] == pytest.approx(1000)


def test_a_silent_broker_gives_no_zero() -> None:
    """A partition no longer sampled keeps its last rate, then says prior, then is left out."""
    other = Log([10] * 120, partition=1).run()
    log = Log([100] * 12).run()
    history = EMPTY
    told = {}
    for index, sample in enumerate(other.samples):
        history = fold(history, [sample, *log.samples[index : index + 1]], MEMORY)
        rates = estimate(history, EPOCH_MS + 10_000 * index, MEMORY)
        told[index] = dict(zip(rates.partition.tolist(), rates.records_per_s, strict=True))
        if index in {14, 15, 30}:
            expected = {14: ("measured", None), 15: ("partial", "gap"), 30: ("prior", "gap")}
            assert said(rates) == expected[index]
    assert {told[index].get(0) for index in range(1, 102)} == {10}
    assert 0 not in told[120]


def test_a_silent_partition_is_idle_but_not_certain() -> None:
    """No record in a window is a rate of zero with an error of one record."""
    rates = rates_of(history_of(Log([0] * 12).run()))
    assert (rates.records_per_s[0], said(rates)) == (0, ("measured", None))
    assert rates.records_per_s_stderr[0] == pytest.approx(1 / 60)


def test_one_sample_is_no_rate() -> None:
    """A partition seen once is left out: its rate is not known."""
    assert len(rates_of(history_of(Log([]).run())).partition) == 0


def test_a_late_collector_clock_makes_no_spike() -> None:
    """A new leader's samples stamped 9 s early do not squeeze ten seconds into one."""
    before = Log([100] * 2).run()
    after = Log([100], broker="2", leader_epoch=4).run(first_sample=3, end=1300)
    for sample in after.samples:
        sample.rows["ms"] -= 9_000
    assert rates_of(history_of(before, after)).records_per_s[0] == 10


counters = st.lists(st.integers(0, 1000), min_size=2, max_size=12)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(counters, min_size=1, max_size=4),
    st.randoms(use_true_random=False),
    st.integers(1, 5),
)
def test_order_duplicates_and_portions_do_not_matter(
    growth: list[list[int]], random: "object", portions: int
) -> None:
    """Any order, duplication and division of the same samples gives the same history."""
    logs = [Log(g, partition=p).run() for p, g in enumerate(growth)]
    samples = [sample for log in logs for sample in log.samples]
    whole = fold(EMPTY, samples, MEMORY)
    shuffled = samples + samples[: len(samples) // 2]
    random.shuffle(shuffled)  # type: ignore[attr-defined] # Hypothesis hands out a Random
    kept_all = Memory(lateness_ms=1_000_000)
    parts = EMPTY
    for part in range(portions):
        parts = fold(parts, shuffled[part::portions], kept_all)
    parts = fold(parts, samples[:1], MEMORY)
    assert parts.topics == whole.topics
    assert (parts.rows == whole.rows).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(counters, min_size=1, max_size=3), st.integers(0, 3))
def test_forgetting_changes_no_estimate(growth: list[list[int]], late: int) -> None:
    """What is forgotten is not looked at, for any time that is not yet final."""
    logs = [Log(g, partition=p, segment_records=300).run() for p, g in enumerate(growth)]
    samples = sorted((s for log in logs for s in log.samples), key=lambda s: int(s.rows["ms"][0]))
    history = everything = EMPTY
    for sample in samples:
        history = fold(history, [sample], MEMORY)
        everything = fold(everything, [sample], Memory(lateness_ms=10**9, ttl_ms=10**12))
        at_ms = int(history.rows["ms"].max()) - late * 10_000
        ours, full = estimate(history, at_ms, MEMORY), estimate(everything, at_ms, MEMORY)
        shown = np.isin(full.partition, ours.partition)
        assert (full.bytes_per_s[shown] == ours.bytes_per_s).all()
        assert (full.records_per_s_stderr[shown] == ours.records_per_s_stderr).all()
        assert (full.reason[shown] == ours.reason).all()


@pytest.mark.parametrize("correlation_s", [0, 6])
@pytest.mark.parametrize("interval_s", [5, 10])
def test_standard_errors_are_honest(correlation_s: int, interval_s: int) -> None:
    """On stationary random traffic 90 to 98 % of true rates lie within two standard errors."""
    seed = 11
    partitions, seconds = 3000, 180
    rng = np.random.default_rng(seed)
    level = np.full((partitions, seconds), 20.0)
    if correlation_s:
        phi = np.exp(-1 / correlation_s)
        noise = rng.normal(size=(partitions, seconds + 60))
        for t in range(1, seconds + 60):
            noise[:, t] = phi * noise[:, t - 1] + np.sqrt(1 - phi**2) * noise[:, t]
        level = 20 * np.exp(0.3 * noise[:, 60:] - 0.045)
    records = rng.poisson(level)
    record_bytes = rng.lognormal(6, 0.5, size=records.shape) / np.sqrt(np.maximum(records, 1))
    record_bytes += np.exp(6 + 0.125) - record_bytes.mean()
    ends = np.cumsum(records, axis=1)
    sizes = np.cumsum(records * record_bytes, axis=1).astype(np.int64)
    history = fold(
        EMPTY,
        [
            block(
                "t",
                ms=EPOCH_MS + 1000 * t,
                broker="1",
                partition=range(partitions),
                end_offset=ends[:, t].tolist(),
                log_size_bytes=sizes[:, t].tolist(),
                log_start_offset=[0] * partitions,
            )
            for t in range(0, seconds, interval_s)
        ],
        MEMORY,
    )
    rates = estimate(history, EPOCH_MS + 1000 * seconds, MEMORY)
    true_records = 20.0
    true_bytes = float((records * record_bytes).mean())
    for value, error, truth in (
        (rates.records_per_s, rates.records_per_s_stderr, true_records),
        (rates.bytes_per_s, rates.bytes_per_s_stderr, true_bytes),
    ):
        covered = np.mean(np.abs(value - truth) <= 2 * error)
        assert 0.90 <= covered <= 0.98, f"seed {seed}: {covered}"


def test_one_odd_step_does_not_outweigh_the_log() -> None:
    """Under constant retention a single clean step read at a bad moment teaches no size."""
    log = Log([1000] * 12, segment_records=900).run()
    for sample in log.samples[:4]:
        sample.rows["start"] = log.samples[0].rows["start"]
    log.samples[1].rows["size"] = log.samples[0].rows["size"] + 300_000
    rates = rates_of(history_of(log))
    assert rates.bytes_per_s[0] == pytest.approx(10_000, rel=0.05)
