"""A real Prometheus that scrapes real brokers, without containers and without root.

    with LocalCluster(jvm=[jmx_agent()]) as cluster, LocalPrometheus(targets(cluster)) as server:
        ...server.url...

The program is `prometheus` from PATH, else the one in Debian's package of that name, unpacked
below `build/`.
"""

import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from agent.errors import TheirFault
from deploy.local.artifacts import fetch
from deploy.local.cluster import BROKER_IDS, LocalCluster
from deploy.local.leash import Leash
from deploy.local.node import free_ports
from deploy.local.paths import BUILD

HERE: Final = Path(__file__).resolve().parent
READY_TIMEOUT_S: Final = 60.0


def jmx_agent(rules: Path = HERE / "jmx-rules.yml") -> str:
    """Return the JVM option that lets a broker of `LocalCluster` export its metrics."""
    (jar,) = fetch("jmx").glob("*.jar")
    return f"-javaagent:{jar}=127.0.0.1:{{port}}:{rules}"


def target(cluster: LocalCluster, broker: int) -> str:
    """Return where a broker of a cluster started with `jmx_agent` is scraped."""
    return f"127.0.0.1:{cluster.node(broker).extra_port}"


def targets(cluster: LocalCluster) -> dict[str, dict[str, str]]:
    """Return where all brokers are scraped, and that their series get no labels of their own."""
    return {target(cluster, broker): {} for broker in BROKER_IDS}


def program() -> Path:
    """Return the Prometheus server, unpacking Debian's package when there is none."""
    found = shutil.which("prometheus")
    if found:
        return Path(found)
    unpacked = BUILD / "prometheus"
    binary = unpacked / "usr" / "bin" / "prometheus"
    if not binary.exists():
        unpacked.mkdir(parents=True, exist_ok=True)
        if _run(["apt-get", "download", "prometheus"], unpacked):
            _run(["apt-get", "update", "-q"], unpacked)
            failure = _run(["apt-get", "download", "prometheus"], unpacked)
            if failure:
                raise TheirFault("prometheus", f"install it, or apt-get must work: {failure}")
        (package,) = unpacked.glob("prometheus_*.deb")
        _run(["dpkg", "-x", str(package), str(unpacked)], unpacked)
        package.unlink()
    return binary


def _run(command: list[str], folder: Path) -> str:
    """Run a command; return what it said when it failed, else nothing."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        return str(error)
    return (done.stdout + done.stderr)[-500:] if done.returncode else ""


class LocalPrometheus:
    """A server with data of its own on a free port; gone with its owner.

    It scrapes the addresses in `scraped` and labels the series of each with what stands there.
    """

    def __init__(self, scraped: Mapping[str, Mapping[str, str]], interval_s: float = 1.0) -> None:
        self._scraped = scraped
        self._interval_s = interval_s
        self._leash = Leash()
        self.url = ""

    def __enter__(self) -> Self:
        (port,) = free_ports(1)
        BUILD.mkdir(exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="prometheus-", dir=BUILD))
        self._leash.delete_at_end(folder)
        config = {
            "global": {
                "scrape_interval": f"{round(self._interval_s * 1000)}ms",
                "scrape_timeout": f"{round(self._interval_s * 1000)}ms",
            },
            "scrape_configs": [
                {
                    "job_name": "kafka",
                    "static_configs": [
                        {"targets": [address], "labels": dict(labels)}
                        for address, labels in self._scraped.items()
                    ],
                }
            ],
        }
        # JSON is YAML.
        (folder / "prometheus.yml").write_text(json.dumps(config))
        self._leash.spawn(
            [
                str(program()),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            output=folder / "log",
        )
        self.url = f"http://127.0.0.1:{port}"
        self._wait_ready()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leash.stop()

    def _wait_ready(self) -> None:
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline_s:
            try:
                with urllib.request.urlopen(f"{self.url}/-/ready", timeout=1) as answer:  # noqa: S310 -- our own loopback URL
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise TheirFault("prometheus", f"{self.url} is not ready")
