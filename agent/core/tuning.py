"""What an operator's config records amount to for one group.

Precedence: built-in < `defaults` < `topic/NAME` < `group/ID`, field by field. A topic record only
sets what is measured per topic (`cost`). An expired record counts as absent. `control/pause` holds
every group while it exists.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import msgspec
from msgspec import UNSET

from agent import wire
from agent.errors import TheirFault

DEFAULTS_KEY: Final = "defaults"
PAUSE_KEY: Final = "control/pause"
TOPIC_PREFIX: Final = "topic/"
GROUP_PREFIX: Final = "group/"


@dataclass(frozen=True, slots=True)
class Settings:
    """The values in force for one group; the fields of `spec` in the contract."""

    mode: wire.Mode = "observe"
    cost: wire.CostWeights = field(default_factory=wire.CostWeights)
    imbalance_enter: float = 0.10
    imbalance_solve: float = 0.05
    incompatibility: wire.Incompatibility = "none"
    rack_aware: bool = True
    capacity: tuple[wire.CapacityRule, ...] = ()
    pin: tuple[tuple[str, int, str], ...] = ()
    copartition: tuple[tuple[str, ...], ...] = ()
    exclude: tuple[str, ...] = ()
    moves_per_hour_max: int = 60
    moved_load_share_per_hour_max: float = 0.2
    cooldown_s: float = 300.0
    horizon_s: float = 1800.0
    confidence_k: float = 2.0
    target_ttl_s: float = 900.0
    approve: str = ""

    def capacity_of(self, stable_id: str) -> float:
        """Capacity units of a member: the first rule that matches the whole id, else 1."""
        for rule in self.capacity:
            if re.fullmatch(rule.match, stable_id):
                return rule.units
        return 1.0


@dataclass(frozen=True, slots=True)
class Accepted:
    """A valid config record with the offset it stands at and when it was read."""

    config: wire.Config
    offset: int
    since_ms: int

    def in_force(self, now_ms: int) -> bool:
        """Tell whether the record has not expired."""
        return self.config.expires_ms is UNSET or now_ms < self.config.expires_ms


def check_key(key: str) -> None:
    """Refuse a key that nothing reads."""
    scope, _, name = key.partition("/")
    if key in {DEFAULTS_KEY, PAUSE_KEY} or (scope in {"topic", "group"} and name):
        return
    raise TheirFault("key", f"{key!r} is none of defaults, topic/NAME, group/ID, {PAUSE_KEY}")


def check_settings(settings: Settings) -> None:
    """Refuse values that contradict one another once all scopes are merged."""
    if settings.imbalance_enter > 1:
        raise TheirFault("spec.imbalance_enter", "must be at most 1")
    if settings.imbalance_solve > settings.imbalance_enter:
        raise TheirFault(
            "spec.imbalance_solve",
            f"{settings.imbalance_solve} is above imbalance_enter {settings.imbalance_enter}:"
            " a group would be left in a state that is entered again at once",
        )


def unread_fields(key: str, value: bytes) -> list[str]:
    """Name the fields of a record that nothing reads: most often a slip of the pen."""
    document = msgspec.json.decode(value)
    known = {"cost"} if key.startswith(TOPIC_PREFIX) else {f.name for f in fields(Settings)}
    unread = [name for name in document if name not in wire.Config.__struct_fields__]
    spec = document.get("spec", {})
    return sorted(unread) + sorted(f"spec.{name}" for name in spec if name not in known)


def settings_of(configs: Mapping[str, Accepted], group: str, now_ms: int) -> Settings:
    """Give the values in force for a group."""
    return _merge(Settings(), configs, (DEFAULTS_KEY, GROUP_PREFIX + group), now_ms)


def cost_of(
    configs: Mapping[str, Accepted], group: str, topic: str, now_ms: int
) -> wire.CostWeights:
    """Give the weights of bytes and records for a topic as the group reads it."""
    scopes = (DEFAULTS_KEY, TOPIC_PREFIX + topic, GROUP_PREFIX + group)
    return _merge(Settings(), configs, scopes, now_ms).cost


def effective(configs: Mapping[str, Accepted], key: str, now_ms: int) -> dict[str, Any]:
    """Give the values that a key's scope now has, as plain JSON."""
    if key == PAUSE_KEY:
        accepted = configs.get(key)
        return {"paused": accepted is not None and accepted.in_force(now_ms)}
    if key.startswith(TOPIC_PREFIX):
        merged = _merge(Settings(), configs, (DEFAULTS_KEY, key), now_ms)
        return {"cost": msgspec.to_builtins(merged.cost)}
    scopes = (DEFAULTS_KEY,) if key == DEFAULTS_KEY else (DEFAULTS_KEY, key)
    merged = _merge(Settings(), configs, scopes, now_ms)
    plain: dict[str, Any] = msgspec.to_builtins(merged)
    return plain


def _merge(
    settings: Settings, configs: Mapping[str, Accepted], keys: tuple[str, ...], now_ms: int
) -> Settings:
    for key in keys:
        accepted = configs.get(key)
        if accepted is None or not accepted.in_force(now_ms):
            continue
        spec = accepted.config.spec
        only = ("cost",) if key.startswith(TOPIC_PREFIX) else spec.__struct_fields__
        chosen: dict[str, Any] = {
            name: _frozen(getattr(spec, name)) for name in only if getattr(spec, name) is not UNSET
        }
        settings = replace(settings, **chosen)
    return settings


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value
