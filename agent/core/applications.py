"""Kafka Streams applications: their tasks are planned by `agent.streams`, their plugin follows.

The plugin publishes the application's state at each rebalance, with the placement that it then
gave. A plan names where each task should run *in the end*; the plugin warms copies up before it
moves an active, and asks for its next rebalance itself, so there is no nudge. A plan is published
when it is better than that placement in load of copies, load of actives, copies or racks of copies,
or, where the application has a rack-aware strategy, in partitions read across racks;
while the application is on its way to a target, no other follows for the same processes and tasks.

Reasons are those of `review`, and `bad-application` (refuse): the published state is no problem
that can be planned; the detail names the field.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from agent import limits, wire
from agent.core import targets
from agent.core.events import Command
from agent.core.look import Look
from agent.errors import TheirFault
from agent.streams import door, planner
from agent.streams.certificate import certify
from agent.streams.merit import measure
from agent.streams.problem import Placement, Problem
from agent.streams.target import load_per_thread

GAIN_MIN = 1e-9
"""What a plan must gain to be worth publishing: more than rounding."""

Share = dict[str, list[str]]
"""Tasks of one process: `active`, `standby`, `warmup`."""


def judge(look: Look) -> Iterator[Command | wire.Decision]:
    """Give the verdict on one application."""
    try:
        problem, stable_ids = _problem_of(look)
    except TheirFault as fault:
        yield look.decision("refuse", "bad-application", detail=str(fault))
        return
    if len(set(stable_ids.values())) < len(stable_ids):
        yield look.decision("refuse", "ambiguous-members", detail="processes share a stable id")
        return
    if (target := _on_its_way(look, problem, stable_ids)) is not None:
        detail = f"on its way to revision {target.revision}"
        yield look.decision("hold", "target-pending", plan_id=target.plan_id, detail=detail)
        return
    plan = planner.assign(problem)
    wanted = _shares(problem, plan, stable_ids)
    plan_id = targets.plan_id_of(look.name, wanted)
    causes = _causes(look, problem, plan)
    figures: dict[str, Any] = {
        "certificate": _certificate(problem, plan),
        "alternatives": [{"plan": "stay", "certificate": _certificate(problem, _present(problem))}],
    }
    said = {"plan_id": plan_id, "detail": ", ".join(causes), **figures}
    if not causes:
        yield look.decision("hold", "level", **figures)
    elif look.group.target is not None and look.group.target.plan_id == plan_id:
        yield look.decision("hold", "target-pending", **said)
    elif look.settings.mode != "enforce":
        yield look.decision("hold", look.settings.mode, **said)
    elif (wait_s := look.cooldown_left_s()) > 0:
        yield look.decision("hold", "cooldown", detail=f"{wait_s:.0f} s to go")
    else:
        target = _target(look, problem, wanted, plan_id, stable_ids)
        yield from look.publish(target, "levelled", said)


def _problem_of(look: Look) -> tuple[Problem, dict[str, str]]:
    """Read the published state, with measured loads where they are known. Raises TheirFault."""
    published = look.membership.streams
    if not isinstance(published, Mapping):
        raise TheirFault("streams", "absent")
    document: dict[str, Any] = {**published, "kind": "streams-tasks", "id": look.name}
    if isinstance(document.get("config"), Mapping):
        # Any copy will do: the plan is where tasks run once all are warm, the plugin warms them.
        anyhow = {"assignor": "plimsoll", "acceptable_recovery_lag": limits.JAVA_LONG_MAX}
        document["config"] = {**document["config"], **anyhow}
    if document.get("initial") is None:
        raise TheirFault("streams.initial", "absent: another assignor placed the tasks")
    document["tasks"] = _with_loads(look, document.get("tasks"))
    problem = door.read(document)
    stable_ids = {
        str(client["id"]): str(client.get("stable_id", client["id"]))
        for client in document["clients"]
    }
    return problem, stable_ids


def _certificate(problem: Problem, placement: Placement) -> dict[str, Any]:
    """Give the certificate with `ratio`, by which groups of every kind are compared."""
    load = load_per_thread(problem, placement.active, placement.standby)
    bound = _load_bound(problem, placement)
    ratio = float(load.max()) / bound if bound > 0 else 1.0
    return {**certify(problem, placement), "ratio": ratio}


def _load_bound(problem: Problem, placement: Placement) -> float:
    """Give a load per thread that no spread of these actives and copies could undercut.

    The mean, or: of the n C + 1 heaviest, some process of C has n + 1.
    """
    copies = [1 + len(clients) for clients in placement.standby]
    heaviest = np.sort(np.repeat(problem.load, copies))[::-1]
    sums = np.concatenate(([0.0], heaviest.cumsum()))
    crowd = np.arange(1, len(heaviest) + 1, problem.clients)
    fewest = sums[crowd] - sums[crowd - np.arange(1, len(crowd) + 1)]
    mean = sums[-1] / problem.threads.sum()
    return float(max(mean, fewest.max() / problem.threads.max()))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _with_loads(look: Look, tasks: object) -> object:
    """Add each task's load: the sum over its source partitions, where all tasks' are measured."""
    if not isinstance(tasks, list):
        return tasks
    rates = _rates(look)
    loaded = []
    for task in tasks:
        sources = _mapping(task).get("source", [])
        known = [rates.get((str(s[0]), s[1])) for s in sources if isinstance(s, list) and s[1:]]
        if not known or any(rate is None for rate in known):
            return tasks
        loaded.append({**task, "load": sum(rate for rate in known if rate is not None)})
    return loaded


def _rates(look: Look) -> dict[tuple[str, int], float]:
    fresh_ms = look.state.now_ms - limits.LOAD_STALE_MS_MAX
    return {
        (topic, partition): rate
        for topic in look.membership.topics
        for chunk in look.state.loads.get(topic, {}).values()
        if chunk.ms >= fresh_ms
        for partition, rate in zip(
            chunk.partition.tolist(), chunk.bytes_per_s.tolist(), strict=True
        )
    }


def _shares(
    problem: Problem, placement: Placement, stable_ids: Mapping[str, str]
) -> dict[str, Share]:
    """Give each process its tasks."""
    names = [stable_ids[client] for client in problem.client_ids]
    shares: dict[str, Share] = {n: {"active": [], "standby": [], "warmup": []} for n in names}
    for index, task in enumerate(problem.task_ids):
        shares[names[placement.active[index]]]["active"].append(task)
        for client in placement.standby[index]:
            shares[names[client]]["standby"].append(task)
    return shares


def _on_its_way(look: Look, problem: Problem, stable_ids: Mapping[str, str]) -> wire.Target | None:
    """Give the last target if it is for these processes and tasks and they are not there yet.

    A new plan on every step would lead the application astray: each would start from a placement
    that is there only until copies are warm. What is not followed for long is planned anew.
    """
    target = look.group.target
    if target is None or not target.mode == look.settings.mode == "enforce":
        return None
    if look.state.now_ms - target.ms > limits.STREAMS_FOLLOW_MS_MAX:
        return None
    asked = _mapping(_mapping(target.streams).get("assignment"))
    given = _shares(problem, _present(problem), stable_ids)
    fits = sorted(asked) == sorted(given) and _tasks(asked) == _tasks(given)
    return target if fits and asked != given else None


def _tasks(shares: Mapping[str, Any]) -> list[str]:
    return sorted(str(t) for share in shares.values() for t in _mapping(share).get("active", ()))


def _causes(look: Look, problem: Problem, plan: Placement) -> list[str]:
    """List in what the plan is better than the placement that the last rebalance gave."""
    if problem.initial_active is None:
        return []
    present = measure(problem, _present(problem))
    planned = measure(problem, plan)
    enter = look.settings.imbalance_enter
    gains = {
        "load": present.load_spread - planned.load_spread - enter * present.load_max,
        "load of actives": present.active_max - planned.active_max - enter * present.active_max,
        "copies": present.copies_missing - planned.copies_missing,
        "racks of copies": present.shared_racks - planned.shared_racks,
    }
    if problem.config.strategy != "none":
        gains["cross-rack"] = present.cross_rack - planned.cross_rack
    return [cause for cause, gain in gains.items() if gain > GAIN_MIN]


def _present(problem: Problem) -> Placement:
    nobody: tuple[tuple[int, ...], ...] = ((),) * problem.tasks
    active = () if problem.initial_active is None else tuple(problem.initial_active.tolist())
    return Placement(active, problem.initial_standby or nobody, nobody, followup=False)


def _target(
    look: Look,
    problem: Problem,
    wanted: Mapping[str, Share],
    plan_id: str,
    stable_ids: Mapping[str, str],
) -> wire.Target:
    topics = look.membership.topics
    return wire.Target(
        ms=look.state.now_ms,
        epoch=targets.next_epoch(look.state, look.group.target),
        revision=targets.next_revision(look.group.target),
        plan_id=plan_id,
        ttl_ms=int(look.settings.target_ttl_s * 1000),
        mode=look.settings.mode,
        base=wire.Base(
            members=sorted(stable_ids.values()),
            partitions={topic: topics[topic].partitions for topic in sorted(topics)},
        ),
        assignment={},
        capacity={
            stable_ids[client]: float(threads)
            for client, threads in zip(problem.client_ids, problem.threads.tolist(), strict=True)
        },
        streams={"assignment": wanted},
    )
