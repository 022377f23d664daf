"""docker-compose.yml and the images, as far as they can be judged without Docker."""

import json
import re
import tomllib
from typing import Any, Final

import pytest
import yaml
from jsonschema import Draft202012Validator

from deploy.local.consumers import CLIENT_JARS
from deploy.local.paths import ROOT

COMPOSE: Final[dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: Final[dict[str, dict[str, Any]]] = COMPOSE["services"]
DOCKERFILES: Final = sorted((ROOT / "deploy" / "images").glob("*.Dockerfile"))
OURS: Final = sorted(name for name, service in SERVICES.items() if "build" in service)
PINNED: Final = re.compile(r"[\w./-]+:v?\d+(\.\d+){2}[\w.-]*")
"""An image with its version in full: three numbers at least."""


def test_compose_follows_its_specification() -> None:
    """The file is valid by the schema of the Compose Specification."""
    schema = json.loads((ROOT / "tests/data/deploy/compose-spec.json").read_text())
    assert [error.message for error in Draft202012Validator(schema).iter_errors(COMPOSE)] == []


def test_all_parts_are_there() -> None:
    """Three brokers in racks of their own, topics, every part of Plimsoll, load, and screens."""
    racks = [SERVICES[f"kafka-{n}"]["environment"]["KAFKA_BROKER_RACK"] for n in (1, 2, 3)]
    assert racks == ["r1", "r2", "r3"]
    parts = {"topics", "collector", "pipeline", "agent", "load", "consumer"}
    assert parts | {"prometheus", "grafana"} <= SERVICES.keys()


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_ports_are_open_to_this_machine_only(name: str) -> None:
    """Every published port is bound to loopback."""
    ports = SERVICES[name].get("ports", [])
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in ports)


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_images_are_pinned(name: str) -> None:
    """Every image carries a full version; ours carries that of the distribution."""
    image = SERVICES[name]["image"]
    assert PINNED.fullmatch(image)
    if name in OURS:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert image.endswith(f":{project['version']}")


@pytest.mark.parametrize("name", OURS)
def test_our_containers_have_no_rights_to_spare(name: str) -> None:
    """Ours run with a read-only root, without capabilities, and cannot gain any."""
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_no_secret_is_written_down() -> None:
    """No setting of any container is named like a secret, and no image brings one."""
    secret = re.compile(r"password|secret|token|jaas|private", re.IGNORECASE)
    for name, service in SERVICES.items():
        named = [key for key in service.get("environment", {}) if secret.search(key)]
        assert named == [], name
    for path in DOCKERFILES:
        assert not secret.search(path.read_text())


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_what_a_service_waits_for_can_happen(name: str) -> None:
    """Who waits for health waits for a service with a check, who waits for an end for a job."""
    waits = SERVICES[name].get("depends_on", {})
    for other, how in waits.items() if isinstance(waits, dict) else ():
        if how["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[other]
        else:
            assert how["condition"] == "service_completed_successfully"
            assert SERVICES[other]["restart"] == "on-failure"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_mounted_files_exist(name: str) -> None:
    """Every mount is a declared volume or a path of the tree, and paths are mounted read-only."""
    for mount in SERVICES[name].get("volumes", []):
        source, _, rest = mount.partition(":")
        if source.startswith("."):
            assert (ROOT / source).exists()
            assert rest.endswith(":ro")
        else:
            assert source in COMPOSE["volumes"]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_images_are_built_from_pinned_ones_and_run_as_nobody(path: Any) -> None:
    """Every base image is pinned, and the stages that run have a user that is not root."""
    text = path.read_text()
    bases = dict(re.findall(r"^ARG (PYTHON|JRE|MAVEN)=(.*)$", text, re.MULTILINE))
    assert all(PINNED.fullmatch(base) for base in bases.values())
    stages = re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]
    named = {found[1] for stage in stages if (found := re.match(r"\S+ AS (\S+)\n", stage))}
    for stage in stages:
        base = stage.split()[0]
        assert base in {f"${{{name}}}" for name in bases} | named
        if "ENTRYPOINT" in stage:
            assert re.findall(r"^USER (.*)$", stage, re.MULTILINE)[-1] == "10001:10001"


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_what_an_image_copies_is_there_and_not_ignored(path: Any) -> None:
    """Every COPY from the tree names files that exist and that .dockerignore lets through."""
    text = re.sub(r"\\\n", " ", path.read_text())
    ignore = path.with_name(f"{path.name}.dockerignore").read_text().splitlines()
    allowed = [line.removeprefix("!") for line in ignore if line.startswith("!")]
    assert "*" in ignore
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE):
        *sources, _ = [word for word in line.split() if not word.startswith("--")]
        for source in sources:
            assert (ROOT / source).exists()
            assert any(source == name or source.startswith(f"{name}/") for name in allowed)


def test_the_consumer_image_has_the_jars_that_consumers_need() -> None:
    """The image takes the jars of the local consumers, the plugin and the application."""
    text = (ROOT / "deploy/images/consumer.Dockerfile").read_text()
    taken = re.search(r"&& mv \\\n(.*?)/app\n", text, re.DOTALL)
    assert taken is not None
    names = [line.strip(" \\").rpartition("/")[2] for line in taken[1].splitlines() if line.strip()]
    ours = ["plimsoll-assignor.jar", "plimsoll-local-consumer.jar"]
    assert names == [*CLIENT_JARS, *ours]


def test_all_agree_on_kafkas_version() -> None:
    """Brokers in containers are of the version that the tests run."""
    images = {s["image"] for s in SERVICES.values() if s["image"].startswith("apache/kafka:")}
    pom = (ROOT / "deploy/local/maven/kafka/pom.xml").read_text()
    found = re.search(r"<artifactId>kafka_2\.13</artifactId>\s*<version>(.*)</version>", pom)
    assert found is not None
    assert images == {f"apache/kafka:{found[1]}"}
