"""Samples brokers through the Kafka protocol alone; nothing needs to be installed on them.

Order matters: log start offsets first, then log sizes, then end offsets with the time. A segment
deleted in between then shows in the sizes no later than one sample before the start offset moves,
which the estimator expects; and sizes and end offsets are as close together as can be.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from agent.clients import Cluster
from agent.collector.bounds import CLIENT_ID, REQUEST_TIMEOUT_S
from agent.collector.clock import SteadyClock
from agent.collector.sample import PartitionSample, Sample, by_broker
from agent.collector.topology import PartitionPlace, Topology, describe

METADATA_AGE_MS_MAX: Final = 10_000
"""New brokers are seen within one usual interval."""

LEADER_AGE_MS_MAX: Final = 5_000
"""librdkafka keeps a leader's epoch for 15 minutes by default: a broker that was away and came back
would answer FENCED_LEADER_EPOCH for as long."""

RECONNECT_BACKOFF_MS_MAX: Final = 1_000
"""A broker that came back is asked again within a second."""

BROKERS_AT_ONCE: Final = 8
"""Brokers asked for log sizes at the same time; each answer takes a thread's time to decode."""

EARLIEST: Final = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # untyped there
LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # same
Key = tuple[str, int]


class KafkaSource:
    """End offsets, log start offsets and log sizes of all partitions that `accept` takes."""

    name = "kafka"

    def __init__(
        self,
        cluster: Cluster,
        accept: Callable[[str], bool],
        clock: SteadyClock,
    ) -> None:
        self._cluster = cluster
        self.accept = accept
        self.clock = clock
        offsets = cluster.confluent(client_id=CLIENT_ID, metadata_max_age_ms=LEADER_AGE_MS_MAX)
        self._offsets = AdminClient({**offsets, "log_level": 2})
        self._admin: KafkaAdminClient | None = None
        self._pool = ThreadPoolExecutor(BROKERS_AT_ONCE, thread_name_prefix="log-sizes")

    def sample(self) -> Sample:
        """Sample every broker that answers."""
        sample = Sample()
        try:
            topology = describe(self.admin(), accept=self.accept)
        except (KafkaError, OSError):
            self._forget_admin()
            sample.miss("cluster-unreachable")
            return sample
        led = [place for place in topology.places if place.leader >= 0]
        sample.miss("no-leader", len(topology.places) - len(led))
        starts = self._list_offsets(led, EARLIEST)
        sizes = self.log_sizes(topology)
        before_ms = self.clock.now_ms()
        ends = self._list_offsets(led, LATEST)
        ms = (before_ms + self.clock.now_ms()) // 2
        rows: dict[str, list[PartitionSample]] = {}
        for place in led:
            key = (place.topic, place.partition)
            size = sizes.get((place.leader, *key))
            if size is None:
                sample.miss("no-size")
            elif key not in ends:
                sample.miss("no-offset")
            else:
                row = _row(place, ends[key], size, starts.get(key))
                rows.setdefault(str(place.leader), []).append(row)
        racks = {str(broker): rack for broker, rack in topology.racks.items()}
        sample.brokers = by_broker(rows, ms, racks)
        return sample

    def admin(self) -> KafkaAdminClient:
        """Return the kafka-python client, connecting when needed; raises KafkaError."""
        if self._admin is None:
            self._admin = connect(self._cluster)
        return self._admin

    def log_sizes(self, topology: Topology) -> dict[tuple[int, str, int], int]:
        """Return bytes by (broker, topic, partition), of the brokers that answer."""
        wanted: dict[str, list[int]] = {}
        for place in topology.places:
            wanted.setdefault(place.topic, []).append(place.partition)
        leaders = sorted({place.leader for place in topology.places if place.leader >= 0})
        sizes: dict[tuple[int, str, int], int] = {}
        for answer in self._pool.map(lambda broker: self._log_dirs(broker, wanted), leaders):
            sizes.update(answer)
        return sizes

    def close(self) -> None:
        """Close connections and threads."""
        self._pool.shutdown(cancel_futures=True)
        self._forget_admin()

    def _log_dirs(
        self, broker: int, wanted: dict[str, list[int]]
    ) -> Iterable[tuple[tuple[int, str, int], int]]:
        try:
            answers = self.admin().describe_log_dirs(wanted, brokers=[broker])
        except (KafkaError, OSError):
            return []
        return [
            ((broker, topic["name"], part["partition_index"]), part["partition_size"])
            for answer in answers
            for folder in answer["log_dirs"]
            if not folder["error_code"]
            for topic in folder["topics"]
            for part in topic["partitions"]
            if not part["is_future_key"] and part["partition_size"] >= 0
        ]

    def _list_offsets(self, places: list[PartitionPlace], spec: Any) -> dict[Key, int]:
        """Return offsets of the partitions whose leader answers."""
        if not places:
            return {}
        asked = {TopicPartition(place.topic, place.partition): spec for place in places}
        found = {}
        for partition, future in self._offsets.list_offsets(
            asked, request_timeout=REQUEST_TIMEOUT_S
        ).items():
            try:
                offset = future.result().offset
            except KafkaException:
                continue
            if offset >= 0:
                found[partition.topic, partition.partition] = offset
        return found

    def _forget_admin(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None


def connect(cluster: Cluster) -> KafkaAdminClient:
    """Return a kafka-python admin client that waits for nobody long; raises KafkaError."""
    timeout_ms = round(REQUEST_TIMEOUT_S * 1000)
    return KafkaAdminClient(
        **cluster.kafka_python(),
        client_id=CLIENT_ID,
        request_timeout_ms=timeout_ms,
        bootstrap_timeout_ms=timeout_ms,
        metadata_max_age_ms=METADATA_AGE_MS_MAX,
        reconnect_backoff_max_ms=RECONNECT_BACKOFF_MS_MAX,
    )


def _row(place: PartitionPlace, end: int, size: int, start: int | None) -> PartitionSample:
    return PartitionSample(
        topic=place.topic,
        partition=place.partition,
        end_offset=end,
        log_size_bytes=size,
        log_start_offset=start,
        leader_epoch=place.leader_epoch if place.leader_epoch >= 0 else None,
        topic_id=place.topic_id,
    )
