"""The load generator: one real producer that offers a `Traffic` and writes down the truth.

    python -m deploy.local.load --bootstrap-server B --seed 1 --truth build/truth.jsonl --create

The truth file has JSON lines: first what is expected, then once a second what was produced so far
(cumulative, per topic and partition, keys and values counted), last the total, which includes
everything that the brokers acknowledged. Values begin with their time of production and are then
filler of the asked entropy. Ends at SIGTERM or after `--seconds`, having flushed.
"""

import argparse
import json
import random
import signal
import struct
import sys
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

import numpy as np
from confluent_kafka import KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from deploy.local.traffic import SHAPES, STAMP_BYTES, Draw, Ints, Traffic, rate_factor

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

TICK_S: Final = 0.02
"""Records are handed over fifty times a second: well below the linger, so it adds no burst."""

REPORT_S: Final = 1.0
FLUSH_TIMEOUT_S: Final = 30.0
FILLER_BYTES: Final = 1 << 20

PRODUCER_DEFAULTS: Final[Mapping[str, str | int | bool]] = {
    "enable.idempotence": True,  # a retried batch must not be counted once and stored twice
    "linger.ms": 50,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 262_144,
    "delivery.report.only.error": True,
    "log_level": 3,
}


@dataclass(frozen=True, slots=True)
class Produced:
    """Cumulative truth of a moment: matrices [topic, partition]."""

    records: Ints
    payload_bytes: Ints


