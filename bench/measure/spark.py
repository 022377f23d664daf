"""The Spark job as a process: delay, micro-batch time by size, memory over time."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
import psutil
from confluent_kafka import Consumer, Producer, TopicPartition

from agent import limits, topics, wire
from agent.clients import Cluster
from bench.measure import report
from bench.measure.stage import folder
from deploy.local.cluster import LocalCluster
from deploy.local.leash import Leash

mpl.use("Agg")

PLIMSOLL = [sys.executable, "-c", "from agent.cli import main; main()"]
TRIGGER_S = 5.0
SAMPLE_S = 10.0
SIZES = (1_000, 10_000, 100_000)
SCALE_SAMPLES = 10
BYTES_OF_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch with records, as the job logs it."""

    seconds: float
    records: int


class Job:
    """A running `plimsoll pipeline run`."""

    def __init__(self, leash: Leash, bootstrap_servers: str, work: Path, master: str) -> None:
        self.log = work / "pipeline.log"
        self.process = leash.spawn(
            [
                *(*PLIMSOLL, "pipeline", "run", "--bootstrap-server", bootstrap_servers),
                *("--checkpoint", str(work / "checkpoint"), "--lake", str(work / "lake")),
                *("--trigger-s", str(TRIGGER_S), "--master", master),
            ],
            output=self.log,
        )

    def batches(self) -> list[Batch]:
        """Return the micro-batches so far."""
        text = self.log.read_text() if self.log.exists() else ""
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        found = [line for line in lines if line.get("event") == "batch"]
        return [Batch(line["seconds"], line["records"]) for line in found]

    def cpu_s(self) -> float:
        """Return the processor time of the driver, its JVM and its Python workers so far."""
        top = psutil.Process(self.process.pid)
        times = [process.cpu_times() for process in [top, *top.children(recursive=True)]]
        return float(sum(t.user + t.system + t.children_user + t.children_system for t in times))

    def resident_mib(self) -> float:
        """Return memory of the driver, its JVM and its Python workers."""
        top = psutil.Process(self.process.pid)
        total = 0
        for process in [top, *top.children(recursive=True)]:
            try:
                total += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        return total / BYTES_OF_MIB


@contextmanager
def running(master: str) -> Iterator[tuple[LocalCluster, Job, Leash]]:
    """Give a cluster with Plimsoll's topics and the job on it."""
    with LocalCluster() as cluster, Leash() as leash:
        topics.create(Cluster(cluster.bootstrap_servers))
        job = Job(leash, cluster.bootstrap_servers, cluster.node(1).folder, master)
        yield cluster, job, leash


