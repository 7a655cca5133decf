import numpy as np
import pytest
import small_ptx

from lab.emulator.api import launch
from lab.emulator.compiled import accesses

ADDRESS = "mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, {}; add.s64 %rd2, %rd1, %rd2;"


def both(body, out, block=32, declarations="", count=True):
    ptx = small_ptx.kernel(body, ["out"], declarations)
    found = []
    for engine in ("interpreted", "compiled"):
        mine = out.copy()
        found.append((launch(ptx, "k", 2, block, [mine], check=False, count=count, engine=engine), mine))
    np.testing.assert_array_equal(found[0][1], found[1][1])
    assert found[0][0].lines == found[1][0].lines
    assert found[0][0].findings == found[1][0].findings
    return found[1]


@pytest.mark.parametrize(
    ("bits", "count", "unit"), [(8, 4, (32, 1)), (32, 2, (64, 1)), (32, 4, (32, 4)), (64, 2, (64, 2))]
)
def test_an_access_moves_whole_registers(bits, count, unit):
    assert accesses.unit_of(bits, count) == unit


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("st.global.u32 [%rd2+60], %r1;", "out-of-bounds"), ("st.global.u32 [%rd2+2], %r1;", "misaligned")],
)
def test_the_interpreter_tells_what_is_wrong_with_an_access(fault, kind):
    emulation, _ = both(ADDRESS.format(4) + "st.global.u32 [%rd2], %r1;" + fault, np.zeros(32, np.uint32))
    assert emulation.engine == "interpreted"
    assert emulation.not_compiled == "an access or instruction at fault"
    assert kind in {finding.kind for finding in emulation.findings}


@pytest.mark.parametrize("update", ["add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32"])
def test_atomics_without_a_result(update):
    body = ADDRESS.format(0) + f"mul.lo.s32 %r2, %r1, 77; red.global.{update} [%rd2], %r2;"
    emulation, _ = both(body, np.array([5, 0], np.uint32), block=96, count=False)
    assert emulation.engine == "compiled"
    counted, _ = both(body, np.array([5, 0], np.uint32), block=96)
    assert "updates of atomics" in counted.not_compiled


def test_local_memory_is_each_threads_own():
    body = (
        ADDRESS.format(4)
        + """
        and.b32 %r2, %r1, 7; shl.b32 %r2, %r2, 2; mov.u32 %r3, l; add.s32 %r3, %r3, %r2;
        st.local.u32 [%r3], %r1; ld.local.u32 %r4, [%r3]; st.local.v2.u32 [l+32], {%r4, %r2}; ld.local.u64 %rd3, [l+32];
        cvt.u32.u64 %r5, %rd3; st.global.u32 [%rd2], %r5;"""
    )
    emulation, out = both(body, np.zeros(64, np.uint32), block=64, declarations=".local .align 8 .b8 l[48];")
    assert emulation.engine == "compiled"
    np.testing.assert_array_equal(out, np.arange(64))


def test_a_generic_address_finds_shared_and_global_memory():
    body = (
        ADDRESS.format(4)
        + """
        mov.u64 %rd4, s; cvta.shared.u64 %rd4, %rd4; mul.wide.u32 %rd5, %r1, 4; add.s64 %rd5, %rd4, %rd5;
        st.u32 [%rd5], %r1; ld.u32 %r2, [%rd5]; st.u32 [%rd2], %r2;"""
    )
    emulation, out = both(body, np.zeros(32, np.uint32), declarations=".shared .align 4 .b8 s[128];")
    assert emulation.engine == "compiled"
    np.testing.assert_array_equal(out, np.arange(32))
    assert {key for line in emulation.lines for key in line.memory} == {
        "shared.load", "shared.store", "global.store",
    }  # fmt: skip


def test_the_last_lane_wins_where_stores_collide():
    body = ADDRESS.format(0) + "st.global.u32 [%rd2], %r1; st.global.u8 [%rd2+4], %r1;"
    _, out = both(body, np.zeros(2, np.uint32))
    assert out.tolist() == [31, 31]
