"""What docker-compose.yml runs in containers runs here as processes: the same commands."""

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import ConfigResource, ResourceType

from agent import wire
from deploy.local.artifacts import consumer_jar, fetch, plugin_jar
from deploy.local.cluster import LocalCluster
from deploy.local.consumers import CLIENT_JARS
from deploy.local.leash import Leash
from deploy.local.node import free_ports
from deploy.local.paths import ROOT

Until = Callable[..., None]

IMAGES: Final = ROOT / "deploy" / "images"
COMPOSE: Final[dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
CONSUMERS: Final = ("c1", "c2")
TOOLS: Final = {"kafka-topics.sh": "TopicCommand", "kafka-console-producer.sh": "ConsoleProducer"}
"""Kafka's tools as the brokers' image has them, and the classes that they run."""


class Native:
    """Turns a service into the command of its container, with this machine's names in it."""

    def __init__(self, programs: Mapping[str, str], names: Mapping[str, str]) -> None:
        self._programs = programs
        self.names = names

    def command(self, service: str) -> list[str]:
        """Give entrypoint and command: of the service, else of its image."""
        described = COMPOSE["services"][service]
        entrypoint = described.get("entrypoint") or _of_image(described, "ENTRYPOINT")
        command = described.get("command") or _of_image(described, "CMD")
        return self._here([*entrypoint, *command])

    def healthcheck(self, service: str) -> list[str]:
        """Give the command by which Docker asks a service whether it is well."""
        kind, *words = COMPOSE["services"][service]["healthcheck"]["test"]
        assert kind == "CMD"
        return self._here(words)

    def text(self, theirs: str) -> str:
        """Replace a container's names by ours, and `${NAME:-default}` by the default."""
        theirs = re.sub(r"\$\{\w+:-(.*?)\}", r"\1", theirs).replace("$$", "$")
        pattern = "|".join(map(re.escape, self.names))
        return re.sub(pattern, lambda found: self.names[found[0]], theirs)

    def _here(self, words: list[str]) -> list[str]:
        program, *arguments = words
        return [self._programs[program], *map(self.text, arguments)]


def _of_image(described: Mapping[str, Any], instruction: str) -> list[str]:
    """Read an instruction of the Dockerfile's target, or of the stage that it is built on."""
    build = described["build"]
    stages = re.split(r"^FROM ", (ROOT / build["dockerfile"]).read_text(), flags=re.MULTILINE)[1:]
    stage = stages[-1]
    if "target" in build:
        stage = next(text for text in stages if f" AS {build['target']}\n" in text)
    while not (found := re.findall(rf"^{instruction} (\[.*\])$", stage, re.MULTILINE)):
        base = stage.split()[0]
        stage = next(text for text in stages if f" AS {base}\n" in text)
    words: list[str] = json.loads(found[-1])
    return words


@pytest.fixture
def native(cluster: LocalCluster, fresh_name: Callable[[str], str], tmp_path: Path) -> Native:
    """Give a translation to the test's cluster, with group and topics that nobody else uses."""
    tools = tmp_path / "bin"
    tools.mkdir()
    java = f"java -Xmx64m -XX:TieredStopAtLevel=1 -cp '{fetch('kafka')}/*'"
    for tool, main in TOOLS.items():
        script = tools / tool
        script.write_text(f'#!/bin/sh\nexec {java} org.apache.kafka.tools.{main} "$@"\n')
        script.chmod(0o755)
    programs = {
        "plimsoll": str(Path(sys.executable).with_name("plimsoll")),
        "python": sys.executable,
        "bash": "bash",
        "consumer": str(IMAGES / "consumer.sh"),
    }
    port, metrics_port = free_ports(2)
    names = {
        "kafka-1:9092,kafka-2:9092,kafka-3:9092": cluster.bootstrap_servers,
        "cargo": fresh_name("cargo"),
        "harbour": fresh_name("harbour"),
        "8080": str(port),
        "8081": str(metrics_port),
        "0.0.0.0": "127.0.0.1",  # noqa: S104 -- what the agent listens on inside its container
        "/opt/kafka/bin": str(tools),
        "/opt/connector": str(fetch("spark")),
        "/var/lib/plimsoll": str(tmp_path),
        "/etc/consumer": str(tmp_path),
    }
    made = Native(programs, names)
    settings = made.text((IMAGES / "consumer.properties").read_text())
    (tmp_path / "consumer.properties").write_text(settings)
    return made


def test_every_command_of_compose_comes_up(
    cluster: LocalCluster, native: Native, until: Until, tmp_path: Path
) -> None:
    """Topics are made; collector, pipeline, agent, load and consumers each do their first work."""
    for service in ("topics", "cargo-topics"):
        subprocess.run(native.command(service), check=True, timeout=90)
    topics = [f"{native.names['cargo']}-{number:02d}" for number in range(4)]
    cluster.wait_topics(topics)
    with Leash() as leash:
        services = {
            service: leash.spawn(
                native.command(service), output=tmp_path / f"{service}.log", cwd=tmp_path
            )
            for service in ("collector", "pipeline", "agent", "load")
        }
        jars = [consumer_jar(), plugin_jar(), *(fetch("kafka") / name for name in CLIENT_JARS)]
        for name in CONSUMERS:
            environment = {
                "CLASSPATH": ":".join(map(str, jars)),
                "LOG4J_CONFIGURATION_FILE": str(IMAGES / "consumer.log4j2.properties"),
                "CLIENT_ID": name,
            }
            services[name] = leash.spawn(
                native.command("consumer"),
                output=tmp_path / f"{name}.log",
                env=environment,
                cwd=tmp_path,
            )
        well = native.healthcheck("agent")
        until("the agent is well", lambda: not subprocess.run(well, check=False).returncode)
        until("the agent is ready", lambda: _get(native, "/readyz") == "ok\n", 90)
        logs = [tmp_path / f"{name}.log" for name in CONSUMERS]
        until("consumers process", lambda: all(_processed(log) for log in logs))
        assert any("how=fallback" in log.read_text() for log in logs)
        until(
            "the agent knows the group",
            lambda: set(_group(native).get("members", {})) == set(CONSUMERS),
        )
        load = services.pop("load")
        load.terminate()
        assert load.wait(60) == 0
        until("the pipeline writes loads", lambda: set(topics) <= _loaded_topics(cluster), 180)
        for name, port in _scraped().items():
            assert "plimsoll_" in _get(native, "/metrics", port), name
        subprocess.run(["bash", "-euc", native.text(_the_one_record())], check=True, timeout=60)
        until("the group is enforced", lambda: _group(native).get("mode") == "enforce")
        ended = {name: child.returncode for name, child in services.items() if child.poll()}
        assert ended == {}


def _get(native: Native, path: str, port: str = "8080") -> str:
    """Get a page of the agent, or of what listens on another port; empty without an answer."""
    try:
        url = f"http://127.0.0.1:{native.names[port]}{path}"
        with urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:  # refused, reset, or 503
        return ""


def _processed(log: Path) -> bool:
    """Tell whether a consumer's journal, which it prints, has records in it."""
    return '"event":"processed"' in log.read_text()


def _group(native: Native) -> dict[str, Any]:
    """Return what the agent knows of the consumers' group."""
    groups: dict[str, Any] = json.loads(_get(native, "/plan") or "{}").get("groups", {})
    group: dict[str, Any] = groups.get(native.names["harbour"], {})
    return group


def _scraped() -> dict[str, str]:
    """Return the port of each service that Prometheus is told to scrape."""
    path = ROOT / "deploy" / "prometheus" / "compose" / "prometheus.yml"
    jobs = yaml.safe_load(path.read_text())["scrape_configs"]
    targets = [
        target for job in jobs for config in job["static_configs"] for target in config["targets"]
    ]
    return dict(target.split(":") for target in targets)


def _the_one_record() -> str:
    """Return the command of docs/deployment.md that sets the group to enforce."""
    text = (ROOT / "docs" / "deployment.md").read_text()
    (command,) = re.findall(r"```sh\ndocker compose exec -T kafka-1 (.*?)```", text, re.DOTALL)
    return str(command)


def _loaded_topics(cluster: LocalCluster) -> set[str]:
    """Return the topics of which the pipeline has written loads."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "plimsoll-test"}
    consumer = Consumer({**settings, "enable.auto.commit": "false", "enable.partition.eof": True})
    consumer.assign([TopicPartition(wire.PARTITION_LOAD, 0, OFFSET_BEGINNING)])
    found = set()
    while (message := consumer.poll(10.0)) is not None and message.error() is None:
        found.add((message.key() or b"").decode().rpartition("#")[0])
    consumer.close()
    return found


def test_kafka_accepts_the_brokers_settings(cluster: LocalCluster, tmp_path: Path) -> None:
    """Each broker's environment is settings that Kafka 4.3.1 knows and formats a storage with."""
    resource = ConfigResource(ResourceType.BROKER, "1")
    known = cluster.admin().describe_configs([resource])[resource].result(20).keys()
    for broker in ("kafka-1", "kafka-2", "kafka-3"):
        environment = COMPOSE["services"][broker]["environment"]
        settings = {
            name.removeprefix("KAFKA_").lower().replace("_", "."): value
            for name, value in environment.items()
            if name not in {"CLUSTER_ID", "KAFKA_HEAP_OPTS"}
        }
        assert settings.keys() <= known
        settings["log.dirs"] = str(tmp_path / broker)
        path = tmp_path / f"{broker}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        java = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{fetch('kafka')}/*"]
        words = ["format", "-t", environment["CLUSTER_ID"], "-c", str(path)]
        command = [*java, "kafka.tools.StorageTool", *words]
        subprocess.run(command, check=True, timeout=60, capture_output=True)
