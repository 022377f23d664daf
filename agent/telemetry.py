"""Logs and metrics of the agent. Names carry units; no member id is a label."""

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECRET: Final = re.compile(r"password|secret|jaas|token", re.IGNORECASE)


def configure_logging(level: str = "INFO") -> None:
    """Send structlog and the standard library's logs to standard error: JSON, or text on a TTY."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _blind,
    ]
    renderer: Any = (
        structlog.dev.ConsoleRenderer()
        if sys.stderr.isatty()
        else structlog.processors.JSONRenderer(sort_keys=True)
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for chatty in ("aiokafka", "faust", "mode", "kafka", "aiohttp.access"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))
    # Says at each connection that SASL_PLAINTEXT is plain text.
    logging.getLogger("kafka.net.sasl").setLevel(max(logging.ERROR, root.level))


def _blind(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Hide the value of anything named like a secret."""
    for name in event:
        if _SECRET.search(name):
            event[name] = "***"
    return event


class Metrics:
    """The agent's metrics; one registry per agent."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        group = ["group"]
        self.records = Counter("plimsoll_records", "Records folded.", ["topic"], registry=registry)
        self.quarantined = Counter(
            "plimsoll_quarantined", "Records refused at the door.", ["topic"], registry=registry
        )
        self.decisions = Counter(
            "plimsoll_decisions",
            "Verdicts written.",
            ["group", "verdict", "reason"],
            registry=registry,
        )
        self.config_rejected = Counter(
            "plimsoll_config_rejected", "Config records refused.", registry=registry
        )
        self.moves = Counter("plimsoll_moves", "Moves asked for.", group, registry=registry)
        self.nudges = Counter(
            "plimsoll_nudges", "Nudges by outcome.", ["group", "outcome"], registry=registry
        )
        self.step_seconds = Histogram(
            "plimsoll_step_seconds",
            "Time to fold one event or decide one tick.",
            ["event"],
            buckets=(0.001, 0.005, 0.02, 0.05, 0.1, 0.3, 1, 3, 10, 30),
            registry=registry,
        )
        self.load_ratio = Gauge(
            "plimsoll_group_load_ratio",
            "Largest utilisation of the group over its lower bound, as of the last verdict.",
            group,
            registry=registry,
        )
        self.drift = Gauge(
            "plimsoll_assignment_drift_partitions",
            "Partitions that members should own by the last target and do not.",
            group,
            registry=registry,
        )
        self.revision = Gauge(
            "plimsoll_target_revision", "Revision of the last target.", group, registry=registry
        )
        self.members = Gauge("plimsoll_group_members", "Members.", group, registry=registry)
        self.enforced = Gauge(
            "plimsoll_group_enforced", "1 in mode enforce, else 0.", group, registry=registry
        )
        self.loads_age_seconds = Gauge(
            "plimsoll_loads_age_seconds",
            "Age of the newest load record; infinite before the first.",
            registry=registry,
        )
        self.loads_age_seconds.set(float("inf"))
        self.epoch = Gauge("plimsoll_epoch", "Offset of this agent's claim.", registry=registry)
        self.ready = Gauge(
            "plimsoll_ready", "1 when claimed and caught up, else 0.", registry=registry
        )
        self._shown: set[str] = set()

    def show(self, view: dict[str, Any]) -> None:
        """Set the gauges from the core's view; groups that vanished lose their series."""
        self.epoch.set(view["epoch"])
        if view["loads_age_s"] is not None:
            self.loads_age_seconds.set(view["loads_age_s"])
        groups: dict[str, Any] = view["groups"]
        for name in self._shown - groups.keys():
            for gauge in (self.load_ratio, self.drift, self.revision, self.members, self.enforced):
                if (name,) in gauge._metrics:  # noqa: SLF001 -- remove() raises on absent labels
                    gauge.remove(name)
        self._shown = set(groups)
        for name, group in groups.items():
            self.members.labels(name).set(len(group["members"]))
            self.enforced.labels(name).set(group["mode"] == "enforce")
            target = group.get("target")
            if target is not None:
                self.revision.labels(name).set(target["revision"])
                self.drift.labels(name).set(target["drift_partitions"] or 0)
            ratio = _present_ratio(group.get("decision"))
            if ratio is not None:
                self.load_ratio.labels(name).set(ratio)


def _present_ratio(decision: dict[str, Any] | None) -> float | None:
    """Read the ratio of what members hold: of `stay` where a plan was made, else of the verdict."""
    if decision is None:
        return None
    stay = [a for a in decision["alternatives"] if a.get("plan") == "stay"]
    certificate = stay[0]["certificate"] if stay else decision["certificate"]
    return None if certificate is None else float(certificate["ratio"])
