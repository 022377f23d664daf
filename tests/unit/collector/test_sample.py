"""Samples become records; time is steady; missing is missing."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent import limits, wire
from agent.collector.clock import SLEW, follow, ticks
from agent.collector.profiles import Profile, read_profiles
from agent.collector.prometheus_source import Readings, combine
from agent.collector.sample import BrokerSample, PartitionSample, Sample, records
from agent.collector.topology import PartitionPlace, Topology
from agent.errors import TheirFault


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 2500), min_size=1, max_size=4))
def test_records_hold_every_partition_once_within_the_limit(sizes: list[int]) -> None:
    """Chunks cover the sample exactly, each below the limit, and pass the door's validation."""
    rows = [
        PartitionSample(f"t{number}", partition, 10, 100, 0, 1, "id")
        for number, size in enumerate(sizes)
        for partition in range(size)
    ]
    made = list(records(BrokerSample("1", 5, "r1", rows)))
    seen = []
    for number, record in enumerate(made):
        decoded = wire.decode(wire.BrokerMetrics, wire.encode(record))
        assert (decoded.chunk, decoded.chunks) == (number, len(made))
        held = [(topic.topic, p) for topic in decoded.topics for p in topic.partition]
        assert len(held) <= limits.BROKER_METRICS_PARTITIONS_MAX
        seen += held
    assert sorted(seen) == sorted((row.topic, row.partition) for row in rows)


@given(st.floats(-1e5, 1e5), st.floats(0, 1e4))
def test_the_clock_never_goes_back_nor_jumps(behind_s: float, elapsed_s: float) -> None:
    """Within a minute of the wall clock, time passes at 99.5 to 100.5 % of its pace."""
    now_s = 1_000_000.0
    after_s = follow(now_s, elapsed_s, now_s + elapsed_s + behind_s)
    if abs(behind_s) <= 60:
        assert abs(after_s - now_s - elapsed_s) <= SLEW * elapsed_s + 1e-6
    else:
        assert after_s == now_s + elapsed_s + behind_s


def test_a_slow_round_skips_ticks_and_says_so() -> None:
    """Ticks stay on their grid; those overrun are counted, not made up for."""
    stop = threading.Event()
    missed = []
    for number, count in enumerate(ticks(0.05, stop)):
        missed.append(count)
        if number == 1:
            threading.Event().wait(0.16)
        if number == 3:
            stop.set()
    assert missed[:2] == [0, 0]
    assert sum(missed) >= 2


TOPOLOGY = Topology(
    {1: "r1", 2: "r2"},
    [PartitionPlace("orders", n, "ID", leader, 7, (1, 2)) for n, leader in enumerate((1, 1, 2, 2))],
)


def readings(led_by: dict[int, str], **roles: dict[int, float]) -> Readings:
    """Give readings of two instances; each role maps partition to its leader's value."""
    instances = ("a", "b")
    values = {
        role: {(i, ("orders", n)): value for n, value in by.items() for i in instances}
        for role, by in roles.items()
    }
    values["leader"] = {(instance, ("orders", n)): 2.0 for n, instance in led_by.items()}
    return Readings(values, {"a": 1_000, "b": 1_400})


def test_counters_join_the_clusters_own_description() -> None:
    """Each broker's sample carries its instance's scrape time, and epoch and id of the cluster."""
    sample = Sample()
    four = {n: 10.0 * n for n in range(4)}
    found = readings({0: "a", 1: "a", 2: "b", 3: "b"}, end_offset=four, log_size=four)
    brokers = combine(TOPOLOGY, found, None, sample)
    assert [(b.broker, b.ms, b.rack) for b in brokers] == [("1", 1_000, "r1"), ("2", 1_400, "r2")]
    assert brokers[1].partitions[0] == PartitionSample("orders", 2, 20, 20, None, 7, "ID")
    assert not sample.missing


def test_a_partition_that_just_moved_is_left_out() -> None:
    """Where Prometheus still shows another leader than the cluster, nothing is said."""
    sample = Sample()
    four = dict.fromkeys(range(4), 10.0)
    found = readings({0: "a", 1: "a", 2: "a", 3: "b"}, end_offset=four, log_size=four)
    brokers = combine(TOPOLOGY, found, None, sample)
    assert sum(len(broker.partitions) for broker in brokers) == 3
    assert sample.missing == {"leader-unsettled": 1}


def test_a_missing_series_is_no_zero() -> None:
    """A partition without an end offset or a size is counted as missing and not sampled."""
    sample = Sample()
    found = readings(
        {n: "a" if n < 2 else "b" for n in range(4)},
        end_offset={0: 5.0, 1: 5.0, 2: 5.0},
        log_size={0: 5.0, 2: -1.0},
    )
    brokers = combine(TOPOLOGY, found, None, sample)
    assert [row.partition for broker in brokers for row in broker.partitions] == [0]
    assert sample.missing == {"no-series": 1, "no-size": 2}


def test_every_profile_shipped_can_be_used() -> None:
    """The shipped profiles parse, name an end offset, and cover the exporters people run."""
    profiles = read_profiles()
    assert {"jmx-default", "strimzi", "confluent", "jmx-raw", "kafka-exporter"} <= profiles.keys()
    assert {"kminion", "redpanda"} <= profiles.keys()
    assert all(isinstance(p, Profile) and p.end_offset for p in profiles.values())


def test_a_custom_profile_is_read_and_a_wrong_one_refused(
    tmp_path: "pytest.TempPathFactory",
) -> None:
    """A file adds profiles by name; a slip of the pen is refused with its place."""
    file = tmp_path / "mine.toml"  # type: ignore[operator] # pytest's own annotation is Path
    file.write_text('[mine]\ntitle = "ours"\nend_offset = "leo"\n')
    assert read_profiles(file)["mine"].end_offset == "leo"
    file.write_text('[mine]\ntitle = "ours"\nend_ofset = "leo"\n')
    with pytest.raises(TheirFault, match="mine"):
        read_profiles(file)