def latency() -> bool:
    """160 partitions, collector and job as processes: delay of each sample's first load."""
    with running("local[1]") as (cluster, job, leash):
        servers = cluster.bootstrap_servers
        load = [sys.executable, "-m", "deploy.local.load", "--create", "--rate-mb-s=0.5"]
        leash.spawn([*load, "--bootstrap-server", servers])
        collect = [*PLIMSOLL, "collect", "--interval-s", str(SAMPLE_S)]
        leash.spawn([*collect, "--bootstrap-server", servers])
        deadline_s = time.monotonic() + 240
        while len(job.batches()) < 12 and time.monotonic() < deadline_s:
            time.sleep(1)
        delays = _delays_s(servers)
    settled = delays[len(delays) // 4 :]
    print(f"{len(settled)} samples; median {np.median(settled):.1f} s")
    holds = report.figure("metric to load record, p95", _p95(settled), 2 * TRIGGER_S + 2, "s")
    report.write("latency", {"trigger_s": TRIGGER_S, "delays_s": settled})
    return holds


def scale(sizes: tuple[int, ...] = SIZES) -> bool:
    """Sustain each size for some samples; print time and processor time, and their growth."""
    times, processor = {}, {}
    for size in sizes:
        with running("local[2]") as (cluster, job, _):
            _feed(cluster.bootstrap_servers, job, size, SCALE_SAMPLES // 2)
            before_s, batches = job.cpu_s(), len(job.batches())
            _feed(cluster.bootstrap_servers, job, size, SCALE_SAMPLES // 2, later=True)
            processor[size] = (job.cpu_s() - before_s) / (SCALE_SAMPLES // 2)
            busy = [batch.seconds for batch in job.batches()[batches:] if batch.records]
            times[size] = float(np.median(busy)) if busy else float("inf")
            print(
                f"{size:>7} partitions a sample: micro-batch {times[size]:.1f} s, "
                f"{processor[size]:.1f} CPU-s a sample",
                flush=True,
            )
    top = max(sizes)
    holds = report.figure(f"micro-batch at {top}", times[top], SAMPLE_S, "s")
    about = {"seconds": times, "cpu_s_per_sample": processor, "sample_s": SAMPLE_S}
    report.write("scale", about)
    return holds


def memory(minutes: float) -> bool:
    """Feed 100k partitions a sample; memory of the second half may not grow."""
    with running("local[2]") as (cluster, job, _):
        used = _feed(cluster.bootstrap_servers, job, SIZES[-1], round(minutes * 60 / SAMPLE_S))
        busy = [batch.seconds for batch in job.batches() if batch.records]
    half = used[len(used) // 2 :]
    _draw_memory(used)
    growth = float(np.polyfit(np.arange(len(half)), half, 1)[0] * len(half) / np.mean(half))
    holds = [
        report.figure("growth of memory over the second half", growth, 0.10, "%"),
        report.figure("micro-batch, median", float(np.median(busy)), SAMPLE_S, "s"),
    ]
    print(f"highest {max(used):.0f} MiB")
    report.write("memory", {"minutes": minutes, "resident_mib": used})
    return all(holds)


def _feed(
    bootstrap_servers: str, job: Job, size: int, samples: int, *, later: bool = False
) -> list[float]:
    """Write samples of `size` partitions every 10 s; return the job's memory at each, MiB."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "compression.type": "lz4"})
    rng = np.random.default_rng(size)
    chunk = limits.BROKER_METRICS_PARTITIONS_MAX
    rate = rng.pareto(1.5, size) * 20 + 1
    ends = np.full(size, 10**9 if later else 0, np.int64)
    used = []
    deadline_s = time.monotonic() + 120
    while "started" not in (job.log.read_text() if job.log.exists() else ""):
        assert time.monotonic() < deadline_s, job.log.read_text()[-2000:]
        time.sleep(0.5)
    begin_s = time.monotonic()
    for number in range(samples):
        time.sleep(max(0.0, begin_s + SAMPLE_S * number - time.monotonic()))
        ends += rng.poisson(rate * SAMPLE_S)
        ms = int(time.time() * 1000)
        chunks = -(-size // chunk)
        for index in range(chunks):
            part = slice(index * chunk, (index + 1) * chunk)
            count = len(ends[part])
            record = wire.BrokerMetrics(
                ms=ms,
                broker="1",
                chunk=index,
                chunks=chunks,
                topics=[
                    wire.TopicSample(
                        topic=f"topic-{index:03d}",
                        topic_id="AAAAAAAAAAAAAAAAAAAAAQ",
                        partition=list(range(count)),
                        leader_epoch=[3] * count,
                        log_start_offset=[0] * count,
                        end_offset=ends[part].tolist(),
                        log_size_bytes=(ends[part] * 1_000).tolist(),
                    )
                ],
            )
            producer.produce(wire.BROKER_METRICS, wire.encode(record), key="1")
        producer.flush(10)
        used.append(job.resident_mib())
    time.sleep(SAMPLE_S)
    return used


def _delays_s(bootstrap_servers: str) -> list[float]:
    """Return, for each chunk's sample, the time from its metrics record to its load record."""
    written = {}
    for timestamp_ms, value in _all_records(bootstrap_servers, wire.BROKER_METRICS):
        record = wire.decode(wire.BrokerMetrics, value)
        for topic in record.topics:
            written[topic.topic, record.ms] = timestamp_ms
    first: dict[tuple[str, int], float] = {}
    for timestamp_ms, value in _all_records(bootstrap_servers, wire.PARTITION_LOAD):
        load = wire.decode(wire.PartitionLoad, value)
        key = load.topic, load.ms
        if key in written:
            first.setdefault(key, (timestamp_ms - written[key]) / 1000)
    return [first[key] for key in sorted(first, key=lambda key: key[1])]


def _all_records(bootstrap_servers: str, topic: str) -> Iterator[tuple[int, bytes]]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "bench"})
    count = len(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(count)])
    while messages := consumer.consume(1000, timeout=3):
        for message in messages:
            value = message.value()
            if message.error() is None and value is not None:
                yield message.timestamp()[1], value
    consumer.close()


def _p95(values: list[float]) -> float:
    return float(np.quantile(values, 0.95))


def _draw_memory(used: list[float]) -> None:
    import matplotlib.pyplot as plt  # noqa: PLC0415 -- after the backend is chosen

    figure, axes = plt.subplots(figsize=(7, 3))
    axes.plot(np.arange(len(used)) * SAMPLE_S / 60, used)
    axes.set(xlabel="minutes", ylabel="MiB, driver, JVM and workers", ylim=(0, None))
    figure.tight_layout()
    figure.savefig(folder() / "memory.png", dpi=120)
