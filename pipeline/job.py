"""The streaming job's life: start, say how it goes, end cleanly when told to."""

import logging
import secrets
import threading
import time
from pathlib import Path
from typing import Any, Final

import structlog
from pyspark.sql.streaming.query import StreamingQuery

from pipeline import stream
from pipeline.session import session
from pipeline.settings import Settings

POLL_S: Final = 0.5
STOP_TIMEOUT_S: Final = 15.0
"""A micro-batch under way gets this long to end; it would be repeated after a restart."""


class Job:
    """One streaming query and the session that it runs in."""

    def __init__(
        self,
        settings: Settings,
        *,
        checkpoint: Path,
        master: str,
        jars: Path | None,
        shuffle_partitions: int,
        properties: dict[str, str],
    ) -> None:
        self._settings = settings
        self._checkpoint = checkpoint
        self._master = master
        self._jars = jars
        self._shuffle_partitions = shuffle_partitions
        self._options = kafka_options(properties)
        self._log = structlog.get_logger("pipeline")

    def run(self, trigger_s: float | None, stop: threading.Event) -> None:
        """Run until `stop` is set, or with no trigger until what is there has been read."""
        logging.getLogger("py4j").setLevel(logging.ERROR)
        spark = session(self._master, self._jars, self._shuffle_partitions)
        try:
            query = stream.start(
                spark,
                self._settings,
                checkpoint=str(self._checkpoint / "query"),
                stream=stream_id(self._checkpoint),
                since_ms=self._since_ms(),
                trigger_s=trigger_s,
                options=self._options,
            )
            self._log.info("started", master=self._master, checkpoint=str(self._checkpoint))
            self._watch(query, stop)
            _end(query)
        finally:
            spark.stop()

    def _since_ms(self) -> int:
        """Return where a new stream begins: what its first estimates look back on."""
        memory = self._settings.memory
        return int(time.time() * 1000) - memory.learn_ms - memory.lateness_ms

    def _watch(self, query: StreamingQuery, stop: threading.Event) -> None:
        """Log each micro-batch; raise what ended the query by itself."""
        told = -1
        while not stop.wait(POLL_S):
            progress = query.lastProgress
            if progress is not None and progress["batchId"] > told and progress["numInputRows"]:
                told = progress["batchId"]
                self._log.info("batch", **_summary(progress))
            if not query.isActive:
                query.awaitTermination(1)
                return


def _summary(progress: Any) -> dict[str, Any]:
    duration = progress["durationMs"]
    state = progress["stateOperators"][0] if progress["stateOperators"] else {}
    return {
        "batch": progress["batchId"],
        "records": progress["numInputRows"],
        "seconds": duration.get("triggerExecution", 0) / 1000,
        "state_bytes": state["memoryUsedBytes"] if state else 0,
    }


def _end(query: StreamingQuery) -> None:
    """Stop between micro-batches where that takes no longer than `STOP_TIMEOUT_S`."""
    deadline_s = time.monotonic() + STOP_TIMEOUT_S
    while query.isActive and time.monotonic() < deadline_s:
        if not query.status["isTriggerActive"]:
            break
        time.sleep(0.05)
    query.stop()


def stream_id(checkpoint: Path) -> str:
    """Return the name of a stream, made with its checkpoint and gone with it.

    Batches are counted from 0 with every new checkpoint: without a name they would overwrite each
    other in the lake.
    """
    path = checkpoint / "stream-id"
    if not path.exists():
        checkpoint.mkdir(parents=True, exist_ok=True)
        path.write_text(secrets.token_hex(4))
    return path.read_text()


def kafka_options(properties: dict[str, str]) -> dict[str, str]:
    """Give client properties (librdkafka's names) as options of Spark's Kafka source and sink.

    The connector is a Java client: it takes credentials as a JAAS line and PEM files by type.
    """
    given = dict(properties)
    options = {}
    if "sasl.username" in given:
        mechanism = given.get("sasl.mechanism", "PLAIN")
        module = (
            "org.apache.kafka.common.security.plain.PlainLoginModule"
            if mechanism == "PLAIN"
            else "org.apache.kafka.common.security.scram.ScramLoginModule"
        )
        name, password = given.pop("sasl.username"), given.pop("sasl.password", "")
        options["kafka.sasl.jaas.config"] = (
            f'{module} required username="{name}" password="{password}";'
        )
    if "ssl.ca.location" in given:
        options["kafka.ssl.truststore.type"] = "PEM"
        options["kafka.ssl.truststore.location"] = given.pop("ssl.ca.location")
    return options | {f"kafka.{name}": value for name, value in given.items()}
