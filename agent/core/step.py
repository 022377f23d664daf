"""The loop's one step: an event in, ordered commands out.

Theory of operation
-------------------
State is what was read from the topics, nothing else. A `Record` is validated (`wire.decode`) and
folded; a record that is refused becomes a `Quarantine` command and changes nothing. A `Tick` brings
time and is the only moment of decision: each group whose inputs changed, or whose verdict may have
changed with time alone, is reviewed once (`review`). So a burst of load records is judged whole.

The core's own writes change its state only when they come back as records: the shell commits a
`Write` to `plimsoll.targets` and then steps the record it became, before anything else. A crash
between the two leaves nothing half done: the restarted agent reads the topic to its end first.

One gate guards the control topic (`supersedes`): a target counts if its epoch is not older than the
newest claim and it does not go back behind the target already known. The claim's own offset is the
epoch; two agents can therefore never both be believed.

What `step` does not do: I/O, logging, sleeping, reading a clock, drawing random numbers.
"""

import hashlib
from collections.abc import Callable

import numpy as np

from agent import limits, wire
from agent.core import tuning
from agent.core.events import Command, Event, Quarantine, Record, Tick, Write
from agent.core.review import review
from agent.core.state import LoadChunk, State
from agent.core.targets import supersedes
from agent.errors import TheirFault


def step(state: State, event: Event) -> list[Command]:
    """Fold one event into `state` and give what is owed, in order."""
    state.now_ms = max(state.now_ms, event.ms)
    if isinstance(event, Tick):
        return [*_expire_configs(state), *_review_due(state)]
    fold = _FOLDS.get(event.topic)
    if fold is None:
        return []
    try:
        return fold(state, event)
    except TheirFault as fault:
        return [Quarantine(event.topic, event.offset, event.key, fault.path, fault.message)]


def _review_due(state: State) -> list[Command]:
    commands: list[Command] = []
    for name in sorted(state.groups):
        group = state.groups[name]
        if group.dirty or state.now_ms >= group.review_ms:
            commands += review(state, name)
    return commands


def _fold_membership(state: State, record: Record) -> list[Command]:
    if record.value is None:
        group = state.groups.get(record.key)
        if group is not None:
            group.membership, group.said, group.proposal = None, None, None
            group.verdict = None
            _forget_empty(state, record.key)
        return []
    membership = wire.decode(wire.Membership, record.value)
    if membership.group != record.key:
        raise TheirFault("group", f"{membership.group!r} under key {record.key!r}")
    if record.key not in state.groups and len(state.groups) >= limits.GROUPS_MAX:
        raise TheirFault("group", f"more than {limits.GROUPS_MAX} groups")
    group = state.group(record.key)
    last = group.membership
    if last is not None and membership.ms < last.ms:
        return []
    group.membership = membership
    if last is None or not wire.same_facts(last, membership):
        group.dirty = True
    return []


