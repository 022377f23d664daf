"""Plimsoll's own topics: what they must look like, how they are made, whether they still are.

The agent only verifies; a topic is created by `plimsoll topics create` and by nothing else, so a
lost topic can never be replaced silently by an empty one.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from agent import wire
from agent.clients import Cluster

HOUR_MS: Final = 3_600_000
TIMEOUT_S: Final = 20.0
POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as it must be; `exact` says that another partition count breaks promises."""

    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)
    exact: bool = False


_COMPACT: Final = {"cleanup.policy": "compact"}

TOPICS: Final = (
    TopicSpec(
        wire.BROKER_METRICS, 3, {"cleanup.policy": "delete", "retention.ms": str(6 * HOUR_MS)}
    ),
    TopicSpec(wire.MEMBERSHIP, 1, _COMPACT),
    TopicSpec(wire.PARTITION_LOAD, 1, _COMPACT),
    TopicSpec(wire.CONFIG, 1, _COMPACT),
    TopicSpec(wire.CONFIG_STATUS, 1, _COMPACT),
    # One partition: a claim and the targets before and after it must have one order.
    TopicSpec(wire.TARGETS, 1, _COMPACT, exact=True),
    TopicSpec(
        wire.DECISIONS, 1, {"cleanup.policy": "delete", "retention.ms": str(7 * 24 * HOUR_MS)}
    ),
)


def commands(bootstrap_servers: str, replication: int) -> list[str]:
    """Give the `kafka-topics.sh` commands that create the topics."""
    return [
        " ".join(
            [
                f"kafka-topics.sh --bootstrap-server {bootstrap_servers} --create --if-not-exists",
                f"--topic {spec.name} --partitions {spec.partitions}",
                f"--replication-factor {replication}",
                *(f"--config {name}={value}" for name, value in spec.config.items()),
            ]
        )
        for spec in TOPICS
    ]


def create(cluster: Cluster, replication: int | None = None) -> list[str]:
    """Create what is missing and wait until every broker knows its leaders.

    Returns the names created. Raises KafkaException when the cluster refuses, or when a broker
    does not know the topics in time.
    """
    admin = AdminClient(cluster.confluent())
    metadata = admin.list_topics(timeout=TIMEOUT_S)
    factor = replication or min(3, len(metadata.brokers))
    missing = [spec for spec in TOPICS if spec.name not in metadata.topics]
    if not missing:
        return []
    futures = admin.create_topics(
        [
            NewTopic(
                spec.name,
                num_partitions=spec.partitions,
                replication_factor=factor,
                config=dict(spec.config),
            )
            for spec in missing
        ]
    )
    for future in futures.values():
        future.result(timeout=TIMEOUT_S)
    made = [spec.name for spec in missing]
    deadline = time.monotonic() + TIMEOUT_S
    for broker in metadata.brokers.values():
        address = f"{broker.host}:{broker.port}"
        via = AdminClient(replace(cluster, bootstrap_servers=address).confluent())
        while not _has_leaders(via.list_topics(timeout=TIMEOUT_S), made):
            if time.monotonic() > deadline:
                raise KafkaException(
                    KafkaError(KafkaError.LEADER_NOT_AVAILABLE, f"{address} does not know {made}")
                )
            time.sleep(POLL_S)
    return made


def _has_leaders(metadata: ClusterMetadata, names: Collection[str]) -> bool:
    """Say whether a broker's answer names a leader for every partition of the topics.

    The brokers learn of a new topic after the controller has confirmed it, each in its own time.
    """
    topics = [metadata.topics.get(name) for name in names]
    return all(
        topic is not None
        and topic.partitions
        and all(partition.leader >= 0 for partition in topic.partitions.values())
        for topic in topics
    )


def check(cluster: Cluster) -> list[str]:
    """List what is wrong, with the command that mends it; empty when all is well."""
    admin = AdminClient(cluster.confluent())
    existing = admin.list_topics(timeout=TIMEOUT_S).topics
    present = [spec for spec in TOPICS if spec.name in existing]
    problems = [
        f"{spec.name}: missing; create it with `plimsoll topics create`"
        for spec in TOPICS
        if spec.name not in existing
    ]
    policies = _policies(admin, [spec.name for spec in present])
    for spec in present:
        wanted, found = spec.config["cleanup.policy"], policies[spec.name]
        if found != wanted:
            problems.append(
                f"{spec.name}: cleanup.policy is {found}, must be {wanted}; mend it with"
                f" `kafka-configs.sh --alter --topic {spec.name}"
                f" --add-config cleanup.policy={wanted}`"
            )
        count = len(existing[spec.name].partitions)
        if spec.exact and count != spec.partitions:
            problems.append(f"{spec.name}: {count} partitions, must be {spec.partitions}")
    return problems


def _policies(admin: AdminClient, names: Sequence[str]) -> dict[str, str]:
    if not names:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    answers = admin.describe_configs(resources)
    return {
        resource.name: str(future.result(timeout=TIMEOUT_S)["cleanup.policy"].value)
        for resource, future in answers.items()
    }
