"""ldmatrix, stmatrix and movmatrix."""

import numpy as np
import pytest
from small_ptx import execute, kernel

from lab.emulator.api import launch


@pytest.mark.parametrize("trans", [False, True])
def test_ldmatrix_and_stmatrix_undo_each_other(trans):
    data, out = np.arange(256, dtype=np.uint16), np.zeros(256, np.uint16)
    mode = "x4.trans" if trans else "x4"
    body = f"""
    .shared .align 16 .b16 s[256]; .shared .align 16 .b16 t[256];
    ld.param.u64 %rd0, [p]; mov.u32 %r0, %tid.x; mad.wide.u32 %rd0, %r0, 16, %rd0; mov.u32 %r9, s; mov.u32 %r10, t;
    shl.b32 %r8, %r0, 4; add.u32 %r9, %r9, %r8; add.u32 %r10, %r10, %r8;
    ld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%rd0]; st.shared.v4.b32 [%r9], {{%r1, %r2, %r3, %r4}}; bar.warp.sync -1;
    ldmatrix.sync.aligned.m8n8.{mode}.shared.b16 {{%r1, %r2, %r3, %r4}}, [%r9];
    stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r10], {{%r1, %r2, %r3, %r4}}; bar.warp.sync -1;
    ld.shared.v4.b32 {{%r1, %r2, %r3, %r4}}, [%r10];
    ld.param.u64 %rd0, [q]; mad.wide.u32 %rd0, %r0, 16, %rd0; st.global.v4.b32 [%rd0], {{%r1, %r2, %r3, %r4}};
    """
    emulation = launch(kernel(body, ["p", "q"]), "k", 1, 32, [data, out])
    assert emulation.clean
    matrices = data.reshape(4, 8, 8)
    np.testing.assert_array_equal(out.reshape(4, 8, 8), matrices.swapaxes(1, 2) if trans else matrices)


def test_movmatrix_turns_a_matrix():
    matrix = np.arange(64, dtype=np.uint16).reshape(8, 8)
    fragment = np.ascontiguousarray(matrix).view(np.uint32).reshape(-1)
    emulation, out = execute("movmatrix.sync.aligned.m8n8.trans.b16 %o0, %i0;", fragment)
    assert emulation.clean
    np.testing.assert_array_equal(out.view(np.uint16).reshape(8, 8), matrix.T)


@pytest.mark.parametrize(("count", "trans"), [(1, False), (2, True), (4, True)])
def test_stmatrix_stores_turned_matrices(count, trans):
    """Lane l holds columns 2 (l mod 4) and the next one of row l / 4; the lanes' addresses are those of the rows."""
    registers = ", ".join(f"%i{i}" for i in range(count))
    fragments = [
        np.arange(32, dtype=np.uint32) * 2 + 64 * i | (np.arange(32, dtype=np.uint32) * 2 + 1 + 64 * i) << 16
        for i in range(count)
    ]
    body = f"""
    .shared .align 16 .b16 s[{64 * count}]; mov.u32 %r1, s; and.b32 %r2, %r63, {8 * count - 1}; shl.b32 %r2, %r2, 4;
    add.u32 %r3, %r1, %r2;
    stmatrix.sync.aligned.m8n8.x{count}{".trans" if trans else ""}.shared.b16 [%r3], {{{registers}}}; bar.warp.sync -1;
    shl.b32 %r2, %r63, 2; add.u32 %r3, %r1, %r2;
    """
    body += "".join(f"ld.shared.b32 %o{i}, [%r3+{128 * i}];" for i in range(count))
    emulation, out = execute(body, *fragments, outputs=count)
    assert emulation.clean, emulation.findings
    found = np.ascontiguousarray(out.reshape(count, 32)).view(np.uint16).reshape(count, 8, 8)
    wanted = np.arange(64 * count).reshape(count, 8, 8)
    np.testing.assert_array_equal(found, wanted.swapaxes(1, 2) if trans else wanted)


@pytest.mark.parametrize(
    "instruction",
    [
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r3];",
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {%r4};",
    ],
)
@pytest.mark.parametrize(("stride", "kinds"), [(48, []), (40, ["misaligned"])])
def test_rows_that_are_not_aligned(instruction, stride, kinds):
    """Rows of 20 halves: every other one begins 8 bytes beyond a multiple of 16."""
    body = f""".shared .align 16 .b8 s[1536]; mov.u32 %r1, s; mov.u32 %r4, 0;
        shl.b32 %r2, %r63, 2; add.u32 %r2, %r1, %r2;
        {"".join(f"st.shared.u32 [%r2+{128 * i}], %r4;" for i in range(12))} bar.sync 0;
        mad.lo.u32 %r3, %r63, {stride}, %r1; {instruction} mov.u32 %o0, 1;"""
    emulation, _ = execute(body)
    assert [finding.kind for finding in emulation.findings] == kinds