def _fold_load(state: State, record: Record) -> list[Command]:
    topic, _, chunk = record.key.rpartition("#")
    if not topic or not chunk.isdecimal():
        raise TheirFault("key", f"{record.key!r} is not topic#chunk")
    if record.value is None:
        state.loads.get(topic, {}).pop(int(chunk), None)
        return []
    load = wire.decode(wire.PartitionLoad, record.value)
    if load.topic != topic:
        raise TheirFault("topic", f"{load.topic!r} under key {record.key!r}")
    if any(p // limits.PARTITION_LOAD_CHUNK != int(chunk) for p in load.partition):
        raise TheirFault("partition", f"a partition does not belong to chunk {chunk}")
    chunks = state.loads.setdefault(topic, {})
    last = chunks.get(int(chunk))
    if last is not None and load.ms <= last.ms:
        return []
    rows = [i for i, confidence in enumerate(load.confidence) if confidence != "prior"]
    chunks[int(chunk)] = LoadChunk(
        ms=load.ms,
        digest=hashlib.sha256(record.value).hexdigest(),
        partition=np.array(load.partition, dtype=np.int64)[rows],
        bytes_per_s=np.array(load.bytes_per_s, dtype=np.float64)[rows],
        bytes_per_s_stderr=np.array(load.bytes_per_s_stderr, dtype=np.float64)[rows],
        records_per_s=np.array(load.records_per_s, dtype=np.float64)[rows],
        records_per_s_stderr=np.array(load.records_per_s_stderr, dtype=np.float64)[rows],
    )
    for group in state.groups.values():
        if group.membership is not None and topic in group.membership.topics:
            group.dirty = True
    return []


def _fold_config(state: State, record: Record) -> list[Command]:
    before = state.configs.get(record.key)
    try:
        tuning.check_key(record.key)
        if record.value is None:
            state.configs.pop(record.key, None)
            warnings: list[str] = []
        else:
            config = wire.decode(wire.Config, record.value)
            warnings = tuning.unread_fields(record.key, record.value)
            state.configs[record.key] = tuning.Accepted(config, record.offset, state.now_ms)
            _check_merged(state)
    except TheirFault as fault:
        if before is not None:
            state.configs[record.key] = before
        else:
            state.configs.pop(record.key, None)
        return [
            _status(state, record.key, record.offset, fault=fault),
            Quarantine(record.topic, record.offset, record.key, fault.path, fault.message),
        ]
    for group in state.groups.values():
        group.dirty = True
    return [_status(state, record.key, record.offset, warnings=warnings)]


def _check_merged(state: State) -> None:
    """Refuse a record that contradicts another scope, for any group that is tuned or known."""
    tuned = {k.removeprefix(tuning.GROUP_PREFIX) for k in state.configs if k.startswith("group/")}
    for group in sorted({"", *tuned}):
        tuning.check_settings(tuning.settings_of(state.configs, group, state.now_ms))


def _status(
    state: State,
    key: str,
    offset: int,
    *,
    fault: TheirFault | None = None,
    warnings: list[str] | None = None,
) -> Write:
    accepted = state.configs.get(key)
    known = fault is None or fault.path != "key"
    return Write(
        wire.CONFIG_STATUS,
        key,
        wire.ConfigStatus(
            ms=state.now_ms,
            offset=offset,
            accepted=fault is None,
            error=None if fault is None else wire.Fault(path=fault.path, message=fault.message),
            effective=tuning.effective(state.configs, key, state.now_ms) if known else {},
            since_ms=state.now_ms if accepted is None else accepted.since_ms,
            warnings=[f"{name}: nothing reads this field" for name in warnings or ()],
        ),
    )


def _expire_configs(state: State) -> list[Command]:
    """Forget records whose time is over, and say so."""
    over = [key for key, accepted in state.configs.items() if not accepted.in_force(state.now_ms)]
    commands: list[Command] = []
    for key in sorted(over):
        offset = state.configs.pop(key).offset
        commands.append(_status(state, key, offset, warnings=[]))
    if over:
        for group in state.groups.values():
            group.dirty = True
    return commands


def _fold_target(state: State, record: Record) -> list[Command]:
    if record.key == wire.CLAIM_KEY:
        if record.value is not None:
            wire.decode(wire.Claim, record.value)
            state.epoch = max(state.epoch, record.offset)
        return []
    if record.value is None:
        known = state.groups.get(record.key)
        if known is not None:
            known.target, known.dirty = None, True
            _forget_empty(state, record.key)
        return []
    target = wire.decode(wire.Target, record.value)
    group = state.group(record.key)
    if not supersedes(target, group.target, state.epoch):
        raise TheirFault("epoch", f"epoch {target.epoch} revision {target.revision} is stale")
    group.target, group.dirty = target, True
    return []


def _forget_empty(state: State, name: str) -> None:
    group = state.groups[name]
    if group.membership is None and group.target is None:
        del state.groups[name]


_FOLDS: dict[str, Callable[[State, Record], list[Command]]] = {
    wire.MEMBERSHIP: _fold_membership,
    wire.PARTITION_LOAD: _fold_load,
    wire.CONFIG: _fold_config,
    wire.TARGETS: _fold_target,
}
