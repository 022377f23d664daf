"""The verdict on one group: publish, hold or refuse, each with a reason code.

Reasons beside those of `admission`:

| reason | verdict | meaning |
|---|---|---|
| `levelled` | publish | a new target, for the causes named in the detail |
| `approved` | publish | a person approved the plan that mode `advise` proposed |
| `level` | hold | the group is within its band; nothing to do |
| `paused` | hold | `control/pause` is set |
| `target-pending` | hold | members have not yet taken the last target; nudged again if need be |
| `not-followed` | refuse | three nudges did not help: is the plugin installed in every member? |
| `no-plugin` | refuse | the group's assignor is not Plimsoll's |
| `observe`, `shadow`, `advise` | hold | the mode: a plan exists and is not published |
| `cooldown`, `budget-spent` | hold | levelling waits; forced moves do not |
| `within-noise`, `not-worth-it` | hold | see `worth` |
| `bad-settings` | refuse | the tuning cannot be met for this group; the detail names the field |
| `target-too-large` | refuse | the record would not fit on the topic |
| `outcome` | hold | what the plan `outcome_of` has come to, measured after it was applied |
"""

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import msgspec

from agent import limits, wire
from agent.assign import Certificate, GroupPlan, GroupProblem, Options, solve, trim
from agent.assign.certificate import certify
from agent.core import applications, targets
from agent.core.admission import NotAdmitted, admit
from agent.core.events import Command, Nudge, Write
from agent.core.look import Look
from agent.core.state import State
from agent.core.tuning import PAUSE_KEY, settings_of
from agent.core.worth import Cause, as_it_is, causes_of, refusal, relief_of
from agent.errors import TheirFault

ASSIGNOR = "plimsoll"
"""Protocol name of the client-side plugin."""


def review(state: State, name: str) -> list[Command]:
    """Look at a group as of `state.now_ms` and give what is owed."""
    group = state.groups[name]
    membership = group.membership
    if membership is None:
        return []
    look = Look(state, name, group, membership, settings_of(state.configs, name, state.now_ms))
    group.dirty = False
    group.review_ms = state.now_ms + limits.DECISION_REPEAT_MS
    commands: list[Command] = []
    for command in _owed(look):
        if isinstance(command, wire.Decision):
            commands += _say(look, command)
        else:
            commands.append(command)
    return commands


def _owed(look: Look) -> Iterator[Command | wire.Decision]:
    """Judge; tuning that cannot be met for this group is a verdict, never an error of ours."""
    try:
        yield from _judge(look)
    except TheirFault as fault:
        yield look.decision("refuse", "bad-settings", detail=str(fault))


def _judge(look: Look) -> Iterator[Command | wire.Decision]:
    state, settings = look.state, look.settings
    pause = state.configs.get(PAUSE_KEY)
    if pause is not None and pause.in_force(state.now_ms):
        yield look.decision("hold", "paused", detail=pause.config.reason or "control/pause is set")
        return
    if look.membership.kind == "streams":
        yield from applications.judge(look)
        return
    options = Options(
        imbalance=settings.imbalance_solve,
        incompatibility=settings.incompatibility,
        rack_aware=settings.rack_aware,
    )
    try:
        problem = admit(state, look.name, look.membership, settings, options)
    except NotAdmitted as no:
        yield look.decision(no.verdict, no.reason, detail=no.detail)
        return
    if settings.mode == "enforce" and look.membership.assignor != ASSIGNOR:
        detail = f"the group's assignor is {look.membership.assignor!r}"
        yield look.decision("refuse", "no-plugin", detail=detail)
        return
    pending = _pending(look) if settings.mode == "enforce" else None
    if pending is not None:
        yield from pending
        return
    present = certify(as_it_is(problem), problem.owner)
    yield from _outcome(look, present)
    yield from _plan(look, problem, present)


def _within_budget(look: Look, problem: GroupProblem, plan: GroupPlan) -> GroupPlan:
    """Give the plan, or where it moves more than this hour has left, the best that does not."""
    moves, share = targets.spent_of(look.group.target, look.state.now_ms)
    moves_left = max(0, look.settings.moves_per_hour_max - moves)
    share_left = max(0.0, look.settings.moved_load_share_per_hour_max - share)
    load_left = share_left * float(problem.load.sum())
    if plan.certificate.moves <= moves_left and plan.certificate.moved_load <= load_left:
        return plan
    options = replace(problem.options, max_moves=moves_left, max_moved_load=load_left)
    return trim(replace(problem, options=options), plan)


