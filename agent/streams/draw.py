"""The flow network of a small problem as a picture, for people who ask why a task moved.

The graph is networkx's; so is the referee that tests hold against OR-tools. This is the one module
of `agent.streams` that writes a file.
"""

from pathlib import Path

import networkx as nx

from agent import limits
from agent.errors import TheirFault
from agent.streams import actives, door, network
from agent.streams.high_availability import NON_OVERLAP_COST, TRAFFIC_COST
from agent.streams.problem import Problem


def graph_of(flow: network.Actives) -> "nx.DiGraph[int]":
    """Give the network as a graph with `capacity`, `weight`, `demand` and, solved, `flow`."""
    arcs, _ = network.build(flow)
    graph: nx.DiGraph[int] = nx.DiGraph()
    for node, supply in enumerate(arcs.supply.tolist()):
        graph.add_node(node, demand=-supply)
    columns = (arcs.tail, arcs.head, arcs.capacity, arcs.cost, network.solve(arcs))
    for tail, head, capacity, cost, used in zip(*(c.tolist() for c in columns), strict=True):
        graph.add_edge(tail, head, capacity=capacity, weight=cost, flow=used)
    return graph


def draw(document: object, path: Path) -> None:
    """Draw the network of the stateful actives of a document; format by the file's suffix.

    Layers from left to right: classes of like tasks, racks, clients of a subtopology, clients.
    Thick edges carry flow; their numbers are tasks and, if any, the cost of each.
    """
    problem = door.read(document)
    if problem.tasks * problem.clients > limits.STREAMS_DRAWN_CELLS_MAX:
        raise TheirFault("tasks", "too many tasks times clients for a picture")
    owner = problem.previous_active if problem.initial_active is None else problem.initial_active
    if not problem.stateful_tasks or (owner[list(problem.stateful_tasks)] < 0).any():
        raise TheirFault("tasks", "the picture needs an owner for each stateful task")
    costs = problem.config.costs(TRAFFIC_COST, NON_OVERLAP_COST)
    _paint(problem, actives.stateful(problem, owner, costs), path)


def _paint(problem: Problem, flow: network.Actives, path: Path) -> None:
    import matplotlib as mpl  # noqa: PLC0415 -- an extra, and slow to import

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 -- as above

    graph = graph_of(flow)
    labels, layer = _names(problem, flow)
    nx.set_node_attributes(graph, layer, "layer")
    where = nx.multipartite_layout(graph, subset_key="layer")
    unit = len(flow.tasks) + 1
    height = max(4.0, 0.4 * max(list(layer.values()).count(n) for n in range(4)))
    figure, axes = plt.subplots(figsize=(12, height), layout="constrained")
    used = [(a, b) for a, b, data in graph.edges(data=True) if data["flow"]]
    nx.draw_networkx_edges(graph, where, ax=axes, alpha=0.1, arrows=False)
    nx.draw_networkx_edges(graph, where, edgelist=used, ax=axes, width=1.5, arrows=False)
    nx.draw_networkx_labels(
        graph, where, labels, ax=axes, font_size=7, bbox={"facecolor": "white", "pad": 2}
    )
    texts = {}
    for tail, head in used:
        data = graph.edges[tail, head]
        cost = data["weight"] // unit
        texts[tail, head] = f"{data['flow']}" + (f" à {cost}" if cost else "")
    nx.draw_networkx_edge_labels(graph, where, texts, ax=axes, font_size=6)
    axes.set_axis_off()
    axes.set_title(f"{problem.id}: {problem.config.strategy}")
    figure.savefig(path)
    plt.close(figure)


def _names(problem: Problem, flow: network.Actives) -> tuple[dict[int, str], dict[int, int]]:
    """Give the label and the layer of each node."""
    _, layout = network.build(flow)
    labels: dict[int, str] = {}
    layer: dict[int, int] = {}

    def add(text: str, column: int) -> None:
        layer[len(labels)] = column
        labels[len(labels)] = text

    for members in layout.classes.members:
        names = [problem.task_ids[flow.tasks[i]] for i in members]
        more = len(names) - limits.STREAMS_DRAWN_NAMES_MAX
        shown = ", ".join(names[: limits.STREAMS_DRAWN_NAMES_MAX])
        add(shown + (f" and {more} more" if more > 0 else ""), 0)
    racks = [*problem.racks, "no rack"]
    for _, rack in layout.hubs:
        add(racks[rack], 1)
    for _, client in layout.doors:
        add(problem.client_ids[client][:8], 2)
    for client in dict.fromkeys(client for _, client in layout.doors):
        add(problem.client_ids[client][:8], 3)
    return labels, layer
