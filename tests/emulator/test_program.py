"""Laying out kernels."""

import pytest
from mistakes import coded
from small_ptx import HEADER, kernel

from lab.base.errors import UserError
from lab.emulator.program import STACK_BYTES, Place, Program, align_of, program_of, size_of
from lab.isa.ptx.module import read_ptx

CALLS = (
    HEADER
    + """
.func (.param .b32 r) leaf(.param .b32 x) { .reg .b32 %a; ld.param.u32 %a, [x]; st.param.u32 [r], %a; ret; }
.func middle(.param .b64 x) { .reg .b32 %a; { .param .b32 q; .param .b32 s; st.param.b32 [q], %a;
call.uni (s), leaf, (q); } ret; }
.func unused() { ret; }
.visible .entry k(.param .u64 p, .param .u16 h, .param .align 16 .b8 v[20]) { .shared .align 16 .b8 tile[40];
.local .align 8 .b8 l[24]; { .param .b64 z; call.uni middle, (z); } ret; }
"""
)


def program(text, name="k"):
    return Program(read_ptx(text), name)


def test_only_functions_that_can_be_called_are_laid_out_callers_first():
    laid_out = program(CALLS)
    assert [function.name for function in laid_out.functions] == ["k", "middle", "leaf"]
    assert laid_out.offsets == [0, 2, 5]
    assert [block.index for block in laid_out.blocks] == list(range(len(laid_out.blocks)))


def test_memory_is_aligned():
    laid_out = program(CALLS)
    places = {name: place for (_, name), place in laid_out.places.items()}
    assert [(places[name].offset, places[name].size) for name in ("p", "h", "v")] == [(0, 8), (8, 2), (16, 20)]
    assert laid_out.param_bytes == 36
    assert (laid_out.static_shared_bytes, laid_out.local_bytes) == (40, 24)
    assert places["tile"].space == "shared"
    assert places["r"].space == places["x"].space == "frame"


def test_local_variables_of_functions_that_call_themselves_lie_on_the_stack():
    text = (
        HEADER
        + """.func f() { .local .align 8 .b8 a[20]; .local .b64 b; .reg .b64 %r<3>; call f; ret; }
    .func g() { .local .b32 c[3]; ret; }
    .visible .entry k() { call f; call g; ret; }
    """
    )
    laid_out = Program(read_ptx(text), "k")
    number = {function.name: i for i, function in enumerate(laid_out.functions)}
    f, g = number["f"], number["g"]
    assert laid_out.places[f, "a"] == Place("stack", 0, 20)
    assert laid_out.places[f, "b"] == Place("stack", 24, 8)
    assert laid_out.places[g, "c"] == Place("local", 0, 12)
    assert laid_out.frames == {f: 64}  # 32 of variables and 24 of registers
    assert (laid_out.stack_start, laid_out.local_bytes) == (16, 16 + STACK_BYTES)
    assert not Program(read_ptx(text.replace("call f; ret", "ret")), "k").has_stack


def test_variables_of_functions_in_global_memory_have_names_of_their_own():
    text = HEADER + ".global .b32 x; .visible .entry k() { .global .b32 x; .const .b32 y[2]; ret; }"
    laid_out = Program(read_ptx(text), "k")
    assert [(name, number) for name, number, _ in laid_out.memory_variables()] == [("x", -1), ("k::x", 0), ("k::y", 0)]
    assert [laid_out.symbol(0, name) for name in ("x", "y", "z")] == ["k::x", "k::y", "z"]


def test_an_unknown_kernel_is_named_with_the_known_ones():
    with pytest.raises(UserError) as error:
        program(CALLS, "kk")
    assert error.value.accepted == ["k"]


@pytest.mark.parametrize(
    ("body", "granule"),
    [
        ("st.shared.f32 [%r0], %f0;", 4),
        ("st.shared.u8 [%r0], %r1; ld.global.u8 %r1, [%rd0];", 1),
        ("ld.global.u8 %r1, [%rd0]; st.shared.f64 [%r0], %fd0;", 4),
        ("st.u16 [%rd0], %h0;", 2),  # a generic access may fall on shared memory
    ],
)
def test_the_granule_is_the_narrowest_access_to_shared_memory(body, granule):
    assert program(kernel(body)).shared_granule == granule


def test_loops_come_before_what_follows_them():
    laid_out = program(kernel("@%p0 bra AFTER;\nLOOP:\n@%p1 bra LOOP;\nbra AFTER;\nAFTER:\nmov.u32 %r0, 1;"))
    ranks = {
        laid_out.code[block.first][1].opcode + str(block.index): laid_out.priority[block.index]
        for block in laid_out.blocks
    }
    assert laid_out.priority[-1] == max(ranks.values())
    assert laid_out.successors(laid_out.blocks[0]) == [laid_out.blocks[-1].index, 1]


