from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.isa.cfg import ROOT, Block, ControlFlow, control_flow
from lab.isa.loops import hot_loop, immediate_dominators, natural_loops, own_instructions
from lab.isa.mix import kernel_mix
from lab.isa.ptx.module import read_ptx

HEAD = ".version 8.0\n.target sm_80\n.entry k() { .reg .pred p; .reg .b32 r; .reg .f32 f; "
FMA = "fma.rn.f32 f, f, f, f; "
LOAD = "ld.global.f32 f, [r]; "
ADD = "add.s32 r, r, 1; "
ATOMIC = "red.global.add.u32 [r], 1; "
EX2 = "ex2.approx.f32 f, f; "


def function(body: str):
    return read_ptx(f"{HEAD}{body} ret; }}").functions[0]


def loop(label: str, body: str) -> str:
    return f"{label}: {body} @p bra {label}; "


def loops(body: str) -> list[tuple[str, int, str | None]]:
    return [(found.label, found.depth, found.parent) for found in kernel_mix("ptx", function(body)).loops]


def hot(body: str) -> str | None:
    found = kernel_mix("ptx", function(body)).hot_loop
    return found.label if found else None


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


@settings(max_examples=150)
@given(graphs())
def test_loops_against_their_definition(flow: ControlFlow) -> None:
    graph = flow.graph
    bodies: dict[int, set[int]] = {}
    for tail, head in graph.edges:
        if head != ROOT and dominates(graph, head, tail):
            inside = graph.subgraph(set(graph) - {head})
            reaching = {tail} | set(nx.ancestors(inside, tail)) if tail != head else set()
            bodies.setdefault(head, {head}).update(reaching)
    found = natural_loops(flow)
    whole = [set(one.blocks) for one in found]
    for position, one in reversed(list(enumerate(found))):
        if one.parent is not None:
            assert whole[one.parent].isdisjoint(whole[position])
            whole[one.parent] |= whole[position]
    assert {one.header: whole[position] for position, one in enumerate(found)} == bodies
    for position, one in enumerate(found):
        around = [other for other in found if other.header != one.header and one.header in bodies[other.header]]
        assert one.depth == len(around) + 1
        if one.parent is not None:
            assert one.parent < position
            assert found[one.parent] == min(around, key=lambda other: len(bodies[other.header]))


def test_nested_loops_come_outermost_first() -> None:
    body = loop("A", ADD + loop("B", ADD) + loop("C", ADD + loop("D", ADD))) + loop("E", ADD)
    assert loops(body) == [("A", 1, None), ("B", 2, "A"), ("C", 2, "A"), ("D", 3, "C"), ("E", 1, None)]


def test_two_back_edges_make_one_loop() -> None:
    assert loops(f"A: {ADD} @p bra A; {ADD} @p bra A;") == [("A", 1, None)]


def test_body_that_stands_in_two_places() -> None:
    body = f"A: {ADD} @p bra B; ret; B: {ADD} bra A;"
    (found,) = kernel_mix("ptx", function(body)).loops
    assert found.counts.instructions == 4
    one = control_flow(function(body))
    assert len(own_instructions(function(body), one, natural_loops(one)[0])) == 4


def test_irreducible_region_is_no_loop_and_no_crash() -> None:
    assert loops(f"@p bra B; A: {ADD} B: {ADD} @p bra A;") == []
    assert hot(f"@p bra B; A: {ADD} B: {ADD} @p bra A;") is None


def test_no_loops() -> None:
    assert hot(FMA) is None
    one = function(FMA)
    assert hot_loop(one, control_flow(one), ()) is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(loop("A", FMA * 2) + loop("B", FMA * 3), "B", id="most fma"),
        pytest.param(loop("A", FMA * 8) + loop("B", FMA), "A", id="main loop before its remainder"),
        pytest.param(loop("A", FMA) + loop("B", FMA * 8), "B", id="main loop behind its remainder"),
        pytest.param(loop("A", FMA * 8 + loop("B", ADD * 20)), "A", id="a nested loop without fma steals nothing"),
        pytest.param(loop("A", FMA * 8 + loop("B", FMA)), "B", id="a nested loop with fma is the innermost"),
        pytest.param(loop("A", FMA + LOAD * 9) + loop("B", LOAD * 20), "B", id="one fma is not the work"),
        pytest.param(loop("A", LOAD) + loop("B", LOAD * 2), "B", id="memory where there is no fma"),
        pytest.param(loop("A", LOAD * 4 + loop("B", LOAD)), "B", id="innermost with memory"),
        pytest.param(loop("A", ADD * 9) + loop("B", LOAD), "B", id="memory before size"),
        pytest.param(loop("A", ADD) + loop("B", ADD * 2), "B", id="size where there is nothing else"),
        pytest.param(loop("A", LOAD + loop("B", ADD * 20)), "B", id="integer work inside a loop that loads"),
        pytest.param(loop("A", FMA) + loop("B", ATOMIC * 2 + LOAD), "B", id="atomics count like fma"),
        pytest.param(loop("A", FMA * 2) + loop("B", EX2 * 3), "B", id="special functions count like fma"),
        pytest.param(loop("A", FMA + ADD * 9) + loop("B", ADD + loop("C", FMA)), "C", id="tie: deeper"),
        pytest.param(loop("A", FMA) + loop("B", FMA + ADD), "B", id="tie: larger"),
        pytest.param(loop("A", FMA + ADD) + loop("B", FMA + ADD), "A", id="tie: first"),
    ],
)
def test_hot_loop_rule(body: str, expected: str) -> None:
    assert hot(body) == expected


def test_tensor_core_loop_is_hot() -> None:
    mma = "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {f, f}, {r}, {r}, {f, f}; "
    assert hot(loop("A", LOAD * 9) + loop("B", mma)) == "B"


def test_a_long_epilogue_is_not_hotter_than_the_wgmma_inside() -> None:
    wgmma = "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {f}, d, d, p, 1, 1, 0, 0; "
    assert hot(loop("A", EX2 * 200 + loop("B", wgmma))) == "B"
    assert hot(loop("A", EX2 * 200 + loop("B", wgmma.replace("n256", "n8")))) == "A"


def test_loops_nested_deeper_than_a_float_reaches():
    """8^400 is not a float; the innermost loop is hot all the same."""
    heads = "".join(f"L{level}: add.u32 %r1, %r1, 1;\n" for level in range(400))
    tails = "".join(f"@%p1 bra L{level};\n" for level in reversed(range(400)))
    text = f".version 8.0\n.target sm_80\n.entry k() {{ .reg .b32 %r1; .reg .pred %p1;\n{heads}{tails}ret; }}"
    (function,) = read_ptx(text).functions
    flow = control_flow(function)
    loops = natural_loops(flow)
    assert [loop.depth for loop in loops] == list(range(1, 401))
    assert hot_loop(function, flow, loops) == 399
