"""Where the local parts keep what they build, run and log: all of it below `build/`."""

from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
"""The source tree, or the folder that holds the installed packages."""

BUILD: Final = (ROOT if (ROOT / "pyproject.toml").exists() else Path.cwd()) / "build"
"""Ignored by git; an installed distribution uses `build/` of the working directory."""
