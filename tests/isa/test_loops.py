from __future__ import annotations

import time

import networkx as nx
import pytest
from flow_graphs import dominates, graphs
from hypothesis import given, settings

from lab.isa.cfg import ROOT, ControlFlow, control_flow
from lab.isa.loops import hot_loop, natural_loops, own_instructions
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
    return [(loop.label, loop.depth, loop.parent) for loop in kernel_mix("ptx", function(body)).loops]


def hot(body: str) -> str | None:
    loop = kernel_mix("ptx", function(body)).hot_loop
    return loop.label if loop else None


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
    loops = natural_loops(flow)
    whole = [set(loop.blocks) for loop in loops]
    for position, loop in reversed(list(enumerate(loops))):
        if loop.parent is not None:
            assert whole[loop.parent].isdisjoint(whole[position])
            whole[loop.parent] |= whole[position]
    assert {one.header: whole[position] for position, one in enumerate(loops)} == bodies
    for position, loop in enumerate(loops):
        around = [other for other in loops if other.header != loop.header and loop.header in bodies[other.header]]
        assert loop.depth == len(around) + 1
        if loop.parent is not None:
            assert loop.parent < position
            assert loops[loop.parent] == min(around, key=lambda other: len(bodies[other.header]))


def test_nested_loops_come_outermost_first() -> None:
    body = loop("A", ADD + loop("B", ADD) + loop("C", ADD + loop("D", ADD))) + loop("E", ADD)
    assert loops(body) == [("A", 1, None), ("B", 2, "A"), ("C", 2, "A"), ("D", 3, "C"), ("E", 1, None)]


def test_two_back_edges_make_one_loop() -> None:
    assert loops(f"A: {ADD} @p bra A; {ADD} @p bra A;") == [("A", 1, None)]


def test_body_that_stands_in_two_places() -> None:
    body = f"A: {ADD} @p bra B; ret; B: {ADD} bra A;"
    (loop,) = kernel_mix("ptx", function(body)).loops
    assert loop.counts.instructions == 4
    flow = control_flow(function(body))
    assert len(own_instructions(function(body), flow, natural_loops(flow)[0])) == 4


def test_irreducible_region_is_no_loop_and_no_crash() -> None:
    assert loops(f"@p bra B; A: {ADD} B: {ADD} @p bra A;") == []
    assert hot(f"@p bra B; A: {ADD} B: {ADD} @p bra A;") is None


def test_no_loops() -> None:
    assert hot(FMA) is None
    body = function(FMA)
    assert hot_loop(body, control_flow(body), ()) is None


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


def test_loops_nested_thousands_deep_take_linear_time():
    """Each counts the loops inside it; the innermost one is hot, although 8^2000 is not a float."""
    count = 2000
    heads = "".join(f"L{level}: {ADD}\n" for level in range(count))
    tails = "".join(f"@p bra L{level};\n" for level in reversed(range(count)))
    nested = function(heads + tails)
    begun = time.process_time()
    mix = kernel_mix("ptx", nested)
    assert time.process_time() - begun < 2
    assert [loop.depth for loop in mix.loops] == list(range(1, count + 1))
    assert [loop.counts.instructions for loop in mix.loops] == list(range(2 * count, 0, -2))
    assert mix.hot_loop is not None
    assert mix.hot_loop.label == f"L{count - 1}"
