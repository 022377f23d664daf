"""The dashboard loads by provisioning, and shows only metrics that exist."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from deploy.local.paths import ROOT

PROVISIONING: Final = ROOT / "deploy" / "grafana" / "provisioning"
DASHBOARD: Final[dict[str, Any]] = json.loads(
    (PROVISIONING / "dashboards/plimsoll.json").read_text()
)
PANELS: Final = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def _expressions() -> Iterator[str]:
    """Give every query of panels, annotations and variables."""
    for panel in PANELS:
        yield from (target["expr"] for target in panel["targets"])
    yield from (annotation["expr"] for annotation in DASHBOARD["annotations"]["list"])
    yield from (v["definition"] for v in DASHBOARD["templating"]["list"] if v["type"] == "query")


def test_every_metric_exists(series: frozenset[str]) -> None:
    """Each query names at least one metric, and the agent's registry has all of them."""
    for expression in _expressions():
        named = set(re.findall(r"\bplimsoll_\w+", expression))
        assert named, expression
        assert named <= series, expression


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed"
)
def test_prometheus_can_read_every_query(tmp_path: Path) -> None:
    """Prometheus's own tool parses each query once Grafana's variables have values."""
    expressions = [
        text.replace("$__rate_interval", "1m").replace("$group", ".*")
        for text in _expressions()
        if not text.startswith("label_values(")
    ]
    rules = [{"record": f"query:{n}", "expr": text} for n, text in enumerate(expressions)]
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    command = ["promtool", "check", "rules", "--lint=none", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_it_can_be_imported_anywhere() -> None:
    """The data source is a variable, the uid is fixed, and nothing asks for input at import."""
    assert DASHBOARD["uid"] == "plimsoll"
    assert "__inputs" not in DASHBOARD
    assert "id" not in DASHBOARD
    sources = [target["datasource"] for panel in PANELS for target in panel["targets"]]
    sources += [panel["datasource"] for panel in PANELS]
    sources += [annotation["datasource"] for annotation in DASHBOARD["annotations"]["list"]]
    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
    assert (
        DASHBOARD["templating"]["list"][0] | {"name": "datasource", "type": "datasource"}
        == (DASHBOARD["templating"]["list"][0])
    )


def test_each_group_can_be_picked() -> None:
    """Whatever is kept per group is filtered by the variable of that name."""
    for expression in _expressions():
        if re.search(
            r"plimsoll_(group|assignment|target|decisions|moves|nudges)_?\w*{", expression
        ):
            assert 'group=~"$group"' in expression


def test_panels_are_told_apart_and_do_not_overlap() -> None:
    """Ids are unique, every panel says what it shows, and no two cover the same place."""
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    assert all(panel["title"] and panel["description"] for panel in PANELS)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_compose_provisions_it() -> None:
    """The provider reads the folder in which the dashboard is mounted."""
    provider = yaml.safe_load((PROVISIONING / "dashboards/plimsoll.yml").read_text())
    folder = provider["providers"][0]["options"]["path"]
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    grafana = compose["services"]["grafana"]
    assert grafana["volumes"] == ["./deploy/grafana/provisioning:/etc/grafana/provisioning:ro"]
    assert folder == "/etc/grafana/provisioning/dashboards"
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{folder}/plimsoll.json"
    source = yaml.safe_load((PROVISIONING / "datasources/prometheus.yml").read_text())
    assert source["datasources"][0]["url"] == "http://prometheus:9090"
