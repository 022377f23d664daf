"""Plimsoll's parts run as users of their own with the rights of acls.toml, and no more."""

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from agent import wire
from deploy.kafka.acls import Grant, grants, principals
from deploy.kafka.secured import SecuredCluster, bindings
from deploy.local.artifacts import fetch, plugin_jar
from deploy.local.consumers import ConsumerProcess, start_consumer
from deploy.local.history import read_history
from deploy.local.leash import Leash
from deploy.local.node import free_ports

Until = Callable[..., None]

GROUP: Final = "harbour"
TOPIC: Final = "cargo-secured"
LOADS: Final = (60.0, 10.0, 10.0, 10.0, 10.0, 10.0)
"""One hot partition: with three partitions each, two members are never level."""

ROLES: Final = ("provisioner", "collector", "pipeline", "agent", "client", "operator")
MATRIX: Final = """
    topic                    provisioner collector pipeline agent client operator
    plimsoll.broker-metrics  CDK         DW        DR       DK    -      DKR
    plimsoll.membership      CDK         DRW       -        DKR   -      DKR
    plimsoll.partition-load  CDK         -         DW       DKR   -      DKR
    plimsoll.config          CDK         -         -        DKR   -      DKRW
    plimsoll.config-status   CDK         -         -        DKW   -      DKR
    plimsoll.targets         CDK         -         -        DKRW  DR     DKR
    plimsoll.decisions       CDK         -         -        DKW   -      DKR
    cargo-secured            -           D         -        -     DR     -
"""
"""Everything that a broker lets anybody do with a topic. The client's rights on the last topic
are the application's own."""

