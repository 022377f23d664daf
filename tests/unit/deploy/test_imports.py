"""What an image runs imports nothing that the image does not install."""

import subprocess
import sys
import tomllib
from typing import Final

import pytest

from deploy.images.requirements import subset
from deploy.local.paths import ROOT

RUNS: Final = {
    "agent": ["agent.cli", "agent.topics", "agent.runtime", "deploy.local.load"],
    "collect": [
        "agent.cli",
        "agent.telemetry",
        "agent.clients",
        "agent.collector.groups",
        "agent.collector.kafka_source",
        "agent.collector.run",
    ],
    "pipeline": [
        "agent.cli",
        "agent.telemetry",
        "agent.clients",
        "agent.collector.stop",
        "pipeline.job",
    ],
}
"""By extra: the modules that the commands of docker-compose.yml import, also late."""

PROGRAM: Final = """
import importlib, re, sys
from importlib.metadata import packages_distributions

normal = lambda name: re.sub("[-_.]+", "-", name).lower()
installed, modules = (set(words.split(",")) for words in sys.argv[1:])

class Missing:
    def find_spec(self, name, path=None, target=None):
        owners = {normal(owner) for owner in OWNERS.get(name.partition(".")[0], ())}
        if owners and not owners & installed and not owners <= {"plimsoll-kafka"}:
            raise ModuleNotFoundError(f"not in the image: {name}", name=name)

OWNERS = packages_distributions()
sys.meta_path.insert(0, Missing())
for module in sorted(modules):
    importlib.import_module(module)
"""


@pytest.mark.parametrize("extra", ["agent", "collect", "pipeline"])
def test_every_import_is_installed(extra: str) -> None:
    """With all other distributions out of sight, each module of the image's commands imports."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    entries = subset(project, (ROOT / "requirements.lock").read_text(), [extra])
    names = {entry.partition("==")[0].replace("_", "-").lower() for entry in entries}
    command = [sys.executable, "-c", PROGRAM, ",".join(sorted(names)), ",".join(RUNS[extra])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-600:]
