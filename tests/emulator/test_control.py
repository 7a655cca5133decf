"""Basic blocks and their order."""

import networkx as nx
import pytest
from small_ptx import kernel

from lab.emulator.control import ends_block, is_gate, is_wait, split, weak_topological_order
from lab.isa.ptx.module import read_ptx


def function(body):
    return read_ptx(kernel(body)).kernels[0]


@pytest.mark.parametrize(
    ("instruction", "ends", "gate", "wait"),
    [
        ("bar.sync 0;", True, False, False),
        ("bar.warp.sync -1;", False, True, False),
        ("barrier.cluster.arrive;", True, False, False),
        ("shfl.sync.idx.b32 %r0, %r1, 0, 31, -1;", False, True, False),
        ("mbarrier.try_wait.parity.shared.b64 %p0, [%r1], 0;", True, False, True),
        ("mbarrier.arrive.shared.b64 _, [%r1];", False, False, False),
        ("trap;", True, False, False),
        ("add.u32 %r0, %r0, 1;", False, False, False),
        (
            "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd0, %fd1}, {%fd2}, {%fd3}, {%fd0, %fd1};",
            False,
            True,
            False,
        ),
    ],
)
def test_what_ends_or_begins_a_block(instruction, ends, gate, wait):
    found = function(instruction).instructions[0]
    assert (ends_block(found), is_gate(found), is_wait(found)) == (ends, gate, wait)


def test_blocks_begin_at_labels_gates_and_after_terminators():
    body = "mov.u32 %r0, 0;\nL:\nadd.u32 %r0, %r0, 1;\nvote.sync.any.pred %p0, %p1, -1;\n@%p0 bra L;\nmov.u32 %r1, 0;"
    blocks = split(function(body), 3, 10, 100)
    assert [(block.first, block.stop, block.end) for block in blocks] == [
        (100, 101, None),
        (101, 102, None),
        (102, 103, 103),
        (104, 105, 105),  # the kernel's ret
    ]
    assert [block.following for block in blocks] == [11, 12, 13, -1]
    assert [block.gate for block in blocks] == [False, False, True, False]
    assert {block.function for block in blocks} == {3}


def test_both_sides_of_a_branch_precede_where_they_meet():
    order = weak_topological_order(nx.DiGraph([(0, 5), (0, 1), (1, 2), (5, 2), (2, 9)]), 0)
    assert order.index(2) > max(order.index(1), order.index(5))
    assert order[-1] == 9


def test_a_loop_is_contiguous_and_precedes_its_exit():
    graph = nx.DiGraph([(0, 1), (1, 9), (9, 4), (4, 1), (1, 2), (9, 2), (7, 0)])
    order = weak_topological_order(graph, 0)
    assert order == [0, 1, 9, 4, 2]  # 7 cannot be reached