LETTERS: Final = {
    "C": AclOperation.CREATE,
    "D": AclOperation.DESCRIBE,
    "K": AclOperation.DESCRIBE_CONFIGS,
    "R": AclOperation.READ,
    "W": AclOperation.WRITE,
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """Give a cluster with one user per principal, Plimsoll's topics, and a topic to consume."""
    with SecuredCluster(tmp_path_factory.mktemp("secured")) as made:
        made.add_users([role["user"] for role in principals().values()])
        made.allow(grants(groups=[GROUP], topics=["cargo-*"]))
        made.allow([_own("topic", TOPIC), _own("group", GROUP)])
        create = made.plimsoll("plimsoll-provisioner", "topics", "create")
        subprocess.run(create, check=True, timeout=60)
        made.cluster.create_topic(TOPIC, len(LOADS))
        yield made


def _own(resource: str, name: str) -> Grant:
    """Give what an application may do in any case: read its topic as its group."""
    return Grant("User:plimsoll-client", resource, name, prefixed=False, operations=("Read",))


def test_all_parts_work_with_their_rights(
    secured: SecuredCluster, until: Until, tmp_path: Path
) -> None:
    """Collector, agent and plugin, each as its own user, make an uneven group follow a target."""
    port = free_ports(1)[0]
    with Leash() as leash:
        collector = secured.plimsoll("plimsoll-collector", "collect", "--interval-s", "1")
        leash.spawn(collector, output=tmp_path / "collector.log", cwd=tmp_path)
        agent = secured.plimsoll("plimsoll-agent", "agent", "--http-port", str(port))
        leash.spawn(agent, output=tmp_path / "agent.log", cwd=tmp_path)
        consumers = [_start_consumer(secured, leash, tmp_path, name) for name in ("c1", "c2")]
        until("the agent is ready", lambda: _get(port, "/readyz") == "ok\n")
        until("the agent knows the members", lambda: len(_members(port)) == len(consumers))
        _write_loads(secured)
        _write_config(secured)
        until("the group follows the target", lambda: _sizes(consumers) == [1, 5])
        until("the nudge is done", lambda: 'outcome="done"' in _get(port, "/metrics"))
    samples = _read(secured, "plimsoll-operator", "plimsoll-operator-1", wire.BROKER_METRICS)
    assert {t.topic for s in samples for t in wire.decode(wire.BrokerMetrics, s).topics} == {TOPIC}
    assert b"AuthorizationException" not in consumers[0].log.read_bytes()


def test_the_spark_job_works_with_its_rights(
    secured: SecuredCluster, until: Until, tmp_path: Path
) -> None:
    """The pipeline, as its own user, turns the collector's samples into loads."""
    with Leash() as leash:
        collector = secured.plimsoll("plimsoll-collector", "collect", "--interval-s", "1")
        leash.spawn(collector, output=tmp_path / "collector.log", cwd=tmp_path)
        folders = ("--checkpoint", str(tmp_path / "checkpoint"), "--lake", str(tmp_path / "lake"))
        pipeline = secured.plimsoll("plimsoll-pipeline", "pipeline", "run", *folders)
        leash.spawn(
            [*pipeline, "--slide-s", "1", "--window-s", "5", "--trigger-s", "1"],
            output=tmp_path / "pipeline.log",
        )
        known = len(_read(secured, "plimsoll-agent", "plimsoll-test", wire.PARTITION_LOAD))

        def written() -> bool:
            found = _read(secured, "plimsoll-agent", "plimsoll-test", wire.PARTITION_LOAD)
            return len(found) > known

        until("the pipeline writes loads", written, 90)


def _start_consumer(
    secured: SecuredCluster, leash: Leash, folder: Path, name: str
) -> ConsumerProcess:
    return start_consumer(
        leash,
        folder,
        name,
        bootstrap_servers=secured.bootstrap_servers,
        group=GROUP,
        topics=[TOPIC],
        settings={
            "partition.assignment.strategy": "io.plimsoll.PlimsollAssignor",
            **secured.java_properties("plimsoll-client"),
        },
        plugin=plugin_jar(),
    )


def _get(port: int, path: str) -> str:
    """Get a page of the agent; empty while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:  # refused, reset, or 503
        return ""


def _members(port: int) -> dict[str, Any]:
    groups: dict[str, Any] = json.loads(_get(port, "/plan") or "{}").get("groups", {})
    members: dict[str, Any] = groups.get(GROUP, {}).get("members", {})
    return members


def _write_loads(secured: SecuredCluster) -> None:
    """Write, as the pipeline, that the first partition is hot."""
    count = len(LOADS)
    load = wire.PartitionLoad(
        ms=time.time_ns() // 1_000_000,
        topic=TOPIC,
        window_s=60.0,
        partition=list(range(count)),
        bytes_per_s=list(LOADS),
        bytes_per_s_stderr=[0.1] * count,
        records_per_s=[1.0] * count,
        records_per_s_stderr=[0.1] * count,
        samples=[6] * count,
        samples_expected=6,
        confidence=["measured"] * count,
        reason=[None] * count,
    )
    producer = Producer(secured.client("plimsoll-pipeline"))
    producer.produce(wire.PARTITION_LOAD, wire.encode(load), f"{TOPIC}#0")
    assert producer.flush(10) == 0


def _write_config(secured: SecuredCluster) -> None:
    """Set, as the operator, the group to enforce, with a budget that is no hindrance."""
    spec = {"mode": "enforce", "moved_load_share_per_hour_max": 1.0, "cooldown_s": 0}
    record = {"v": 1, "author": "a person", "reason": "level it", "spec": spec}
    record["ms"] = time.time_ns() // 1_000_000
    producer = Producer(secured.client("plimsoll-operator"))
    producer.produce(wire.CONFIG, json.dumps(record), f"group/{GROUP}")
    assert producer.flush(10) == 0


def _sizes(consumers: list[ConsumerProcess]) -> list[int]:
    """Return how many partitions each consumer holds, smallest first."""
    lines = [consumer.journal.read_text().splitlines(keepends=True) for consumer in consumers]
    holds = {event.client: len(event.owned) for event in read_history(lines).assigned}
    return sorted(holds.values())


def _read(secured: SecuredCluster, user: str, group: str, topic: str) -> list[bytes]:
    """Read all values of a topic as a user, to its end; raises when it may not."""
    settings = secured.client(
        user, group_id=group, enable_auto_commit=False, enable_partition_eof=True
    )
    consumer = Consumer(settings)
    try:
        partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        found: list[bytes] = []
        ended = 0
        deadline = time.monotonic() + 20
        while ended < len(partitions) and time.monotonic() < deadline:
            message = consumer.poll(1.0)
            error = None if message is None else message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            ended += error is not None
            if message is not None and error is None:
                found.append(message.value() or b"")
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("role", ROLES)
def test_the_broker_grants_exactly_the_matrix(secured: SecuredCluster, role: str) -> None:
    """For each principal and topic the broker allows the operations of the matrix and no other."""
    rows = [line.split() for line in MATRIX.strip().splitlines()]
    column = rows[0].index(role)
    expected = {row[0]: {LETTERS[c] for c in row[column] if c != "-"} for row in rows[1:]}
    admin = _admin(secured, role)
    futures = admin.describe_topics(
        TopicCollection(list(expected)), include_authorized_operations=True
    )
    allowed = {}
    for name, future in futures.items():
        try:
            allowed[name] = set(future.result(20).authorized_operations)
        except KafkaException as error:
            if _code(error) != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise
            allowed[name] = set()
    assert allowed == expected


def _admin(secured: SecuredCluster, role: str) -> AdminClient:
    return AdminClient(secured.client(f"plimsoll-{role}"))


def _code(error: KafkaException) -> int:
    found: int = error.args[0].code()
    return found


@pytest.mark.parametrize("role", ROLES)
def test_rights_on_cluster_and_group_are_those_of_few(secured: SecuredCluster, role: str) -> None:
    """Only the collector has a right on the cluster; only collector, agent and client on groups."""
    admin = _admin(secured, role)
    cluster = admin.describe_cluster(include_authorized_operations=True).result(20)
    expected = {AclOperation.DESCRIBE} if role == "collector" else set()
    assert set(cluster.authorized_operations or ()) == expected
    described = admin.describe_consumer_groups([GROUP], include_authorized_operations=True)[GROUP]
    if role in {"provisioner", "pipeline", "operator"}:
        with pytest.raises(KafkaException) as denied:
            described.result(20)
        assert _code(denied.value) == KafkaError.GROUP_AUTHORIZATION_FAILED
    else:
        read = {AclOperation.READ} if role in {"agent", "client"} else set()
        assert set(described.result(20).authorized_operations) == {AclOperation.DESCRIBE, *read}


@pytest.mark.parametrize("role", [role for role in ROLES if role != "agent"])
def test_nobody_else_writes_targets_or_fences_the_agent(secured: SecuredCluster, role: str) -> None:
    """A forged target and a takeover by the agent's transactional id are refused by the broker."""
    with pytest.raises(KafkaException) as denied:
        Producer(secured.client(f"plimsoll-{role}", transactional_id="plimsoll")).init_transactions(
            20
        )
    assert _code(denied.value) == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert _write(secured, role, wire.TARGETS) == KafkaError.TOPIC_AUTHORIZATION_FAILED


def _write(secured: SecuredCluster, role: str, topic: str) -> int | None:
    """Write to a topic; return the code of the error with which it was refused."""
    codes: list[int | None] = []
    producer = Producer(secured.client(f"plimsoll-{role}", message_timeout_ms=20_000))

    def note(error: KafkaError | None, _: object) -> None:
        codes.append(None if error is None else error.code())

    producer.produce(topic, b"{}", GROUP, on_delivery=note)
    producer.flush(20)
    return codes[0]


def test_a_stolen_agent_credential_touches_no_workload(secured: SecuredCluster) -> None:
    """The agent can neither write to the workload's topic nor move its group's offsets."""
    assert _write(secured, "agent", TOPIC) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    consumer = Consumer(secured.client("plimsoll-agent", group_id=GROUP))
    with pytest.raises(KafkaException) as immovable:
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)
    consumer.close()
    assert _code(immovable.value) == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_the_collector_reads_no_record_of_the_workload(secured: SecuredCluster) -> None:
    """The collector, which sees offsets and sizes of the workload's topic, cannot fetch from it."""
    with pytest.raises(KafkaException) as unreadable:
        _read(secured, "plimsoll-collector", "plimsoll-collector", TOPIC)
    assert _code(unreadable.value) == KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("role", ROLES)
