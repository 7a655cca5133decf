"""Matrix fragments against NumPy's product."""

import numpy as np
import pytest
from small_ptx import kernel

from lab.emulator.api import launch
from lab.emulator.errors import UnsupportedInstruction

LANE = np.arange(32)
GROUP, WITHIN = LANE // 4, LANE % 4


def fragments(registers, *arrays):
    """Load (32, registers) fragments of 32-bit words as %a.., %b.. and store %d0 to %d3."""
    lines, declarations = (
        ["mov.u32 %r0, %tid.x;"],
        ".reg .b32 %a<8>; .reg .b32 %b<8>; .reg .b32 %c<8>; .reg .b32 %d<8>;",
    )
    for name, array in zip("abc", arrays, strict=True):
        lines.append(f"ld.param.u64 %rd0, [{name}]; mad.wide.u32 %rd0, %r0, {4 * array.shape[1]}, %rd0;")
        lines += [f"ld.global.b32 %{name}{i}, [%rd0+{4 * i}];" for i in range(array.shape[1])]
    lines.append("BODY ld.param.u64 %rd0, [d]; mad.wide.u32 %rd0, %r0, 16, %rd0;")
    lines += [f"st.global.b32 [%rd0+{4 * i}], %d{i};" for i in range(registers)]
    return kernel("\n".join(lines), ["a", "b", "c", "d"], declarations)


def test_tf32_mma():
    random = np.random.default_rng(1)
    a, b = random.integers(-8, 8, (16, 8)), random.integers(-8, 8, (8, 8))
    c = random.integers(-8, 8, (16, 8)).astype(np.float32)
    fragment_a = np.stack([a[GROUP, WITHIN], a[GROUP + 8, WITHIN], a[GROUP, WITHIN + 4], a[GROUP + 8, WITHIN + 4]], 1)
    fragment_b = np.stack([b[WITHIN, GROUP], b[WITHIN + 4, GROUP]], 1)
    places = [(GROUP + 8 * (i // 2), 2 * WITHIN + i % 2) for i in range(4)]
    fragment_c = np.stack([c[place] for place in places], 1)
    words = [np.ascontiguousarray(x, np.float32) for x in (fragment_a, fragment_b, fragment_c)]
    words[0].view(np.uint32)[:] |= 0xFFF  # bits that tf32 does not have are ignored
    out = np.zeros((32, 4), np.float32)
    mma = (
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%d0, %d1, %d2, %d3}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%c0, %c1, %c2, %c3};"
    )
    emulation = launch(fragments(4, *words).replace("BODY", mma), "k", 1, 32, [*words, out])
    assert emulation.clean
    wanted = a @ b + c
    np.testing.assert_array_equal(out, np.stack([wanted[place] for place in places], 1))


def test_integer_mma():
    random = np.random.default_rng(2)
    a = random.integers(-128, 128, (16, 16)).astype(np.int8)
    b = random.integers(0, 256, (16, 8)).astype(np.uint8)
    columns = WITHIN[:, None] * 4 + np.arange(4)
    fragment_a = (
        np.stack([a[GROUP[:, None], columns], a[GROUP[:, None] + 8, columns]], 1).reshape(32, 8).view(np.uint32)
    )
    fragment_b = np.ascontiguousarray(b[columns, GROUP[:, None]]).view(np.uint32)
    zero, out = np.zeros((32, 4), np.uint32), np.zeros((32, 4), np.int32)
    mma = (
        "mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32 {%d0, %d1, %d2, %d3}, {%a0, %a1}, {%b0}, {%c0, %c1, %c2, %c3};"
    )
    words = [np.ascontiguousarray(fragment_a), fragment_b, zero]
    launch(fragments(4, *words).replace("BODY", mma), "k", 1, 32, [*words, out])
    wanted = a.astype(int) @ b.astype(int)
    places = [(GROUP + 8 * (i // 2), 2 * WITHIN + i % 2) for i in range(4)]
    np.testing.assert_array_equal(out, np.stack([wanted[place] for place in places], 1))


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


@pytest.mark.parametrize(
    "instruction",
    [
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.m8n8k4.row.col.f32.tf32.tf32.f32",
        "mma.sync.aligned.row.col.f32.tf32.tf32.f32",
        "mma.sync.aligned.m16n8k8.col.col.f32.tf32.tf32.f32",
    ],
)
def test_shapes_and_layouts_that_do_not_exist(instruction):
    if "f16" in instruction:
        instruction = instruction.replace("m16n8k8", "m8n8k4")
    body = instruction + " {%r0, %r1, %r2, %r3}, {%r0, %r1}, {%r2}, {%r0, %r1, %r2, %r3};"
    with pytest.raises(UnsupportedInstruction):
        launch(kernel(body), "k", 1, 32, [])
