"""The same flow network as a networkx graph: to explain, to draw, and as the referee in tests.

networkx solves it by network simplex, code that shares nothing with OR-tools; it is some hundred
times slower, so the solver never calls this.
"""

import networkx as nx

from agent.assign.flow import Network

Node = tuple[str, int]


def as_graph(network: Network) -> "nx.DiGraph[Node]":
    """Give the network with networkx's attributes: `demand` on nodes, `capacity`, `weight`.

    Nodes are named ("kind", i), ("hub", i), ("pool", i) and ("sink", 0). All numbers are integers,
    as networkx requires for flows that must end.
    """
    graph: nx.DiGraph[Node] = nx.DiGraph()
    names: list[Node] = [("kind", i) for i in range(network.kinds)]
    names += [("hub", i) for i in range(len(network.hub_class))]
    names += [("pool", i) for i in range(network.pools)]
    names.append(("sink", 0))
    supply = network.supply.tolist()
    for i, name in enumerate(names):
        graph.add_node(name, demand=-supply[i] if i < network.kinds else 0)
    graph.nodes["sink", 0]["demand"] = sum(supply)
    for arc, (tail, head, capacity, cost) in enumerate(
        zip(
            network.tail.tolist(),
            network.head.tolist(),
            network.capacity.tolist(),
            network.cost.tolist(),
            strict=True,
        )
    ):
        if not graph.has_edge(names[tail], names[head]):
            graph.add_edge(names[tail], names[head], capacity=capacity, weight=cost)
        else:
            # Parallel tiers into the sink: a node in between keeps the graph simple.
            graph.add_edge(names[tail], ("tier", arc), capacity=capacity, weight=cost)
            graph.add_edge(("tier", arc), names[head], capacity=capacity, weight=0)
    return graph


def least_cost(network: Network) -> int:
    """Give the optimum by network simplex; raises networkx.NetworkXUnfeasible."""
    return int(nx.min_cost_flow_cost(as_graph(network)))