def _pending(look: Look) -> list[Command | wire.Decision] | None:
    """Drive the last target home; None when members hold it or it was made for others."""
    state, group, target = look.state, look.group, look.group.target
    if target is None or target.mode != "enforce" or not targets.fits(target, look.membership):
        return None
    drift = targets.drift_of(target, look.membership)
    if drift == 0:
        return None
    waited_ms = state.now_ms - group.nudged_ms
    detail = f"{drift} partitions differ from revision {target.revision}"
    if group.attempts >= limits.NUDGE_ATTEMPTS_MAX:
        if waited_ms >= look.settings.cooldown_s * 1000:
            group.attempts = 0
            return None
        return [look.decision("refuse", "not-followed", detail=detail, plan_id=target.plan_id)]
    group.review_ms = min(group.review_ms, group.nudged_ms + limits.NUDGE_WAIT_MS)
    decision = look.decision("hold", "target-pending", detail=detail, plan_id=target.plan_id)
    if waited_ms < limits.NUDGE_WAIT_MS:
        return [decision]
    return [decision, _nudge(look, target)]


def _nudge(look: Look, target: wire.Target) -> Nudge:
    group = look.group
    group.attempts += 1
    group.nudged_ms = look.state.now_ms
    return Nudge(look.name, ASSIGNOR, target.epoch, target.revision, group.attempts)


def _outcome(look: Look, present: Certificate) -> Iterator[wire.Decision]:
    """Write once what a plan has come to, one window of loads after members took it."""
    target, group = look.group.target, look.group
    if target is None or group.measured_plan == target.plan_id:
        return
    due_ms = target.ms + limits.OUTCOME_AFTER_MS
    if look.state.now_ms < due_ms:
        group.review_ms = min(group.review_ms, due_ms)
        return
    group.measured_plan = target.plan_id
    if targets.fits(target, look.membership):
        yield look.decision(
            "hold", "outcome", certificate=asdict(present), outcome_of=target.plan_id
        )


def _plan(
    look: Look, problem: GroupProblem, present: Certificate
) -> Iterator[Command | wire.Decision]:
    """Compute the best plan within the budget and decide what becomes of it."""
    kept = look.group.proposal
    if kept is not None and look.settings.mode in {"shadow", "advise"}:
        standing = _standing(look, problem, present, kept)
        if standing is not None:
            yield from standing
            return
    look.group.proposal = None
    best = solve(problem)
    causes = causes_of(problem, look.settings, present, best)
    plan = _within_budget(look, problem, best) if causes and "forced" not in causes else best
    level = not causes
    alternatives = [{"plan": "stay", "certificate": asdict(present)}]
    if plan is not best:
        causes = causes_of(problem, look.settings, present, plan)
        alternatives.append({"plan": "over-budget", "certificate": asdict(best.certificate)})
    said: dict[str, Any] = {
        "certificate": asdict(plan.certificate),
        "moves": _moves(problem, plan),
        "alternatives": alternatives,
    }
    if level:
        detail = _figures(present, plan)
        if plan.limited_by is not None:
            detail += f"; {plan.limited_by.message}"
        yield look.decision("hold", "level", detail=detail, certificate=asdict(present))
        return
    refused = _refusal(look, problem, plan, causes) if causes else _over_budget(look, problem, best)
    if refused is not None:
        yield look.decision("hold", refused[0], detail=refused[1], **said)
        return
    spent = wire.Spent(
        ms=look.state.now_ms,
        moves=plan.certificate.moves,
        load_share=plan.certificate.moved_load / max(float(problem.load.sum()), 1e-300),
    )
    target = targets.target_of(
        look.state, problem, plan.owner, look.settings, look.group.target, spent
    )
    said |= {"plan_id": target.plan_id, "detail": f"{', '.join(causes)}: {_figures(present, plan)}"}
    yield from _settle(look, target, said)


def _over_budget(look: Look, problem: GroupProblem, best: GroupPlan) -> tuple[str, str]:
    """Say what would help and why this hour's budget does not allow it."""
    moves, share = targets.spent_of(look.group.target, look.state.now_ms)
    needed = best.certificate.moved_load / float(problem.load.sum())
    return "budget-spent", (
        f"a better plan needs {best.certificate.moves} moves of {needed:.1%} of the load; the last"
        f" hour had {moves} of {look.settings.moves_per_hour_max} moves and {share:.1%} of"
        f" {look.settings.moved_load_share_per_hour_max:.1%}"
    )


