"""The house rules that a machine can check."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("agent", "cost", "pipeline", "deploy", "bench", "tests")
PURE = ("agent/core", "agent/assign", "agent/streams", "cost")
LINES_MAX = 500

MAY_IMPORT = {
    "cost": {"cost"},
    "pipeline": {"pipeline", "cost", "agent.wire", "agent.limits", "agent.errors", "agent.loads"},
    "agent/core": {"agent", "cost"},
    "agent/assign": {"agent.assign", "agent.errors", "agent.limits", "cost"},
    "agent/streams": {"agent.streams", "agent.errors", "agent.limits", "cost"},
}
"""Folder to the modules of ours that it may import."""

IMPURE = {
    *("asyncio", "confluent_kafka", "faust", "aiokafka", "kafka", "logging", "structlog"),
    *("os", "random", "requests", "secrets", "socket", "subprocess", "threading", "urllib"),
}


def tracked(*suffixes: str) -> list[Path]:
    """List the files of the tree by suffix: what git tracks, and what is new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return [ROOT / n for n in listed if n.endswith(suffixes) and (ROOT / n).is_file()]


def modules(*folders: str) -> list[Path]:
    """List the Python files below folders."""
    return [p for p in tracked(".py") if p.relative_to(ROOT).as_posix().startswith(folders)]


def imports(path: Path) -> Iterator[str]:
    """Give every module that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("folder", sorted(MAY_IMPORT))
def test_parts_import_only_what_they_may(folder: str) -> None:
    """Arrows between the parts point one way: cost knows nobody, the pure parts know no shell."""
    allowed = tuple(sorted(MAY_IMPORT[folder]))
    strays = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules(folder + "/")
        for name in imports(path)
        if name.split(".")[0] in PARTS
        and not any(name == a or name.startswith(a + ".") for a in allowed)
    ]

    assert strays == []


@pytest.mark.parametrize("folder", PURE)
def test_pure_parts_do_no_io(folder: str) -> None:
    """The core, the assignors and the cost functions import nothing that does I/O or draws lots."""
    strays = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules(folder + "/")
        for name in imports(path)
        if name.split(".")[0] in IMPURE
    ]

    assert strays == []


def test_modules_stay_small() -> None:
    """No module grows past what one can hold in the head."""
    big = {
        str(path.relative_to(ROOT)): lines
        for path in modules("agent", "cost", "pipeline", "deploy", "bench")
        if (lines := len(path.read_text().splitlines())) > LINES_MAX
    }

    assert big == {}


def test_every_test_states_its_property() -> None:
    """Each test function has a docstring."""
    silent = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in modules("tests")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]

    assert silent == []


def test_tree_names_no_machine_and_no_unfinished_work() -> None:
    """No path of a developer's machine, no note of work left to do."""
    wrong = re.compile(r"/(work|home|root|Users)/\w+/|\b(TODO|FIXME|XXX)\b")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked(".py", ".java", ".md", ".yml", ".yaml", ".toml", ".lock", "Makefile")
        if path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if wrong.search(line)
    ]

    assert found == []


def test_lock_names_versions_and_hashes_only() -> None:
    """The lock file carries no address of a package registry, and pins every line by hash."""
    lock = (ROOT / "requirements.lock").read_text()

    assert "://" not in lock
    assert lock.count("==") <= lock.count("--hash=sha256:")


def test_documents_link_to_what_exists() -> None:
    """Every relative link of a page leads to a file."""
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in tracked(".md")
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]

    assert broken == []