class Generator:
    """Offers the traffic in the calling thread until it is stopped."""

    def __init__(
        self,
        bootstrap_servers: str,
        traffic: Traffic,
        topics: list[str],
        *,
        compression: str = "none",
        entropy: float = 1.0,
        truth: TextIO | None = None,
        producer_config: Mapping[str, str | int | bool] | None = None,
    ) -> None:
        self.topics = topics
        self.draw = Draw(traffic)
        self._filler = filler(traffic.seed, entropy)
        self._truth = truth
        self._stop = threading.Event()
        self._failed = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "compression.type": compression,
                **PRODUCER_DEFAULTS,
                **(producer_config or {}),
            }
        )
        shape = (traffic.topics, traffic.partitions)
        self._records = np.zeros(shape, np.int64)
        self._bytes = np.zeros(shape, np.int64)

    def stop(self) -> None:
        """Make `run` return soon; may be called from a signal handler or another thread."""
        self._stop.set()

    def produced(self) -> Produced:
        """Return what was handed over so far."""
        return Produced(self._records.copy(), self._bytes.copy())

    def run(self, seconds: float | None = None) -> Produced:
        """Offer until `stop` or for `seconds`; return the acknowledged total.

        When the machine stalls the missing records follow as soon as it goes on: the offered rate
        holds on average, and the truth says when it did not.
        """
        self._write("expected", **self._expectation())
        started = reported = advanced = time.monotonic()
        due = 0.0
        sent = 0
        while not self._stop.is_set():
            now = time.monotonic()
            elapsed_s = now - started
            if seconds is not None and elapsed_s >= seconds:
                break
            factor = rate_factor(self.draw.traffic, elapsed_s)
            due += (now - advanced) * self.draw.records_per_s * factor
            advanced = now
            sent += self._offer(int(due) - sent, elapsed_s)
            if now - reported >= REPORT_S:
                reported += REPORT_S
                self._write("produced", elapsed_s=round(elapsed_s, 3), **self._counts())
            self._producer.poll(0)
            self._stop.wait(max(0.0, now + TICK_S - time.monotonic()))
        unacknowledged = self._producer.flush(FLUSH_TIMEOUT_S) + self._failed
        self._write("total", unacknowledged=unacknowledged, **self._counts())
        if unacknowledged:
            raise KafkaException(f"{unacknowledged} records were not acknowledged")
        return self.produced()

    def _offer(self, count: int, elapsed_s: float) -> int:
        """Hand over `count` records; return how many."""
        stamp = struct.pack(">q", time.time_ns() // 1_000)
        span = len(self._filler)
        sizes = self.draw.sizes
        for topic, key, partition in self.draw.records(count, elapsed_s):
            size = int(sizes[partition]) - STAMP_BYTES
            start = (int(self._records[topic, partition]) * 4_093) % (span - size)
            self._hand_over(
                self.topics[topic], key, partition, stamp + self._filler[start : start + size]
            )
            self._records[topic, partition] += 1
            self._bytes[topic, partition] += len(key) + STAMP_BYTES + size
        return count

    def _hand_over(self, topic: str, key: bytes, partition: int, value: bytes) -> None:
        """Give one record to the producer, waiting while its queue is full."""
        while True:
            try:
                self._producer.produce(
                    topic, value, key, partition, on_delivery=self._count_failure
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def _count_failure(self, error: "KafkaError | None", _: Message) -> None:
        self._failed += error is not None

    def _expectation(self) -> dict[str, object]:
        expected = self.draw.expected_bytes_per_s(0.0)
        rows = np.round(expected, 3).tolist()
        return {
            "traffic": asdict(self.draw.traffic),
            "records_per_s": round(self.draw.records_per_s, 3),
            "value_bytes": self.draw.sizes.tolist(),
            "bytes_per_s": dict(zip(self.topics, rows, strict=True)),
        }

    def _counts(self) -> dict[str, object]:
        return {
            "records": dict(zip(self.topics, self._records.tolist(), strict=True)),
            "payload_bytes": dict(zip(self.topics, self._bytes.tolist(), strict=True)),
        }

    def _write(self, event: str, **values: object) -> None:
        """Write one line of the truth."""
        if self._truth is not None:
            line = {"event": event, "ms": time.time_ns() // 1_000_000, **values}
            self._truth.write(json.dumps(line, separators=(",", ":")) + "\n")
            self._truth.flush()


def filler(seed: int, entropy: float) -> bytes:
    """Return bytes of which a share of `entropy` is random in every 64, the rest is zero.

    With 1.0 compression gains nothing, with 0.25 about three quarters.
    """
    blocks = np.frombuffer(random.Random(seed).randbytes(FILLER_BYTES), np.uint8).reshape(-1, 64)
    blocks = blocks.copy()
    blocks[:, round(64 * entropy) :] = 0
    return blocks.tobytes()


def create_topics(
    bootstrap_servers: str,
    topics: Collection[str],
    partitions: int,
    *,
    replicas: int = 1,
    config: Mapping[str, str] | None = None,
) -> None:
    """Create topics, for instance with a short `retention.ms`; each must be new."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 3})
    new = [NewTopic(name, partitions, replicas, config=dict(config or {})) for name in topics]
    for created in admin.create_topics(new).values():
        created.result(30)


def _arguments() -> argparse.ArgumentParser:
    """Describe the command line; every field of `Traffic` is an option of its name."""
    parser = argparse.ArgumentParser(prog="python -m deploy.local.load", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--bootstrap-server", required=True)
    for field in fields(Traffic):
        option = f"--{field.name.replace('_', '-')}"
        if field.name == "seed":
            parser.add_argument(option, type=int, default=1)
        elif field.name == "shape":
            parser.add_argument(option, choices=SHAPES, default=field.default)
        else:
            parser.add_argument(option, type=type(field.default), default=field.default)
    parser.add_argument("--topic-prefix", default="load")
    parser.add_argument("--seconds", type=float, help="without it: until SIGTERM")
    parser.add_argument("--truth", type=Path, help="file for the truth, JSON lines")
    parser.add_argument(
        "--compression", default="none", choices=("none", "gzip", "snappy", "lz4", "zstd")
    )
    parser.add_argument("--entropy", type=float, default=1.0, help="random share of each value")
    parser.add_argument("--create", action="store_true", help="create the topics first")
    parser.add_argument("--replicas", type=int, default=1, help="with --create")
    parser.add_argument(
        "--topic-config", action="append", default=[], metavar="K=V", help="with --create"
    )
    return parser


def main() -> None:
    """Run the generator as a command."""
    options = _arguments().parse_args()
    traffic = Traffic(**{field.name: getattr(options, field.name) for field in fields(Traffic)})
    topics = traffic.topic_names(options.topic_prefix)
    if options.create:
        config = dict(pair.split("=", 1) for pair in options.topic_config)
        create_topics(
            options.bootstrap_server,
            topics,
            traffic.partitions,
            replicas=options.replicas,
            config=config,
        )
    truth = options.truth.open("w") if options.truth else None
    generator = Generator(
        options.bootstrap_server,
        traffic,
        topics,
        compression=options.compression,
        entropy=options.entropy,
        truth=truth,
    )
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: generator.stop())
    total = generator.run(options.seconds)
    megabytes = total.payload_bytes.sum() / 1e6
    print(f"{int(total.records.sum())} records, {megabytes:.1f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