def _refusal(
    look: Look, problem: GroupProblem, plan: GroupPlan, causes: list[Cause]
) -> tuple[str, str] | None:
    """Give reason and words why the plan must wait, or None. Forced moves never wait."""
    settings = look.settings
    if "forced" in causes:
        return None
    wait_s = look.cooldown_left_s()
    if wait_s > 0:
        return "cooldown", f"{wait_s:.0f} s to go"
    if causes == ["load"]:
        return refusal(relief_of(problem, plan.owner), plan.certificate.moved_load, settings)
    return None


def _standing(
    look: Look, problem: GroupProblem, present: Certificate, kept: wire.Target
) -> list[Command | wire.Decision] | None:
    """Keep a proposal while it is legal, so that a person can approve what is executed.

    In both modes the proposal is scored on today's loads beside what members really hold.
    """
    wanted = replace(look.settings, approve="")
    if look.group.proposed_for != wanted or not targets.fits(kept, look.membership):
        return None
    index = {m: i for i, m in enumerate(problem.member_ids)}
    holder = {
        (t, p): index[member]
        for member, topics in kept.assignment.items()
        for t, partitions in topics.items()
        for p in partitions
    }
    owner = problem.owner.copy()
    for row in range(len(owner)):
        topic, partition = problem.partition_name(row)
        owner[row] = holder[str(topic), int(partition)]
    scored = certify(problem, owner)
    if look.state.now_ms - kept.ms > kept.ttl_ms and scored.ratio >= present.ratio:
        return None
    mode = look.settings.mode
    said = {
        "plan_id": kept.plan_id,
        "certificate": asdict(scored),
        "alternatives": [{"plan": "stay", "certificate": asdict(present)}],
    }
    if mode == "advise" and look.settings.approve == kept.plan_id:
        last = look.group.target
        approved = msgspec.structs.replace(
            kept,
            ms=look.state.now_ms,
            epoch=targets.next_epoch(look.state, last),
            revision=targets.next_revision(last),
            mode="enforce",
        )
        look.group.proposal = None
        return list(_publish(look, approved, "approved", said))
    detail = f"max/LB would be {scored.ratio:.3f}, is {present.ratio:.3f}"
    return [look.decision("hold", mode, detail=detail, **said)]


def _settle(
    look: Look, target: wire.Target, said: dict[str, Any]
) -> Iterator[Command | wire.Decision]:
    """Publish in `enforce`; keep the plan apart in `shadow` and `advise`; else just tell."""
    mode = look.settings.mode
    if mode != "enforce":
        if mode in {"shadow", "advise"}:
            look.group.proposal = target
            look.group.proposed_for = replace(look.settings, approve="")
        yield look.decision("hold", mode, **said)
        return
    yield from _publish(look, target, "levelled", said)


def _publish(
    look: Look, target: wire.Target, reason: str, said: dict[str, Any]
) -> Iterator[Command | wire.Decision]:
    commands = list(look.publish(target, reason, said))
    yield from commands
    if isinstance(commands[0], Write):
        look.group.attempts = 0
        yield _nudge(look, target)


def _say(look: Look, decision: wire.Decision) -> list[Command]:
    """Write a verdict when it is news, or when the last one has grown old."""
    if decision.reason != "outcome":
        look.group.verdict = decision
    said = look.group.said
    if (
        said is not None
        and decision.verdict != "publish"
        and decision.reason != "outcome"
        and (said.verdict, said.reason, said.plan_id)
        == (decision.verdict, decision.reason, decision.plan_id)
        and look.state.now_ms - said.ms < limits.DECISION_REPEAT_MS
    ):
        return []
    if decision.reason != "outcome":
        look.group.said = decision
    return [Write(wire.DECISIONS, look.name, decision)]


def _moves(problem: GroupProblem, plan: GroupPlan) -> list[dict[str, Any]]:
    return [
        {
            "partition": problem.partition_name(move.partition),
            "from": problem.member_ids[move.source],
            "to": problem.member_ids[move.target],
            "why": move.why,
        }
        for move in plan.moves[: limits.DECISION_MOVES_MAX]
    ]


def _figures(present: Certificate, plan: GroupPlan) -> str:
    planned = plan.certificate
    bound = planned.lower_bound or 1.0
    return (
        f"max/LB is {present.max_utilisation / bound:.3f}, "
        f"would be {planned.ratio:.3f} with {planned.moves} moves"
    )
