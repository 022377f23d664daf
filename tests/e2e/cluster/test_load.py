"""Load generator and consumers together, on real brokers."""

import io
import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from deploy.local.cluster import LocalCluster
from deploy.local.consumers import start_consumer
from deploy.local.history import History, coverage, double_owned, overlaps, read_history
from deploy.local.leash import Leash
from deploy.local.load import Generator, create_topics
from deploy.local.measures import read_truth
from deploy.local.traffic import Traffic


def test_consumers_read_exactly_what_was_offered(
    cluster: LocalCluster, fresh_name: Callable[[str], str], tmp_path: Path
) -> None:
    """Two consumers, of which one leaves midway, process each record that the truth names."""
    traffic = Traffic(seed=7, topics=2, partitions=4, rate_mb_s=0.5, keys=50, size_spread=9.0)
    topics = traffic.topic_names(fresh_name("load"))
    create_topics(cluster.bootstrap_servers, topics, traffic.partitions)
    cluster.wait_topics(topics)
    truth = io.StringIO()
    strategy = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    with Leash() as leash:
        consumers = [
            start_consumer(
                leash,
                tmp_path,
                client_id,
                bootstrap_servers=cluster.bootstrap_servers,
                group=fresh_name("group"),
                topics=topics,
                settings={"partition.assignment.strategy": strategy, "app.report.ms": "100"},
            )
            for client_id in ("a", "b")
        ]
        generator = Generator(
            cluster.bootstrap_servers, traffic, topics, compression="lz4", truth=truth
        )

        def seen() -> History:
            return read_history(
                [c.journal.read_text().splitlines(keepends=True) for c in consumers]
            )

        def shared_out() -> bool:
            last = {event.client: event for event in seen().assigned}
            same_generation = len({event.generation for event in last.values()}) == 1
            return same_generation and [len(event.owned) for event in last.values()] == [4, 4]

        def all_read() -> bool:
            verdict = coverage(seen())
            return verdict.processed - verdict.redelivered == int(total.records.sum())

        generator.run(2.0)
        _wait(shared_out)
        consumers[0].process.send_signal(signal.SIGTERM)
        consumers[0].process.wait(30)
        total = generator.run(2.0)
        _wait(all_read)
    history = seen()
    assert coverage(history).lost == ()
    assert coverage(history).redelivered == 0
    assert double_owned(history) == []
    assert overlaps(history) == []
    assert history.failures == ()
    assert sum(run.payload_bytes for run in history.runs) == total.payload_bytes.sum()
    lines = truth.getvalue().splitlines(keepends=True)
    assert json.loads(lines[-1])["unacknowledged"] == 0
    assert read_truth(lines).produced_bytes[-1].sum() == total.payload_bytes.sum()


def _wait(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "condition not met in time"
        time.sleep(0.05)


def test_the_command_makes_retention_bite_and_ends_properly(
    cluster: LocalCluster, fresh_name: Callable[[str], str], tmp_path: Path
) -> None:
    """As a command it creates topics whose old segments go, and writes its total at SIGTERM."""
    prefix, truth = fresh_name("short"), tmp_path / "truth.jsonl"
    command = [
        *(sys.executable, "-m", "deploy.local.load"),
        *("--bootstrap-server", cluster.bootstrap_servers, "--create", "--truth", str(truth)),
        *("--topic-prefix", prefix, "--topics", "1", "--partitions", "1", "--rate-mb-s", "2"),
        *("--topic-config", "retention.ms=1000", "--topic-config", "segment.bytes=1048576"),
    ]
    topic = f"{prefix}-00"
    reader = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": prefix, "log_level": 0}
    )

    def offsets() -> tuple[int, int]:
        try:
            low, high = reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
        except KafkaException:  # not created yet
            return 0, 0
        return int(low), int(high)

    with Leash() as leash:
        load = leash.spawn(command)
        _wait(lambda: offsets()[0] > 0)
        load.terminate()
        assert load.wait(30) == 0
    last = json.loads(truth.read_text().splitlines()[-1])
    assert last["event"] == "total"
    assert last["records"] == {topic: [offsets()[1]]}
    reader.close()