def test_sizes_and_alignment_of_variables():
    variables = {v.name: v for v in program(CALLS).kernel.parameters}
    assert (size_of(variables["v"]), align_of(variables["v"])) == (20, 16)
    assert (size_of(variables["h"]), align_of(variables["h"])) == (2, 2)
    assert not program(CALLS).has_async_proxy
    assert program(kernel("mbarrier.init.shared.b64 [%r0], 1;")).has_async_proxy


def test_instructions_name_registers_of_wgmma():
    multiply = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd0, %rd1, 1, 1, 1, 0, 0;"
    laid_out = program(kernel(f"mov.f32 %f4, %f0; {multiply} add.f32 %f5, %f6, %f1; mov.u32 %r0, 1;"))
    assert laid_out.wgmma_operands[:4] == (
        ((0, "%f4"), (0, "%f0")),
        tuple((0, f"%f{i}") for i in range(4)),
        ((0, "%f1"),),
        (),
    )


def test_a_text_is_read_once_for_several_launches():
    text = kernel("mov.u32 %r0, 1;")
    assert program_of(text, "k") is program_of(text, "k")
    assert program_of(kernel("mov.u32 %r0, 2;"), "k").code[0][1].operands == ("%r0", "2")
    with pytest.raises(UserError, check=coded("unknown-name", found="other")):
        program_of(text, "other")


@pytest.mark.parametrize(
    ("name", "body", "value"),
    [
        ("depends_on_order", "ld.global.u32 %r0, [%rd0]; red.global.add.u32 [%rd0], 1;", False),
        ("depends_on_order", "atom.global.add.u32 %r0, [%rd0], 1;", True),
        ("depends_on_order", "ld.relaxed.gpu.global.u32 %r0, [%rd0];", True),
        ("depends_on_order", "st.relaxed.gpu.global.u32 [%rd0], %r0;", False),
        ("depends_on_order", "activemask.b32 %r0;", True),
        ("has_grid_sync", "mov.u32 %r0, %envreg2;", True),
        ("has_grid_sync", "mov.u32 %r0, %envreg3;", False),
        ("asks_machine", "mov.u32 %r0, %smid;", True),
        ("asks_machine", "mov.u32 %r0, %tid.x;", False),
        ("asks_for_cluster", "mov.u32 %r0, %cluster_ctarank;", True),
        ("asks_for_cluster", "mapa.u64 %rd0, %rd1, 1;", True),
        ("asks_for_cluster", "mov.u32 %r0, %ctaid.x;", False),
        ("has_narrow_order", "fence.acq_rel.cta;", True),
        ("has_narrow_order", "fence.acq_rel.gpu;", False),
        ("has_narrow_order", "barrier.cta.sync 0;", False),
        ("has_async_proxy", "cp.async.bulk.commit_group;", True),
        ("has_async_proxy", "cp.async.commit_group;", False),
        ("most_registers", "setmaxnreg.inc.sync.aligned.u32 232; setmaxnreg.dec.sync.aligned.u32 40;", 232),
        ("most_registers", "mov.u32 %r0, 1;", 0),
        ("global_granule", "ld.global.u32 %r0, [%rd0];", 4),
        ("global_granule", "ld.global.v4.f64 {%fd0, %fd1, %fd2, %fd3}, [%rd0];", 4),
        ("global_granule", "st.global.u16 [%rd0], %h0; st.shared.u8 [%r0], %r1;", 2),
        ("global_granule", "st.u8 [%rd0], %r1;", 1),
        ("has_stack", "alloca.u64 %rd0, 16;", True),
        ("has_stack", "mov.u32 %r0, 1;", False),
    ],
)
def test_facts_of_a_text(name, body, value):
    assert getattr(program(kernel(body)), name) == value


def test_approximate_instructions_in_listing_order():
    laid_out = program(kernel("rcp.approx.f32 %f0, %f1;\nadd.f32 %f0, %f0, %f1;\nex2.approx.ftz.f32 %f2, %f1;"))
    assert [(one.position, one.opcode) for one in laid_out.approximate] == [
        (0, "rcp.approx.f32"),
        (2, "ex2.approx.ftz.f32"),
    ]
    assert [one.line for one in laid_out.approximate] == [laid_out.code[0][1].line, laid_out.code[2][1].line]
    assert program(kernel("add.f32 %f0, %f0, %f1;")).approximate == ()


def test_copies_of_wgmma_registers_are_followed_to_the_end():
    multiply = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd0, %rd1, 1, 1, 1, 0, 0;"
    copies = "mov.f32 %f6, %f5; mov.f32 %f5, %f0; mov.f32 %f8, %f9; mov.f32 %f7, 0f00000000;"
    laid_out = program(kernel(f"{copies} {multiply}"))
    assert laid_out.wgmma_registers == {(0, f"%f{i}") for i in (0, 1, 2, 3, 5, 6)}
    assert program(kernel(copies)).wgmma_registers == frozenset()
