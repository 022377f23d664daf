"""Prometheus takes its configuration, and each alert fires when and only when it should."""

import re
import shutil
import subprocess
from typing import Any, Final

import pytest
import yaml

from agent import limits
from deploy.local.paths import ROOT

FOLDER: Final = ROOT / "deploy" / "prometheus" / "compose"
RULES: Final[list[dict[str, Any]]] = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"][
    0
]["rules"]

promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed"
)


def test_every_metric_exists(series: frozenset[str]) -> None:
    """Each alert is about metrics that the agent's registry has."""
    for rule in RULES:
        named = set(re.findall(r"\bplimsoll_\w+", rule["expr"]))
        assert named, rule["alert"]
        assert named <= series, rule["alert"]


def test_every_alert_says_what_to_do() -> None:
    """Each alert has a summary, and its runbook is a headline of docs/metrics.md."""
    page = (ROOT / "docs" / "metrics.md").read_text()
    for rule in RULES:
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]
        anchor = rule["alert"].lower()
        assert rule["annotations"]["runbook_url"].endswith(f"/docs/metrics.md#{anchor}")
        assert f"\n### {rule['alert']}\n" in page


def test_stale_means_what_the_agent_means() -> None:
    """The threshold for old loads is the age above which the agent decides nothing."""
    rule = next(rule for rule in RULES if rule["alert"] == "PlimsollLoadsStale")
    assert rule["expr"].endswith(f"> {limits.LOAD_STALE_MS_MAX // 1000}")


@promtool
def test_prometheus_accepts_the_configuration() -> None:
    """Prometheus's own tool finds no fault with the configuration and the rules."""
    _promtool("check", "config", "prometheus.yml")


@promtool
def test_alerts_fire_when_they_should() -> None:
    """On recorded series each alert fires in its trouble and none fires in health."""
    _promtool("test", "rules", "alerts_test.yml")


def _promtool(*words: str) -> None:
    done = subprocess.run(
        ["promtool", *words], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
