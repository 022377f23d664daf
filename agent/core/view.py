"""What a person or a dashboard is shown of the core's state; changes nothing."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from agent import wire
from agent.core import targets
from agent.core.state import Group, State
from agent.core.tuning import settings_of


def view(state: State) -> dict[str, Any]:
    """Give epoch, loads' age and every group: `docs/http.md` documents the fields."""
    newest = max((c.ms for chunks in state.loads.values() for c in chunks.values()), default=None)
    return {
        "ms": state.now_ms,
        "epoch": state.epoch,
        "loads_age_s": None if newest is None else (state.now_ms - newest) / 1e3,
        "groups": {name: _group(state, name, state.groups[name]) for name in sorted(state.groups)},
    }


def _group(state: State, name: str, group: Group) -> dict[str, Any]:
    settings = settings_of(state.configs, name, state.now_ms)
    membership, target = group.membership, group.target
    shown: dict[str, Any] = {"mode": settings.mode, "state": None, "members": {}}
    if membership is not None:
        shown["state"] = membership.state
        shown["assignor"] = membership.assignor
        shown["membership_age_s"] = (state.now_ms - membership.ms) / 1e3
        shown["members"] = _members(state, membership)
    if target is not None:
        shown["target"] = {
            "epoch": target.epoch,
            "revision": target.revision,
            "plan_id": target.plan_id,
            "ms": target.ms,
            "drift_partitions": targets.drift_of(target, membership)
            if membership is not None and targets.fits(target, membership)
            else None,
            "nudges": group.attempts,
        }
    if group.verdict is not None:
        shown["decision"] = wire.to_builtins(group.verdict)
    shown["settings"] = asdict(settings) | {"cost": wire.to_builtins(settings.cost)}
    shown["settings"]["capacity"] = wire.to_builtins(list(settings.capacity))
    return shown


def _members(state: State, membership: wire.Membership) -> Mapping[str, dict[str, Any]]:
    """Give partitions held and measured bytes/s per member."""
    rate = {
        (topic, partition): bytes_per_s
        for topic, chunks in state.loads.items()
        if topic in membership.topics
        for chunk in chunks.values()
        for partition, bytes_per_s in zip(
            chunk.partition.tolist(), chunk.bytes_per_s.tolist(), strict=True
        )
    }
    return {
        m.stable_id: {
            "partitions": sum(len(p) for p in m.owned.values()),
            "bytes_per_s": sum(rate.get((t, p), 0.0) for t, ps in m.owned.items() for p in ps),
            "rack": m.rack,
            "host": m.host,
        }
        for m in sorted(membership.members, key=lambda m: m.stable_id)
    }
