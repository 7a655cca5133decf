import re

import numpy as np
import random_ptx
import small_ptx

from lab.emulator.api import launch
from lab.emulator.compiled.kernel_code import kernel_code
from lab.emulator.program import Program
from lab.isa.ptx.module import read_ptx

TURN = """mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, s; shl.b32 %r4, %r1, 2; add.s32 %r4, %r3, %r4;
    st.shared.u32 [%r4], %r1; bar.sync 0; sub.s32 %r5, %r2, %r1; shl.b32 %r5, %r5, 2; add.s32 %r5, %r3, %r5;
    ld.shared.u32 %r9, [%r5+-4]; mov.u32 %r6, %ctaid.y; mad.lo.s32 %r9, %r6, 1000, %r9; mov.u32 %r7, %ctaid.x;
    mov.u32 %r8, %nctaid.x; mad.lo.s32 %r6, %r6, %r8, %r7; mad.lo.s32 %r1, %r6, %r2, %r1;
    ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r9;"""
SHARED = ".shared .align 4 .b8 s[512];"


def code(count):
    return kernel_code(Program(read_ptx(small_ptx.kernel(TURN, ["out"], SHARED)), "k"), {}, count=count)


def test_blocks_take_turns_and_their_warps_meet_at_barriers():
    out = np.zeros((3, 2, 128), np.uint32)
    ptx = small_ptx.kernel(TURN, ["out"], SHARED)
    emulation = launch(ptx, "k", (2, 3), 128, [out], check=False, engine="compiled", threads=1)
    assert emulation.engine == "compiled"
    np.testing.assert_array_equal(
        out, np.broadcast_to(np.arange(127, -1, -1) + 1000 * np.arange(3)[:, None, None], out.shape)
    )


def test_a_block_that_cannot_meet_is_left_to_the_interpreter():
    body = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra $E; bar.sync 0; bra $F; $E: bar.sync 0; $F:"
    emulation = launch(small_ptx.kernel(body), "k", 1, 64, [], check=False, engine="compiled")
    assert emulation.not_compiled == "a faulting access or instruction"
    assert [finding.kind for finding in emulation.findings] == ["barrier-divergence"]


def test_counts_cost_code_only_where_they_are_asked_for():
    counted, plain = code(True), code(False)
    assert [(site.key, site.width) for site in counted.sites] == [
        ("shared.store", 4),
        ("shared.load", 4),
        ("global.store", 4),
    ]
    assert len(plain.text) < len(counted.text)
    assert "%busy_phase =" in counted.text
    assert "%busy_phase =" not in plain.text


def test_every_intrinsic_is_declared_with_the_type_in_its_name():
    local = "mov.u32 %x0, l; " + "".join(f"st.local.u{bits} [%x0], {x}; ld.local.u{bits} {x}, [%x0]; " for bits, x in (
        (8, "%r0"), (16, "%h0"), (32, "%r1"), (64, "%q0")
    ))  # fmt: skip
    ptx = random_ptx.kernel_of_each([one for one in random_ptx.OPERATIONS if "activemask" not in one]).ptx
    ptx = ptx.replace(
        ".shared .align 4 .b8 s[512];", ".shared .align 4 .b8 s[512]; .local .align 8 .b8 l[8];\n" + local
    )
    text = kernel_code(Program(read_ptx(ptx), "k"), {}, count=True).text
    declared = {line.split("@")[1].split("(")[0]: line for line in text.splitlines() if line.startswith("declare ")}
    used = set(re.findall(r"@(llvm\.[\w.]+)\(", text))
    assert used <= declared.keys()
    for name, line in declared.items():
        for count, kind, bits in re.findall(r"\.v(\d+)([if])(\d+)", name):
            element = f"i{bits}" if kind == "i" else {"32": "float", "64": "double"}[bits]
            assert f"<{count} x {element}>" in line, line
            assert int(bits) in (8, 16, 32, 64)


def test_functions_of_numpy_cost_code_only_where_they_are_used():
    def text(body):
        return kernel_code(Program(read_ptx(small_ptx.kernel(body)), "k"), {}, count=False).text

    for body, asked in (("sin.approx.f32 %f1, %f2;", True), ("add.f32 %f1, %f2, %f2;", False)):
        assert ("@special(" in text(body + "mov.b32 %r1, %f1; st.global.b32 [%rd1], %r1;")) is asked
