"""Traffic of compiled accesses against the rules of `lab.hardware.memory`, pattern by pattern."""

import numpy as np
import pytest
import small_ptx

from lab.emulator.api import launch
from lab.emulator.compiled import patterns


@pytest.mark.parametrize("t", ["u8", "u16", "u32", "u64", "v2.u32", "v4.u32"])
def test_both_engines_count_the_same_traffic(t):
    """Each warp reads and writes shared and global memory at addresses of its own, some with lanes left out."""
    width = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}[t.split(".")[-1]] * {"v2": 2, "v4": 4}.get(t[:2], 1)
    reg = (
        "%rd5" if t == "u64" else "{%r5, %r6}" if t[:2] == "v2" else "{%r5, %r6, %r7, %r8}" if t[:2] == "v4" else "%r5"
    )
    body = f"""
        mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [at]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2;
        ld.global.u32 %r2, [%rd2]; and.b32 %r3, %r2, 1; setp.eq.s32 %p1, %r3, 0; shr.u32 %r2, %r2, 1;
        mul.lo.s32 %r2, %r2, {width}; ld.param.u64 %rd3, [data]; cvt.u64.u32 %rd4, %r2; add.s64 %rd3, %rd3, %rd4;
        mov.u32 %r4, s; add.s32 %r4, %r4, %r2;
        st.shared.{t} [%r4], {reg}; ld.shared.{t} {reg}, [%r4]; @%p1 ld.shared.{t} {reg}, [%r4];
        ld.global.{t} {reg}, [%rd3]; @%p1 st.global.{t} [%rd3], {reg}; @!%p1 ld.global.{t} {reg}, [%rd3];"""
    ptx = small_ptx.kernel(body, ["at", "data"], ".shared .align 16 .b8 s[16384];")
    rng = np.random.default_rng(1)
    lanes = np.arange(32)
    rows = [lanes * k % 1024 for k in (0, 1, 2, 3, 4, 8, 16, 32, 33)] + [
        lanes // 2,
        lanes // 4 * 4,
        lanes ^ 1,
        lanes[::-1],
    ]
    rows += [rng.integers(0, limit, 32) for limit in (4, 40, 1024)]
    at = np.concatenate([2 * np.array(row) + (rng.integers(0, 2, 32) if i % 2 else 0) for i, row in enumerate(rows)])
    at = at.astype(np.uint32)
    counts = [
        launch(ptx, "k", 1, len(at), [at, np.zeros(16384, np.uint8)], check=False, engine=engine).lines
        for engine in ("interpreted", "compiled")
    ]
    assert counts[0] == counts[1]
    assert any(line.memory for line in counts[1])


def test_fields_of_a_pattern_do_not_overlap():
    assert patterns.MASK >= 128
    assert patterns.IDEAL + 4 <= patterns.HITS
    assert patterns.TOTAL_LANES + 8 <= patterns.BYTES
