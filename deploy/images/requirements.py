"""The part of requirements.lock that one image needs: its extras and what they pull in.

    python deploy/images/requirements.py agent > wanted.txt

prints the locked requirements, hashes included, of the distribution with the named extras (none:
the core alone); `build` stands for what building the distribution needs. The lock tells by its
`# via` comments who asked for what, so nothing is resolved here. Needs the standard library only.
"""

import re
import sys
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
BUILD: Final = "build"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def subset(project: dict[str, Any], lock: str, extras: Collection[str]) -> list[str]:
    """Give the entries of `lock` that the extras of `project` (pyproject.toml) need, in order."""
    entries = [entry for entry in re.split(r"\n(?=\S)", lock.strip()) if _NAME.match(entry)]
    wanted = {_name(requirement) for requirement in _roots(project, extras)}
    grown = True
    while grown:
        found = {_name(entry) for entry in entries if _askers(entry) & wanted}
        grown = not found <= wanted
        wanted |= found
    missing = wanted - {_name(entry) for entry in entries}
    if missing:
        raise LookupError(f"not in the lock: {', '.join(sorted(missing))}")
    return [entry for entry in entries if _name(entry) in wanted]


def _roots(project: dict[str, Any], extras: Collection[str]) -> list[str]:
    """Give the requirements that the project itself states."""
    if BUILD in extras:
        return list(project["build-system"]["requires"])
    named = project["project"]["optional-dependencies"]
    unknown = set(extras) - named.keys()
    if unknown:
        raise LookupError(f"no such extra: {', '.join(sorted(unknown))}")
    return [*project["project"]["dependencies"], *(line for e in extras for line in named[e])]


def _name(requirement: str) -> str:
    """Give a requirement's name in its normal form."""
    found = _NAME.match(requirement)
    if found is None:
        raise LookupError(f"no requirement: {requirement!r}")
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def _askers(entry: str) -> set[str]:
    """Give the names in an entry's `# via` comment."""
    comments = re.findall(r"^    # +(?:via\b)? *(\S.*)$", entry, re.MULTILINE)
    return {_name(comment) for comment in comments}


def main() -> None:
    """Print the subset for the extras named on the command line."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lock = (ROOT / "requirements.lock").read_text()
    sys.stdout.write("\n".join(subset(project, lock, sys.argv[1:])) + "\n")


if __name__ == "__main__":
    main()
