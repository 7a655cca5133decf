"""Instructions for all threads, and for some."""

import numpy as np
import pytest
from small_ptx import execute, kernel

from lab.base.errors import LabError
from lab.emulator.api import launch
from lab.emulator.errors import UnsupportedInstruction

X = np.arange(45, dtype=np.uint32)


def test_a_guard_chooses_threads_in_a_full_and_in_a_part_group():
    body = """
    mov.u32 %o0, 0; mov.u32 %o1, 0;
    setp.lt.u32 %p0, %i0, 40; setp.gt.u32 %p1, %i0, 3; setp.eq.u32 %p2, %i0, 99;
    @%p0 add.u32 %o0, %i0, 1; @%p2 add.u32 %o0, %i0, 1000;
    @!%p1 bra END; @%p0 mul.lo.u32 %o1, %i0, 3; @!%p2 add.u32 %o1, %o1, 1;\nEND:\n
    """
    emulation, found = execute(body, X, outputs=2)
    assert emulation.clean
    np.testing.assert_array_equal(found[0], np.where(X < 40, X + 1, 0))
    np.testing.assert_array_equal(found[1], np.where(X > 3, np.where(X < 40, 3 * X, 0) + 1, 0))


def test_guarded_threads_are_counted_as_they_execute():
    emulation, _ = execute("mov.u32 %o0, 0; setp.lt.u32 %p0, %i0, 7;\n@%p0 mov.u32 %o0, 5;\n", X)
    line = next(line for line in emulation.lines if line.opcode == "mov.u32" and line.threads == 7)
    assert line.warps == 2


def test_a_destination_may_be_a_source():
    _, found = execute("mov.u32 %o0, %i0; sub.u32 %o0, 100, %o0; mad.lo.u32 %o0, %o0, %o0, %o0;", X)
    np.testing.assert_array_equal(found, (100 - X) * (101 - X))


def test_registers_wider_than_the_type():
    body = "cvt.u64.u32 %rd0, %i0; add.u64 %rd0, %rd0, 4294967295; cvt.u32.u64 %o0, %rd0; ld.param.u8 %o1, [i0];"
    _, found = execute(body, X, outputs=2)
    np.testing.assert_array_equal(found[0], (X.astype(np.int64) - 1) % 2**32)
    assert (found[1] < 256).all()


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("add.u32 %r0, %r1;", "operands"),
        ("add.u32 %r0, %r1, %r2, %r3;", "operands"),
        ("frobnicate.u32 %r0, %r1;", "unknown opcode"),
        ("add.wide.u32 %r0, %r1, %r2;", r"\.wide"),
        ("tcgen05.wait::ld.sync.aligned;", "it needs sm_100"),
        ("tcgen05.mma.cta_group::1.kind::f16 [%r0], %rd0, %rd1, %r1, %p0;", "it needs sm_100"),
        (
            "mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e2m1.e2m1.f32 {%f0}, {%r0}, {%r1}, {%f0};",
            "it needs sm_100; the emulator supports up to sm_90a",
        ),
        ("@%r0 add.u32 %r0, %r1, %r2;", "not a predicate"),
        ("add.u32 %r0, %rd1, %r2, nothing;", "operand"),
    ],
)
def test_what_cannot_be_bound_names_line_and_reason(instruction, why):
    with pytest.raises(UnsupportedInstruction, match=f"PTX line.*{why}"):
        execute(instruction)


@pytest.mark.parametrize("engine", ["interpreted", "compiled"])
@pytest.mark.parametrize(
    "text",
    [
        "mov.b64;",
        "mov.b64 {}, %rd0;",
        "mov.b64 %rd0, {};",
        "min.f32 %f0, %f1;",
        "max.f32 %f0, %f1, %f1, %f1, %f1;",
        "atom.global.add.u32;",
        "cp.async.ca.shared.global [tile], [p], [tile];",
        "cp.async.ca.shared.global [tile], [p], %rd1;",
        "mul.wide.s64 %rd0, %rd0, %rd0;",
        "mad.wide.u64 %rd0, %rd0, %rd0, %rd0;",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0, %r1}, [tile];",
        "stmatrix.sync.aligned.m8n8.x2.shared.b16 [tile], {%r0, %r1, %r0};",
        "brx.idx %r0, (out);",
        "brx.idx %r0;",
        "brx.idx %r0, %r7;",
    ],
)
def test_operands_that_do_not_fit_are_refused_with_their_line(text, engine):
    ptx = kernel(f"mov.f32 %f1, 0f3F800000; mov.u32 %r0, 0; mov.u64 %rd0, 0;\n{text}", ["p"], ".shared .b8 tile[64];")
    with pytest.raises(LabError) as caught:
        launch(ptx, "k", 1, 32, [np.zeros(4, np.uint32)], engine=engine)
    line = next(i for i, one in enumerate(ptx.splitlines(), 1) if one == text)
    assert f"line {line}" in str(caught.value) or f":{line}:" in str(caught.value)


def test_an_operand_that_machine_code_cannot_take_leaves_the_launch_to_the_interpreter():
    body = "ld.param.u64 %rd0, [p]; mov.u32 %r0, %tid.x; lop3.b32 %r1, %r0, %r0, %r0, %r0; st.global.b32 [%rd0], %r1;"
    ptx = kernel(body, ["p"])
    done = launch(ptx, "k", 1, 1, [np.zeros(4, np.uint32)], engine="compiled")
    assert (done.engine, "a table that is not a literal" in done.not_compiled) == ("interpreted", True)


def test_registers_are_packed_and_taken_apart():
    body = """mov.b64 %rd0, {%i0, %i1}; mov.b64 {%r0, %r1}, %rd0; sub.u32 %o0, %r0, %r1;
    mov.v2.u32 {%o1, %o2}, {%r1, %r0};
    mov.b32 {%h0, %h1}, %i0; mov.b32 %o3, {%h1, %h0};"""
    _, found = execute(body, X, X * 3, outputs=4)
    np.testing.assert_array_equal(found, [(X - X * 3), X * 3, X, X << 16])


def test_vectors_of_special_registers():
    body = "mov.v4.u32 {%o0, %o1, %o2, %o3}, %ntid;"
    assert execute(body, X, outputs=4)[1][:, 0].tolist() == [45, 1, 1, 0]
    with pytest.raises(UnsupportedInstruction, match="elements to"):
        execute("mov.v2.u32 {%r0, %r1, %r2}, {%r0, %r1};")


def test_instructions_without_an_error_bound_stay_under_displacement():
    values = np.linspace(0.1, 9, 45, dtype=np.float32)
    body = "add.f32 %o0, %i0, %i0; mul.f32 %o0, %o0, 0f3F000000;"
    np.testing.assert_array_equal(execute(body, values, out="f4", rounding=1)[1], values)
    body = "rcp.approx.f32 %o0, %i0;"
    assert (execute(body, values, out="f4", rounding=1)[1] != execute(body, values, out="f4")[1]).any()
