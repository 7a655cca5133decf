from __future__ import annotations

import time

import networkx as nx
from flow_graphs import dominates, graphs
from hypothesis import given, settings

from lab.isa.cfg import ROOT, Block, ControlFlow
from lab.isa.dominators import immediate_dominators


@settings(max_examples=150)
@given(graphs())
def test_dominators_against_their_definition(flow: ControlFlow) -> None:
    found = immediate_dominators(flow)
    for block in flow.graph:
        expected = {other for other in flow.graph if dominates(flow.graph, other, block)}
        chain = {block}
        while ROOT not in chain:
            chain |= {found[one] for one in chain}
        assert chain == expected


def test_nested_loops_take_linear_time() -> None:
    """A loop inside the next one, 20,000 deep: 25 s where each head is sought from its latch step by step."""
    count = 20_000
    graph = nx.DiGraph([(ROOT, 0)])
    nx.add_path(graph, range(2 * count))
    graph.add_edges_from((count + level, count - 1 - level) for level in range(count))
    flow = ControlFlow(tuple(Block(index, index, index + 1) for index in range(2 * count)), graph)
    begun = time.process_time()
    found = immediate_dominators(flow)
    assert time.process_time() - begun < 2
    assert found == {ROOT: ROOT} | {block: block - 1 for block in range(2 * count)}
