"""What the demo measured: `report.json`, the terminal's table, and whether it may be believed.

Everything is worked out from the consumers' journals, the load generator's truth and the records
on the control topics. Only `computed_for_comparison` is arithmetic, on the measured loads, and the
report says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from deploy.local.consumers import stock_assignments
from deploy.local.demo.run import Notes
from deploy.local.demo.stage import Stage
from deploy.local.history import (
    History,
    Move,
    Partition,
    applied_ms,
    coverage,
    double_owned,
    moves,
    overlaps,
    owners_at,
)
from deploy.local.measures import (
    Truth,
    balance,
    delivered_bytes,
    lag_bytes,
    latency_quantile_ms,
    moved_pauses_ms,
    quantile,
    unmoved_pauses_ms,
)

OFFERED_OFF_MAX: Final = 0.03
"""The generator must have offered what was asked within this share, or the machine was too slow."""

DELIVERED_OFF_MAX: Final = 0.02
"""Delivered and predicted share agree this well on a machine that is not disturbed."""

COMPARISON_NOTE: Final = (
    "computed, not run: sum of min(load, cap) / total, from the loads measured in the before "
    "window and the assignments of Kafka's own assignors"
)


@dataclass(frozen=True, slots=True)
class Window:
    """The measures of one phase."""

    seconds: float
    offered_mb_s: float
    delivered_share: float
    predicted_delivered_share: float
    max_over_mean: float
    spread_mb_s: float
    p95_s: float
    lag_mb: float
    lag_growth_mb_s: float

    def as_json(self) -> dict[str, float]:
        """Give the fields with four digits."""
        return {name: round(getattr(self, name), 4) for name in self.__slots__}


class Measurement:
    """History and truth of one run, cut into the phases that `Notes` tell of."""

    def __init__(self, stage: Stage, notes: Notes) -> None:
        self.stage = stage
        self.notes = notes
        self.history: History = stage.watch.history()
        self.truth: Truth = stage.watch.truth()
        self.moves: list[Move] = moves(self.history)

    def window(self, name: str) -> Window:
        """Measure one phase."""
        start, end = self.notes.phases[name]
        seconds = (end - start) / 1e3
        offered = self.truth.total_at(end) - self.truth.total_at(start)
        lag_start, lag_end = lag_bytes(self.history, self.truth, [start, end])
        loads = self.loads(name)
        judged = balance(
            loads, owners_at(self.history, end), self.clients(name), self.stage.cap_bytes_per_s
        )
        return Window(
            seconds=seconds,
            offered_mb_s=offered / seconds / 1e6,
            delivered_share=delivered_bytes(self.history, start, end) / offered,
            predicted_delivered_share=judged.predicted_delivered_share,
            max_over_mean=judged.max_over_mean,
            spread_mb_s=judged.spread_mb_s,
            p95_s=latency_quantile_ms(self.history, start, end, 0.95) / 1e3,
            lag_mb=lag_end / 1e6,
            lag_growth_mb_s=(lag_end - lag_start) / seconds / 1e6,
        )

    def loads(self, name: str) -> dict[Partition, float]:
        """Return what was offered to each partition in a phase, bytes per second."""
        start, end = self.notes.phases[name]
        produced = self.truth.between(start, end)
        return {partition: count / (end - start) * 1e3 for partition, count in produced.items()}

    def clients(self, name: str) -> list[str]:
        """Return the members of a phase."""
        clients = set(self.stage.consumers)
        if name in {"killed", "joined"}:
            clients.discard(self.notes.killed)
        if name != "joined":
            clients.discard(self.notes.joined)
        return sorted(clients)

    def applied_ms(self) -> int | None:
        """Return when the last member held what the first target gives it."""
        return applied_ms(self.history, self.notes.target["assignment"], self.notes.target_ms)

    def levelling(self) -> list[Move]:
        """Return the moves that the first target caused."""
        applied = self.applied_ms() or self.notes.drained_ms
        return [m for m in self.moves if self.notes.enforced_ms <= m.arrived_ms <= applied]

    def pauses(self) -> dict[str, Any]:
        """Return how long partitions stood still while the first target was applied."""
        moved = self.levelling()
        start = min((move.left_ms for move in moved), default=self.notes.target_ms)
        end = max((move.arrived_ms for move in moved), default=start) + 1_000
        moved_ms = moved_pauses_ms(self.history, moved)
        unmoved_ms = unmoved_pauses_ms(self.history, moved, start, end)
        quiet_ms = unmoved_pauses_ms(self.history, moved, 2 * start - end, start)
        return {
            "moved_p50": quantile(moved_ms, 0.5),
            "moved_p95": quantile(moved_ms, 0.95),
            "unmoved_p95": quantile(unmoved_ms, 0.95),
            "unmoved_p95_just_before": quantile(quiet_ms, 0.95),
        }

    def comparison(self) -> dict[str, Any]:
        """Compute what Kafka's other assignors would have given, on the measured loads."""
        traffic = self.stage.traffic
        clients = self.clients("before")
        loads = self.loads("before")
        answers = stock_assignments(clients, self.stage.topics, traffic.partitions)
        result: dict[str, Any] = {"how": COMPARISON_NOTE}
        for strategy in ("roundrobin", "cooperative-sticky"):
            judged = balance(loads, _owners(answers[strategy]), clients, self.stage.cap_bytes_per_s)
            result[strategy] = {
                "delivered_share": round(judged.predicted_delivered_share, 4),
                "max_over_mean": round(judged.max_over_mean, 4),
            }
        return result


