"""Profiles: which series of a Prometheus hold what, read from `profiles.toml` or a file like it."""

import tomllib
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from agent.errors import TheirFault
from agent.wire import fault_of

ROLES: Final = ("end_offset", "log_start_offset", "log_size", "leader")


class Profile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """PromQL instant selectors by role, and the labels to read."""

    title: str
    end_offset: str
    log_start_offset: str | None = None
    log_size: str | None = None
    leader: str | None = None
    topic_label: str = "topic"
    partition_label: str = "partition"
    instance_label: str = "instance"

    def selectors(self) -> dict[str, str]:
        """Give role and selector of what the profile has."""
        found = {role: getattr(self, role) for role in ROLES}
        return {role: selector for role, selector in found.items() if selector is not None}


def read_profiles(file: Path | None = None) -> dict[str, Profile]:
    """Read the shipped profiles, and those of `file` over them. Raises TheirFault."""
    shipped = resources.files("agent.collector").joinpath("profiles.toml").read_text()
    profiles = _parse("profiles.toml", shipped)
    if file is not None:
        profiles |= _parse(str(file), file.read_text())
    return profiles


def _parse(name: str, text: str) -> dict[str, Profile]:
    try:
        return msgspec.convert(tomllib.loads(text), dict[str, Profile])
    except tomllib.TOMLDecodeError as error:
        raise TheirFault(name, str(error)) from None
    except msgspec.ValidationError as error:
        fault = fault_of(error)
        raise TheirFault(f"{name}: {fault.path}", fault.message) from None
