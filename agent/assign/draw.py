"""A picture of one plan as SVG: load before and after, and for small problems the flow.

Needs matplotlib (the extra `draw`). The same plan gives the same bytes.
"""

from pathlib import Path
from typing import Any

import numpy as np

from agent.assign.flow import Network, build_network
from agent.assign.graph import as_graph
from agent.assign.instance import build_instance
from agent.assign.model import GroupPlan, GroupProblem, Ints
from agent.assign.plan import band
from agent.errors import TheirFault

FLOW_UNITS_MAX = 60
"""Units up to which the flow network is drawn: beyond, the arcs hide each other."""

MEMBERS_DRAWN_MAX = 60
"""Members drawn one by one; of more, the most utilised."""


def draw_plan(problem: GroupProblem, plan: GroupPlan, path: Path) -> None:
    """Write the picture; raises TheirFault where matplotlib is missing or the file cannot be."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 -- an extra
        from matplotlib.figure import Figure  # noqa: PLC0415 -- an extra
    except ImportError as error:
        raise TheirFault("--draw", "needs matplotlib: install plimsoll-kafka[draw]") from error
    mpl.rcParams["svg.hashsalt"] = "plimsoll"
    small = 0 < int((plan.owner >= 0).sum()) <= FLOW_UNITS_MAX
    figure = Figure(figsize=(12, 10 if small else 5), layout="constrained")
    rows = figure.subfigures(2 if small else 1, 1, squeeze=False)[:, 0]
    before, after = rows[0].subplots(1, 2, sharey=True)
    shown = _shown_members(problem, plan)
    _bars(before, problem, plan, problem.owner, shown, "before")
    _bars(after, problem, plan, plan.owner, shown, "after")
    if small:
        _flow(rows[1].subplots(), problem)
    c = plan.certificate
    figure.suptitle(
        f"{problem.id}: max utilisation / lower bound {c.ratio:.3f}, {c.moves} moves "
        f"(at least {c.moves_lower_bound}), {c.conflicts} conflicts"
    )
    try:
        figure.savefig(path, format="svg", metadata={"Date": None})
    except OSError as error:
        raise TheirFault("--draw", f"cannot write {path}: {error.strerror}") from error


def _shown_members(problem: GroupProblem, plan: GroupPlan) -> Ints:
    held = plan.owner >= 0
    load = np.bincount(
        plan.owner[held], weights=problem.load[held], minlength=len(problem.member_ids)
    )
    heaviest = np.argsort(-load / problem.capacity, kind="stable")[:MEMBERS_DRAWN_MAX]
    return np.sort(heaviest)


def _bars(
    axes: Any, problem: GroupProblem, plan: GroupPlan, owner: Ints, shown: Ints, title: str
) -> None:
    """Stack each member's partitions; those that moved stand out."""
    moved = {move.partition for move in plan.moves}
    for position, member in enumerate(shown.tolist()):
        rows = np.flatnonzero(owner == member)
        rows = rows[np.argsort(-problem.load[rows], kind="stable")]
        height = problem.load[rows] / problem.capacity[member]
        colours = ["#d9822b" if row in moved else "#4a7fb5" for row in rows.tolist()]
        axes.bar(
            np.full(len(rows), position),
            height,
            bottom=np.cumsum(height) - height,
            color=colours,
            edgecolor="white",
            linewidth=0.4,
        )
    bound = plan.certificate.lower_bound
    axes.axhline(bound, color="black", linewidth=1, label="lower bound")
    level = bound * (1 + problem.options.imbalance)
    axes.axhline(level, color="black", linewidth=1, linestyle=":", label="band")
    axes.set_title(f"{title} (orange: moved)")
    axes.set_ylabel("load / capacity")
    axes.set_xticks(range(len(shown)), [problem.member_ids[m] for m in shown.tolist()], rotation=90)
    axes.legend(loc="lower right")


def _flow(axes: Any, problem: GroupProblem) -> None:
    """Draw the network in its layers: kinds of units, hubs, members."""
    instance = build_instance(problem)
    bound, cap = band(instance, problem.options.imbalance)
    share = np.floor(instance.capacity * bound).astype(np.int64)
    network = build_network(instance, cap, share, np.arange(instance.members))
    graph = as_graph(network)
    layers = {"kind": 0.0, "hub": 1.0, "pool": 2.0}
    sizes = {"kind": network.kinds, "hub": len(network.hub_class), "pool": network.pools}
    place = {
        node: (layers[node[0]], 1 - (node[1] + 0.5) / max(sizes[node[0]], 1))
        for node in graph.nodes
        if node[0] in layers
    }
    for tail, head in graph.edges:
        if tail in place and head in place:
            (x0, y0), (x1, y1) = place[tail], place[head]
            stay = tail[0] == "kind" and head[0] == "pool"
            axes.plot(
                [x0, x1], [y0, y1], color="#4a7fb5" if stay else "#d9822b", linewidth=0.6, alpha=0.6
            )
    for node, (x, y) in place.items():
        axes.text(
            x,
            y,
            _label(problem, network, node),
            fontsize=6,
            ha="center",
            va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )
    axes.set_xlim(-0.3, 2.3)
    axes.set_title("the flow: partitions, hubs (class, rack), members; blue stays, orange moves")
    axes.axis("off")


def _label(problem: GroupProblem, network: Network, node: tuple[str, int]) -> str:
    kind, number = node
    if kind == "pool":
        return problem.member_ids[number]
    if kind == "hub":
        rack = int(network.hub_rack[number])
        name = problem.racks[rack] if rack < len(problem.racks) else "any rack"
        return f"hub {int(network.hub_class[number])}, {name}"
    units = np.flatnonzero(network.kind_of == number)
    instance_rows = build_instance(problem).unit_of
    rows = np.flatnonzero(np.isin(instance_rows, units))
    first = problem.partition_name(int(rows[0]))
    more = f" +{len(rows) - 1}" if len(rows) > 1 else ""
    return f"{first[0]}-{first[1]}{more}"