def _owners(assignment: Mapping[str, Mapping[str, list[int]]]) -> dict[Partition, str]:
    """Turn member to topic to partitions into partition to member."""
    return {
        Partition(topic, number): client
        for client, topics in assignment.items()
        for topic, numbers in topics.items()
        for number in numbers
    }


def make_report(measured: Measurement) -> dict[str, Any]:
    """Return the content of report.json."""
    notes, history = measured.notes, measured.history
    windows = {name: measured.window(name) for name in notes.phases}
    covered = coverage(history)
    applied = measured.applied_ms()
    run_s = (notes.finished_ms - notes.started_ms) / 1e3
    return {
        "offered_mb_s": round(windows["before"].offered_mb_s, 4),
        "before": windows["before"].as_json(),
        "after": windows["after"].as_json(),
        "decision_ms": notes.decision_ms,
        "moves": len(measured.levelling()),
        "pause_ms": measured.pauses(),
        "target_to_applied_s": None if applied is None else (applied - notes.target_ms) / 1e3,
        "double_owned": len(double_owned(history)) + len(overlaps(history)),
        "lost_records": covered.lost_records + _unread(measured, covered.processed),
        "redelivered_records": covered.redelivered,
        "computed_for_comparison": measured.comparison(),
        "run_s": round(run_s, 1),
        "seed": measured.stage.traffic.seed,
        "backlog_worked_off_s": (notes.drained_ms - (applied or notes.target_ms)) / 1e3,
        "killed": {"client": notes.killed, **windows["killed"].as_json()},
        "joined": {"client": notes.joined, **windows["joined"].as_json()},
        "takeover_s": takeover_s(measured),
        **judge(windows, measured.stage.traffic.rate_mb_s),
    }


def _unread(measured: Measurement, processed: int) -> int:
    """Return how many records were produced and never read, at the end of the run."""
    covered = coverage(measured.history)
    behind = measured.truth.produced_records - (processed - covered.redelivered)
    return max(0, behind - covered.lost_records)


def takeover_s(measured: Measurement) -> float:
    """Return how long the killed consumer's partitions had no owner, the longest of them."""
    notes = measured.notes
    taken = [
        m for m in measured.moves if m.source == notes.killed and m.arrived_ms > notes.killed_ms
    ]
    return (max(m.arrived_ms for m in taken) - notes.killed_ms) / 1e3


