"""The sparse networks against referees that know nothing of hubs."""

import itertools

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.streams import cycles, draw, network, standbys


@st.composite
def actives(make: st.DrawFn) -> network.Actives:
    """Make a small problem of active tasks."""
    racks = make(st.integers(1, 3))
    clients = make(st.integers(2, 4))
    tasks = make(st.integers(1, 7))
    groups = sorted(make(st.lists(st.integers(0, 2), min_size=tasks, max_size=tasks)))
    _, group = np.unique(groups, return_inverse=True)
    row = st.lists(st.integers(0, 2), min_size=racks, max_size=racks)
    owner = make(st.lists(st.integers(0, clients - 1), min_size=tasks, max_size=tasks))
    rack = make(st.lists(st.integers(0, racks - 1), min_size=clients, max_size=clients))
    balance = make(st.booleans())
    return network.Actives(
        tasks=range(tasks),
        owner=np.array(owner, dtype=np.int64),
        group=group if balance else np.zeros(tasks, dtype=np.int64),
        away=np.array(make(st.lists(row, min_size=tasks, max_size=tasks)), dtype=np.int64),
        client_rack=np.array(rack, dtype=np.int64),
        traffic_cost=make(st.integers(0, 12)),
        non_overlap_cost=make(st.integers(0, 12)),
        balance=balance,
    )


def cheapest(problem: network.Actives) -> int:
    """Try every assignment that keeps counts and stays within doors."""
    clients, tasks = len(problem.client_rack), len(problem.tasks)
    doors = problem.door_capacity()
    best = 2**62
    for choice in itertools.product(range(clients), repeat=tasks):
        owner = np.array(choice, dtype=np.int64)
        used = np.zeros_like(doors)
        np.add.at(used, (problem.group, owner), 1)
        counts = np.bincount(owner, minlength=clients)
        if (counts == problem.counts).all() and (used <= doors).all():
            best = min(best, network.cost_of(problem, owner))
    return best


@settings(max_examples=60, deadline=None)
@given(actives())
def test_hubs_lose_nothing(problem: network.Actives) -> None:
    """The network with hubs and classes costs what the best of all assignments costs."""
    if len(problem.client_rack) ** len(problem.tasks) <= 5_000:
        assert network.cost_of(problem, network.place(problem)) == cheapest(problem)


@settings(max_examples=60, deadline=None)
@given(actives())
def test_kafka_s_choice_is_an_optimum(problem: network.Actives) -> None:
    """Cycle cancelling ends in counts that were frozen and in the optimum of the network."""
    chosen, exact = cycles.place(problem), network.place(problem)
    assert (np.bincount(chosen, minlength=len(problem.client_rack)) == problem.counts).all()
    assert network.cost_of(problem, chosen) == network.cost_of(problem, exact)


@settings(max_examples=60, deadline=None)
@given(actives())
def test_networkx_agrees_with_the_solver(problem: network.Actives) -> None:
    """The graph that is drawn has the same optimum in networkx."""
    graph = draw.graph_of(problem)
    cost = sum(data["flow"] * data["weight"] for _, _, data in graph.edges(data=True))
    assert cost == nx.min_cost_flow_cost(graph)


@settings(max_examples=60, deadline=None)
@given(actives(), st.integers(0, 2), st.booleans())
def test_standby_hubs_cost_what_the_dense_network_costs(
    problem: network.Actives, copies: int, racks_first: bool
) -> None:
    """Copies keep their numbers per task and client, avoid the active, and cost the optimum."""
    clients = len(problem.client_rack)
    copies = min(copies, clients - 1)
    active = problem.owner.tolist()
    holders = [tuple(sorted((a + 1 + k) % clients for k in range(copies))) for a in active]
    instance = standbys.Standbys(
        tasks=problem.tasks,
        holders=holders,
        active=active,
        away=np.hstack([problem.away, problem.away[:, :1]]),
        client_rack=problem.client_rack,
        traffic_cost=problem.traffic_cost,
        non_overlap_cost=problem.non_overlap_cost,
        racks_first=racks_first,
    )
    placed = standbys.place(instance)
    assert [len(c) for c in placed] == [len(c) for c in holders]
    assert all(a not in c and len(set(c)) == len(c) for a, c in zip(active, placed, strict=True))
    flat = [client for held in placed for client in held]
    assert (np.bincount(flat, minlength=clients) == instance.counts()).all()
    if copies and not racks_first:
        dense = standbys._Network(instance).dense()
        assert standbys.cost_of(instance, placed) == standbys.cost_of(instance, dense)
