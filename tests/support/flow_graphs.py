"""Random control-flow graphs, and dominance by its definition."""

from __future__ import annotations

import networkx as nx
from hypothesis import strategies as st

from lab.isa.cfg import ROOT, Block, ControlFlow


@st.composite
def graphs(draw: st.DrawFn) -> ControlFlow:
    """Any graph whose blocks can all be reached from the root."""
    count = draw(st.integers(1, 9))
    nodes = st.integers(0, count - 1)
    graph = nx.DiGraph()
    graph.add_nodes_from([ROOT, *range(count)])
    graph.add_edge(ROOT, 0)
    for node in range(1, count):
        graph.add_edge(draw(st.integers(-1, node - 1)), node)
    graph.add_edges_from(draw(st.lists(st.tuples(nodes, nodes), max_size=18)))
    return ControlFlow(tuple(Block(index, index, index + 1) for index in range(count)), graph)


def reachable_without(graph: nx.DiGraph, removed: int) -> set[int]:
    if removed == ROOT:
        return set()
    return set(nx.descendants(graph.subgraph(set(graph) - {removed}), ROOT)) | {ROOT}


def dominates(graph: nx.DiGraph, a: int, b: int) -> bool:
    """By definition: without a, the root does not reach b."""
    return a == b or b not in reachable_without(graph, a)