def judge(windows: Mapping[str, Window], asked_mb_s: float) -> dict[str, Any]:
    """Say whether the machine's noise spoiled the run, and how it shows.

    What the loads and caps explain is a result. A level group that they say keeps up, and that does
    not deliver what was offered, was kept from it by the machine; so was a generator that offered
    another rate than it was asked for.
    """
    reasons = []
    for name in ("before", "after"):
        window = windows[name]
        if abs(window.delivered_share - window.predicted_delivered_share) > DELIVERED_OFF_MAX:
            reasons.append(
                f"{name}: delivered share {window.delivered_share:.3f}, but these loads and caps "
                f"give {window.predicted_delivered_share:.3f}"
            )
        if abs(window.offered_mb_s / asked_mb_s - 1) > OFFERED_OFF_MAX:
            reasons.append(
                f"{name}: offered {window.offered_mb_s:.2f} MB/s instead of {asked_mb_s:.2f}"
            )
    return {"spoiled": bool(reasons), "spoiled_reason": "; ".join(reasons) or None}


def table(report: Mapping[str, Any]) -> str:
    """Return the terminal's summary."""
    before, after = report["before"], report["after"]
    rows = (
        ("delivered / offered", "delivered_share", ".1%"),
        ("load, max / mean", "max_over_mean", ".2f"),
        ("load, max - min, MB/s", "spread_mb_s", ".2f"),
        ("latency p95 *, s", "p95_s", ".2f"),
        ("lag at the end, MB", "lag_mb", ".1f"),
        ("lag growth, MB/s", "lag_growth_mb_s", "+.2f"),
    )
    lines = [
        f"{'':<24}{'before (range)':>16}{'after (Plimsoll)':>18}",
        *(
            f"{name:<24}{format(before[key], form):>16}{format(after[key], form):>18}"
            for name, key, form in rows
        ),
        f"* of delivered records; windows of {before['seconds']:.0f} and {after['seconds']:.0f} s",
        "",
        "computed for comparison, from the measured loads:",
    ]
    for name in ("roundrobin", "cooperative-sticky"):
        other = report["computed_for_comparison"][name]
        share, ratio = other["delivered_share"], other["max_over_mean"]
        lines.append(f"  {name:<22}{share:>16.1%} delivered, max / mean {ratio:.2f}")
    return "\n".join([*lines, "", *_sentences(report)])


def _sentences(report: Mapping[str, Any]) -> list[str]:
    """Say what happened besides the two windows."""
    pause, killed, joined = report["pause_ms"], report["killed"], report["joined"]
    decided = f"decision {_ms(report['decision_ms'])}, {report['moves']} moves"
    applied = f"applied by all members {report['target_to_applied_s']} s after publication"
    moved = f"pause of moved partitions p95 {_ms(pause['moved_p95'])}"
    unmoved = f"of unmoved ones {_ms(pause['unmoved_p95'])}"
    quiet = f"(just before: {_ms(pause['unmoved_p95_just_before'])})"
    fell = f"{killed['client']} killed: taken over after {report['takeover_s']:.1f} s"
    eleven = f"max / mean {killed['max_over_mean']:.2f}"
    came = f"{joined['client']} added: max / mean {joined['max_over_mean']:.2f}"
    faults = f"double-owned {report['double_owned']}, lost {report['lost_records']}"
    said = [
        f"{decided}, {applied}",
        f"{moved}, {unmoved} {quiet}",
        f"{fell}, {eleven}; {came}",
        f"{faults}, redelivered {report['redelivered_records']}",
    ]
    if report["spoiled"]:
        said += ["", f"SPOILED by the machine: {report['spoiled_reason']}"]
    return said


def _ms(value: float | None) -> str:
    return "not known" if value is None else f"{value:.0f} ms"
