"""Tries every way of measuring and says which works and what is missing."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from agent.collector.profiles import Profile
from agent.collector.prometheus_client import PrometheusClient, PrometheusUnreachableError
from agent.collector.prometheus_source import Readings, read
from agent.collector.sample import Source


@dataclass(frozen=True, slots=True)
class Finding:
    """What one way of measuring can say: its partitions, and in words what is not there."""

    name: str
    works: bool
    partitions: int
    seconds: float
    missing: tuple[str, ...]

    def __str__(self) -> str:
        """Give one line for people."""
        verdict = "works " if self.works else "cannot"
        text = f"{verdict}  {self.name:<15} {self.partitions:>7} partitions  {self.seconds:6.2f} s"
        return f"{text}  {'; '.join(self.missing)}" if self.missing else text


def try_source(source: Source) -> Finding:
    """Sample once."""
    begin_s = time.perf_counter()
    sample = source.sample()
    missing = tuple(f"{count} {reason}" for reason, count in sorted(sample.missing.items()))
    partitions = sum(len(broker.partitions) for broker in sample.brokers)
    return Finding(source.name, partitions > 0, partitions, _since(begin_s), missing)


def try_profiles(
    client: PrometheusClient, profiles: Mapping[str, Profile], at_s: float
) -> list[Finding]:
    """Try every profile; those that match first, the one with most partitions on top."""
    findings = [_try(client, name, profile, at_s) for name, profile in profiles.items()]
    return sorted(findings, key=lambda found: (not found.works, -found.partitions, found.name))


def _try(client: PrometheusClient, name: str, profile: Profile, at_s: float) -> Finding:
    begin_s = time.perf_counter()
    try:
        readings = read(client, profile, at_s)
    except PrometheusUnreachableError as error:
        return Finding(name, works=False, partitions=0, seconds=0.0, missing=(str(error),))
    led = readings.leaders()
    complete = [place for place, instance in led.items() if _complete(readings, instance, place)]
    missing = [
        f"no series of {selector} ({role})"
        for role, selector in profile.selectors().items()
        if not readings.values[role]
    ]
    if led and len(complete) < len(led):
        missing.append(f"{len(led) - len(complete)} partitions without a log size")
    if profile.log_size is None:
        missing.append("log sizes: asked of the brokers instead")
    return Finding(name, bool(complete), len(complete), _since(begin_s), tuple(missing))


def _complete(readings: Readings, instance: str, place: tuple[str, int]) -> bool:
    sizes = readings.values.get("log_size")
    return sizes is None or (instance, place) in sizes


def _since(begin_s: float) -> float:
    return time.perf_counter() - begin_s
