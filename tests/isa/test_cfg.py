from __future__ import annotations

from lab.isa.cfg import ROOT, control_flow
from lab.isa.ptx.module import read_ptx

HEAD = ".version 8.0\n.target sm_80\n.entry k() { .reg .pred p; .reg .b32 r; "


def flow(body: str):
    return control_flow(read_ptx(f"{HEAD}{body} }}").functions[0])


def edges(body: str) -> set[tuple[int, int]]:
    return {(tail, head) for tail, head in flow(body).graph.edges if tail != ROOT}


def roots(body: str) -> set[int]:
    return set(flow(body).graph.successors(ROOT))


def test_straight_line_is_one_block() -> None:
    result = flow("mov.b32 r, 1; call f; mov.b32 r, 2; ret;")
    assert [(block.start, block.stop) for block in result.blocks] == [(0, 4)]
    assert edges("mov.b32 r, 1; ret;") == set()


def test_empty_function() -> None:
    assert flow("").blocks == ()
    assert roots("") == set()


def test_conditional_branch_has_two_ways() -> None:
    assert edges("@p bra L; mov.b32 r, 1; L: ret;") == {(0, 1), (0, 2), (1, 2)}


def test_branch_to_the_very_end_leaves_the_function() -> None:
    assert edges("@p bra L; mov.b32 r, 1; L:") == {(0, 1)}


def test_exit_ends_a_path_and_a_predicated_one_goes_on() -> None:
    assert len(flow("@p exit; @!p ret; mov.b32 r, 1; ret;").blocks) == 1
    assert len(flow("exit; mov.b32 r, 1; ret;").blocks) == 2
    assert edges("exit; mov.b32 r, 1; ret;") == set()
    assert edges("trap; ret;") == set()


def test_indexed_branch_goes_where_the_table_says() -> None:
    assert edges("T: .branchtargets A, B; brx.idx r, T; A: mov.b32 r, 1; B: ret;") == {(0, 1), (0, 2), (1, 2)}


def test_code_that_nothing_reaches_hangs_on_the_root() -> None:
    body = "ret; A: mov.b32 r, 1; @p bra A; ret;"
    assert roots(body) == {0, 1}
    assert edges(body) == {(1, 1), (1, 2)}


def test_label_that_nobody_branches_to_does_not_cut_a_block() -> None:
    assert len(flow("mov.b32 r, 1; L: mov.b32 r, 2; ret;").blocks) == 1
