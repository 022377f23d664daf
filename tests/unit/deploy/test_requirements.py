"""The part of the lock that an image installs is whole, and no more than it needs."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.images.requirements import subset
from deploy.local.paths import ROOT

PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK: Final = (ROOT / "requirements.lock").read_text()
LOCKED: Final = re.compile(r"([A-Za-z0-9._-]+)==(\S+)")


def _names(*extras: str) -> set[str]:
    """Return the names of the distributions that an image with the extras installs."""
    lines = [LOCKED.match(entry) for entry in subset(PROJECT, LOCK, extras)]
    return {canonicalize_name(line[1]) for line in lines if line is not None}


@pytest.mark.parametrize("extras", [(), ("agent",), ("collect",), ("pipeline",), ("build",)])
def test_every_dependency_is_taken_along(extras: tuple[str, ...]) -> None:
    """What an installed distribution says that it requires on this machine is in the subset."""
    names = _names(*extras)
    for name in names:
        try:
            requires = distribution(name).requires or []
        except PackageNotFoundError:
            continue  # a package of another platform
        for requirement in map(Requirement, requires):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                assert canonicalize_name(requirement.name) in names, f"{name}: {requirement}"


def test_each_image_has_only_its_own_extras() -> None:
    """Spark is in no image but the pipeline's, Faust in the agent's only, no test tool in any."""
    every = {extra: _names(extra) for extra in ("agent", "collect", "pipeline")}
    assert {extra for extra, names in every.items() if "pyspark" in names} == {"pipeline"}
    assert {extra for extra, names in every.items() if "faust-streaming" in names} == {"agent"}
    assert all(not names & {"pytest", "ruff", "mypy", "hypothesis"} for names in every.values())


def test_every_requirement_keeps_its_hashes() -> None:
    """Each entry is one exact version with at least one hash, so that pip accepts nothing else."""
    for entry in subset(PROJECT, LOCK, ["agent", "collect", "pipeline"]):
        assert LOCKED.match(entry)
        assert "--hash=sha256:" in entry


def test_an_unknown_extra_is_refused() -> None:
    """A slip in EXTRAS ends the build instead of making an image that lacks something."""
    with pytest.raises(LookupError, match="agnet"):
        subset(PROJECT, LOCK, ["agnet"])