def test_nobody_deletes_topics(secured: SecuredCluster, role: str) -> None:
    """Not even the principal that creates the topics may delete one or alter its policy."""
    admin = _admin(secured, role)
    with pytest.raises(KafkaException) as kept:
        admin.delete_topics([wire.TARGETS])[wire.TARGETS].result(20)
    assert _code(kept.value) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    policy = ConfigResource(ResourceType.TOPIC, wire.TARGETS, incremental_configs=[entry])
    (future,) = admin.incremental_alter_configs([policy]).values()
    with pytest.raises(KafkaException) as unaltered:
        future.result(20)
    assert _code(unaltered.value) == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_the_printed_commands_grant_the_same(secured: SecuredCluster) -> None:
    """Kafka's own tool makes of a printed command the rules that the data means."""
    users = dict.fromkeys(principals(), "User:probe")
    given = grants(groups=[GROUP], topics=["cargo-*"], users=users)
    # One of each kind: the tool takes a second or two each.
    kinds = {(grant.resource, grant.prefixed): grant for grant in given}
    assert len(kinds) == 6
    for grant in kinds.values():
        tool, *arguments = grant.command(
            ["--bootstrap-server", secured.cluster.bootstrap_servers]
        ).split()
        assert tool == "kafka-acls.sh"
        class_path = f"{fetch('kafka')}/*"
        command = ["java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", class_path]
        main = "org.apache.kafka.tools.AclCommand"
        subprocess.run([*command, main, *arguments], check=True, timeout=60, capture_output=True)
    anything = AclBindingFilter(
        ResourceType.ANY,
        None,  # type: ignore[arg-type]  # its types forget that None means any
        ResourcePatternType.ANY,
        "User:probe",
        None,  # type: ignore[arg-type]  # same
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    found = secured.cluster.admin().describe_acls(anything).result(20)
    expected = [binding for grant in kinds.values() for binding in bindings(grant)]
    assert sorted(map(str, found)) == sorted(map(str, expected))
