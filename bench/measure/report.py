"""Figures beside what must hold, printed and kept as JSON."""

import json
from typing import Any

from bench.measure.stage import folder

_figures: list[dict[str, Any]] = []


def figure(name: str, value: float, most: float, unit: str) -> bool:
    """Print a figure that must not exceed `most`; `%` shows shares as percent."""
    scale = 100 if unit == "%" else 1
    holds = value <= most
    _tell(name, f"{value * scale:.2f} {unit}", f"at most {most * scale:g} {unit}", holds)
    _figures.append({"name": name, "value": value, "at_most": most, "holds": holds})
    return holds


def at_least(name: str, value: float, least: float) -> bool:
    """Print a figure that must reach `least`."""
    holds = value >= least
    _tell(name, f"{value:.2f}", f"at least {least:g}", holds)
    _figures.append({"name": name, "value": value, "at_least": least, "holds": holds})
    return holds


def between(name: str, value: float, least: float, most: float) -> bool:
    """Print a share that must lie in a range."""
    holds = least <= value <= most
    _tell(name, f"{100 * value:.1f} %", f"{100 * least:g} to {100 * most:g} %", holds)
    _figures.append(
        {"name": name, "value": value, "at_least": least, "at_most": most, "holds": holds}
    )
    return holds


def write(name: str, about: dict[str, Any]) -> None:
    """Keep the figures printed since the last call in `NAME.json`."""
    path = folder() / f"{name}.json"
    path.write_text(json.dumps({**about, "figures": _figures}, indent=1))
    _figures.clear()
    print(f"written: {path}")


def _tell(name: str, value: str, bound: str, holds: bool) -> None:
    print(f"{'holds' if holds else 'FAILS'}  {name:<48} {value:>12}   {bound}")
