"""Samples brokers through the Prometheus that already scrapes them.

Counters come from Prometheus; who leads a partition, under which epoch and topic id, comes from
the cluster itself. Three traps of this way:

- An instant query answers with the time of the query, not of the scrape. The sample's time is
  therefore `timestamp(series)`: asking twice between two scrapes gives the same sample twice,
  never a rate of zero, and a dead broker's last values give no new sample at all.
- Log sizes and end offsets come from every replica. Only the leader's are taken.
- Just after a move Prometheus still shows the old leader. Which instance is which broker is learned
  from the partitions that both agree on; a partition on which they differ is left out.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from kafka.errors import KafkaError

from agent.collector.kafka_source import KafkaSource
from agent.collector.profiles import Profile
from agent.collector.prometheus_client import PrometheusClient, PrometheusUnreachableError, Series
from agent.collector.sample import BrokerSample, PartitionSample, Sample
from agent.collector.topology import PartitionPlace, Topology, describe

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Per instance and partition: value by role, and the time of the scrape in ms."""

    values: dict[str, dict[tuple[str, Place], float]]
    scraped_ms: dict[str, int]

    def leaders(self) -> dict[Place, str]:
        """Give the instance that leads each partition, as far as the readings tell."""
        ends = self.values["end_offset"]
        if self.values.get("leader"):
            marked = self.values["leader"]
            candidates = {key: ends[key] for key in ends if marked.get(key, 0) > 0}
        else:
            candidates = ends
        best: dict[Place, tuple[float, str]] = {}
        for (instance, place), end in candidates.items():
            best[place] = max(best.get(place, (-1.0, "")), (end, instance))
        return {place: instance for place, (_, instance) in best.items()}


class PrometheusSource:
    """Counters by one profile. `kafka` answers what Prometheus cannot."""

    name = "prometheus"

    def __init__(
        self,
        client: PrometheusClient,
        profile: Profile,
        kafka: KafkaSource,
    ) -> None:
        self._client = client
        self._profile = profile
        self._kafka = kafka

    def sample(self) -> Sample:
        """Sample what Prometheus has scraped of each broker."""
        sample = Sample()
        try:
            topology = describe(self._kafka.admin(), accept=self._kafka.accept)
            readings = read(self._client, self._profile, self._kafka.clock.now_ms() / 1000)
        except (KafkaError, OSError):
            sample.miss("cluster-unreachable")
            return sample
        except PrometheusUnreachableError:
            sample.miss("prometheus-unreachable")
            return sample
        sizes = None
        if self._profile.log_size is None:
            sizes = self._kafka.log_sizes(topology)
        sample.brokers = combine(topology, readings, sizes, sample)
        return sample

    def close(self) -> None:
        """Close connections."""
        self._kafka.close()


def read(client: PrometheusClient, profile: Profile, at_s: float) -> Readings:
    """Ask for all roles of a profile at one time. Raises PrometheusUnreachableError."""
    values = {
        role: _by_place(client.query(selector, at_s), profile)
        for role, selector in profile.selectors().items()
    }
    times = client.query(f"timestamp({profile.end_offset})", at_s)
    by_instance: dict[str, list[float]] = {}
    for (instance, _), scraped_s in _by_place(times, profile).items():
        by_instance.setdefault(instance, []).append(scraped_s)
    scraped_ms = {
        instance: round(sorted(found)[len(found) // 2] * 1000)
        for instance, found in by_instance.items()
    }
    return Readings(values, scraped_ms)


def combine(
    topology: Topology,
    readings: Readings,
    kafka_sizes: Mapping[tuple[int, str, int], int] | None,
    sample: Sample,
) -> list[BrokerSample]:
    """Join counters with the cluster's own description; count in `sample` what does not fit."""
    leaders = readings.leaders()
    places = {(place.topic, place.partition): place for place in topology.places}
    brokers = _brokers_of(leaders, places) if readings.values.get("leader") else {}
    rows: dict[tuple[int, str], list[PartitionSample]] = {}
    for place, described in places.items():
        instance = leaders.get(place)
        if instance is None or described.leader < 0:
            sample.miss("no-series" if instance is None else "no-leader")
            continue
        if brokers.get(instance, described.leader) != described.leader:
            sample.miss("leader-unsettled")
            continue
        size = (
            readings.values["log_size"].get((instance, place))
            if kafka_sizes is None
            else kafka_sizes.get((described.leader, *place))
        )
        end = readings.values["end_offset"][instance, place]
        if size is None or size < 0 or end < 0:
            sample.miss("no-size" if size is None or size < 0 else "no-offset")
            continue
        start = readings.values.get("log_start_offset", {}).get((instance, place))
        row = _row(described, end, size, start)
        rows.setdefault((described.leader, instance), []).append(row)
    return [
        BrokerSample(str(broker), readings.scraped_ms[instance], topology.racks.get(broker), part)
        for (broker, instance), part in sorted(rows.items())
    ]


def _brokers_of(
    leaders: Mapping[Place, str], places: Mapping[Place, PartitionPlace]
) -> dict[str, int]:
    """Learn which broker each instance is from the partitions that it leads."""
    votes: dict[str, Counter[int]] = {}
    for place, instance in leaders.items():
        described = places.get(place)
        if described is not None and described.leader >= 0:
            votes.setdefault(instance, Counter())[described.leader] += 1
    return {instance: count.most_common(1)[0][0] for instance, count in votes.items()}


def _by_place(series: list[Series], profile: Profile) -> dict[tuple[str, Place], float]:
    """Key series by instance and partition; totals, which name none, are left out."""
    found = {}
    for row in series:
        topic = row.labels.get(profile.topic_label)
        partition = row.labels.get(profile.partition_label, "")
        if topic and partition.isdecimal():
            instance = row.labels.get(profile.instance_label, "")
            found[instance, (topic, int(partition))] = row.value
    return found


def _row(place: PartitionPlace, end: float, size: float, start: float | None) -> PartitionSample:
    return PartitionSample(
        topic=place.topic,
        partition=place.partition,
        end_offset=int(end),
        log_size_bytes=int(size),
        log_start_offset=None if start is None or start < 0 else int(start),
        leader_epoch=place.leader_epoch if place.leader_epoch >= 0 else None,
        topic_id=place.topic_id,
    )
