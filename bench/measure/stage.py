"""A real cluster under real load, sampled as the collector does, next to the exact truth."""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from agent import loads
from agent.clients import Cluster
from agent.collector.run import kafka_source
from agent.collector.sample import records
from bench.measure.truth import Partition, SegmentTruth
from cost.estimate import CONFIDENCE, REASON, estimate
from cost.rates import EMPTY, History, fold
from deploy.local.cluster import BROKER_IDS, LocalCluster
from deploy.local.leash import Leash
from deploy.local.paths import BUILD
from deploy.local.traffic import Draw, Traffic

OUT = BUILD / "bench" / "measure"
INTERVAL_S = 10.0
BROKER_CONFIG = {
    # Retention is looked at every 2 s, so that it bites within a run.
    "log.retention.check.interval.ms": "2000",
    "log.initial.task.delay.ms": "1000",
    "log.segment.delete.delay.ms": "30000",
}
TOPIC_CONFIG = {"message.timestamp.type": "LogAppendTime"}
RETENTION = {"retention.bytes": "2097152", "segment.bytes": "1048576"}


@dataclass(frozen=True, slots=True)
class Load:
    """One load generator: its topics are `name-00`, `name-01`, ….

    `options` go to `deploy.local.load` as they are; `config` is that of its topics.
    """

    name: str
    rate_mb_s: float
    size_spread: float = 1.0
    options: tuple[str, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)
    topics: int = 2
    partitions: int = 8
    replicas: int = 1

    def topic_names(self) -> list[str]:
        """Return the names of its topics."""
        return [f"{self.name}-{number:02d}" for number in range(self.topics)]

    def owns(self, topic: str) -> bool:
        """Say whether a topic is one of its own."""
        return topic.startswith(f"{self.name}-")

    def command(self, bootstrap_servers: str, seed: int) -> list[str]:
        """Return the command that creates the topics and produces until it is ended."""
        config = {**TOPIC_CONFIG, **self.config}
        return [
            *(sys.executable, "-m", "deploy.local.load", "--create", *self.options),
            *(f"--bootstrap-server={bootstrap_servers}", f"--topic-prefix={self.name}"),
            *(f"--seed={seed}", f"--rate-mb-s={self.rate_mb_s}"),
            *(f"--size-spread={self.size_spread}", f"--topics={self.topics}"),
            *(f"--partitions={self.partitions}", f"--replicas={self.replicas}"),
            *(f"--topic-config={name}={value}" for name, value in config.items()),
        ]

    def expected_shares(self, seed: int) -> dict[Partition, float]:
        """Return the share of the load's records that each partition gets on the long run."""
        traffic = Traffic(
            seed=seed,
            topics=self.topics,
            partitions=self.partitions,
            rate_mb_s=self.rate_mb_s,
            size_spread=self.size_spread,
        )
        shares = Draw(traffic).tables[0][0].shares(self.partitions) / self.topics
        return {
            (topic, number): float(share)
            for topic in self.topic_names()
            for number, share in enumerate(shares)
        }


@dataclass(frozen=True, slots=True)
class Row:
    """One partition at one sample: what was estimated, and what was stored in that window."""

    second: float
    ms: int
    topic: str
    partition: int
    bytes_per_s: float
    bytes_per_s_stderr: float
    records_per_s: float
    records_per_s_stderr: float
    confidence: str
    reason: str | None
    true_bytes_per_s: float
    true_records_per_s: float

    @property
    def error(self) -> float:
        """Relative error of bytes/s."""
        return abs(self.bytes_per_s / self.true_bytes_per_s - 1)


def run(
    loads_offered: list[Load],
    seconds: float,
    seed: int,
    disturb: dict[float, Callable[[LocalCluster], None]] | None = None,
) -> tuple[list[Row], SegmentTruth]:
    """Offer loads for some seconds; return every estimate of every sample, and the truth.

    `disturb` names what is done to the cluster, by second.
    """
    topics = [topic for load in loads_offered for topic in load.topic_names()]
    with LocalCluster(config=BROKER_CONFIG) as cluster, Leash() as leash:
        for load in loads_offered:
            command = load.command(cluster.bootstrap_servers, seed)
            leash.spawn(command, output=cluster.logs / f"load-{load.name}.log")
        cluster_folders = [cluster.node(broker).folder / "data" for broker in BROKER_IDS]
        truth = SegmentTruth(cluster_folders, topics)
        source = kafka_source(Cluster(cluster.bootstrap_servers), "|".join(topics))
        history, rows = EMPTY, []
        begin_s, next_s = time.monotonic(), 0.0
        plan = sorted((disturb or {}).items())
        while (now_s := time.monotonic() - begin_s) < seconds:
            truth.follow()
            if plan and now_s >= plan[0][0]:
                plan.pop(0)[1](cluster)
            if now_s >= next_s:
                next_s += INTERVAL_S
                taken = [r for broker in source.sample().brokers for r in records(broker)]
                blocks = [block for record in taken for block in loads.blocks(record)]
                history = fold(history, blocks, loads.MEMORY)
                if len(history.rows):
                    truth.follow()
                    rows += _rows(history, truth, now_s)
                print(f"\r{now_s:5.0f} of {seconds:.0f} s", end="", file=sys.stderr)
            time.sleep(0.2)
        print(file=sys.stderr)
        truth.follow()
        source.close()
    return rows, truth


def _rows(history: History, truth: SegmentTruth, second: float) -> list[Row]:
    at_ms = int(history.rows["ms"].max())
    rates = estimate(history, at_ms, loads.MEMORY)
    true: dict[int, dict[Partition, tuple[float, float]]] = {}
    rows = []
    for i in range(len(rates.partition)):
        place = rates.topics[int(rates.topic[i])], int(rates.partition[i])
        ms = int(rates.chunk_ms[rates.chunk[i]])
        window_s = min(60.0, float(rates.samples[i]) * INTERVAL_S)
        if ms not in true:
            true[ms] = truth.between(ms - 1000 * window_s, ms)
        stored = true[ms].get(place, (0.0, 0.0))
        rows.append(
            Row(
                second,
                ms,
                *place,
                float(rates.bytes_per_s[i]),
                float(rates.bytes_per_s_stderr[i]),
                float(rates.records_per_s[i]),
                float(rates.records_per_s_stderr[i]),
                CONFIDENCE[int(rates.confidence[i])],
                REASON[int(rates.reason[i])],
                *stored,
            )
        )
    return rows


def percentiles(values: list[float]) -> tuple[float, float]:
    """Return median and 95th percentile."""
    return float(np.median(values)), float(np.quantile(values, 0.95))


def folder() -> Path:
    """Return where figures go."""
    OUT.mkdir(parents=True, exist_ok=True)
    return OUT
