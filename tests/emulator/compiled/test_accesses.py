import numpy as np
import pytest
import small_ptx

from lab.emulator.api import launch
from lab.emulator.compiled import accesses

ADDRESS = "mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, {}; add.s64 %rd2, %rd1, %rd2;"


def both(body, out, block=32, declarations="", count=True):
    ptx = small_ptx.kernel(body, ["out"], declarations)
    runs = []
    for engine in ("interpreted", "compiled"):
        mine = out.copy()
        runs.append((launch(ptx, "k", 2, block, [mine], check=False, count=count, engine=engine), mine))
    np.testing.assert_array_equal(runs[0][1], runs[1][1])
    assert runs[0][0].lines == runs[1][0].lines
    assert runs[0][0].findings == runs[1][0].findings
    return runs[1]


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
    assert emulation.not_compiled == "a faulting access or instruction"
    assert kind in {finding.kind for finding in emulation.findings}


@pytest.mark.parametrize("update", ["add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32"])
def test_atomics_without_a_result(update):
    body = ADDRESS.format(0) + f"mul.lo.s32 %r2, %r1, 77; red.global.{update} [%rd2], %r2;"
    emulation, _ = both(body, np.array([5, 0], np.uint32), block=96)
    assert emulation.engine == "compiled", emulation.not_compiled


ANYWHERE = """mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; shl.b32 %r2, %r2, 6; add.s32 %r1, %r1, %r2;
    ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2; ld.global.u32 %r3, [%rd2];
    and.b32 %r4, %r3, 255; shl.b32 %r5, %r4, 2; mov.u32 %r6, s; add.s32 %r5, %r6, %r5; setp.gt.u32 %p1, %r4, 50;"""


def test_atomics_anywhere_are_counted_alike():
    """Atomics count the same bank, sector and chunk conflicts on both engines."""
    body = (
        ANYWHERE
        + """cvt.u64.u32 %rd3, %r4; mul.lo.s64 %rd3, %rd3, 28; and.b64 %rd3, %rd3, -4; add.s64 %rd3, %rd1, %rd3;
        @%p1 red.shared.add.u32 [%r5], %r1; red.global.max.u32 [%rd3+512], %r1; @%p1 red.global.add.u32 [%rd1+512], 3;
        """
    )
    start = np.random.default_rng(0).integers(0, 256, 4096).astype(np.uint32)
    emulation, _ = both(body, start, block=64, declarations=".shared .align 4 .b8 s[1024];")
    assert emulation.engine == "compiled", emulation.not_compiled
    assert max(line.memory["global.atomic"].chunks for line in emulation.lines if "global.atomic" in line.memory) > 5


@pytest.mark.parametrize(("t", "space"), [("f32", "global"), ("f64", "global"), ("f32", "shared")])
def test_sums_of_floats_come_in_the_order_of_threads(t, space):
    """Subnormal numbers, infinities and NaNs among them."""
    register, size = ("%f1", 4) if t == "f32" else ("%fd1", 8)
    body = f"""mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.s32 %r1, %r2, 96, %r1; ld.param.u64 %rd1, [out];
        mul.wide.u32 %rd2, %r1, {size}; add.s64 %rd2, %rd1, %rd2; ld.global.{t} {register}, [%rd2+64];
        and.b32 %r3, %r1, 7; mul.wide.u32 %rd3, %r3, {size}; add.s64 %rd3, %rd1, %rd3;
        mul.lo.s32 %r4, %r3, {size}; mov.u32 %r5, s; add.s32 %r4, %r4, %r5; bar.sync 0;
        red.{space}.add.{t} [{"%rd3" if space == "global" else "%r4"}], {register}; bar.sync 0;
        ld.shared.f32 %f3, [%r4]; st.global.f32 [%rd2+4096], %f3;"""
    rng = np.random.default_rng(1)
    data = rng.standard_normal(2048) * 10.0 ** rng.integers(-44, 8, 2048)
    data[:16], data[22:24], data[55] = 0, np.inf, -np.inf
    out = data.astype(np.float32 if t == "f32" else np.float64).view(np.uint32)
    emulation, _ = both(body, out, block=96, declarations=".shared .align 8 .b8 s[64];")
    assert emulation.engine == "compiled", emulation.not_compiled


def test_sums_of_floats_in_a_loop_are_left_to_the_interpreter():
    body = """ld.param.u64 %rd1, [out]; mov.u32 %r1, 3; $L: red.global.add.f32 [%rd1], 0f3f800000; add.s32 %r1, %r1, -1;
        setp.gt.s32 %p1, %r1, 0; @%p1 bra $L;"""
    emulation, _ = both(body, np.zeros(8, np.uint32))
    assert "a sum of floats in a loop" in emulation.not_compiled
    twice = "ld.param.u64 %rd1, [out]; red.global.add.f32 [%rd1], 0f3f800000; red.global.add.f32 [%rd1], 0f3f800000;"
    assert "a second sum of floats" in both(twice, np.zeros(8, np.uint32))[0].not_compiled


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


PLACES = {
    "in order": lambda lane: lane,
    "all in one place": lambda lane: 0 * lane + 5,
    "backwards": lambda lane: 31 - lane,
    "every second": lambda lane: 2 * lane,
    "anywhere": lambda lane: (lane * 13 + 7) % 64,
}
VECTORS = [(8, 1), (8, 2), (8, 4), (16, 1), (16, 2), (16, 4), (32, 1), (32, 2), (32, 4), (64, 1), (64, 2)]


def moves(space, guard, vectors):
    """Return PTX that moves an element of each width from the place %r2 to the place %r3, and stores it behind %rd1."""
    body, offset = "", 4096
    base = {"global": "%rd1", "shared": "%rd7"}[space]
    for bits, count in vectors:
        width, kind = bits * count // 8, {8: "r", 16: "h", 32: "r", 64: "rd"}[bits]
        names = [f"%{kind}{i}" for i in range(10, 10 + count)]
        form = f".v{count}.b{bits}" if count > 1 else f".b{bits}"
        registers = "{" + ", ".join(names) + "}" if count > 1 else names[0]
        body += f"""mul.wide.u32 %rd3, %r2, {width}; mul.wide.u32 %rd4, %r3, {width};
            add.s64 %rd5, {base}, %rd3; add.s64 %rd6, {base}, %rd4; add.s64 %rd4, %rd1, %rd4;
            {guard} ld.{space}{form} {registers}, [%rd5+1024];"""
        if space == "shared":
            body += f"""bar.sync 0; {guard} st.shared{form} [%rd6+1024], {registers}; bar.sync 0;
                ld.shared{form} {registers}, [%rd6+1024];"""
        body += f"{guard} st.global{form} [%rd4+{offset}], {registers};\n"
        offset += 64 * width
    return body


@pytest.mark.parametrize(("space", "guard"), [("global", ""), ("shared", "@%p1")])
@pytest.mark.parametrize("vectors", [VECTORS[::2], VECTORS[1::2]], ids=["some", "others"])
def test_every_width_is_moved_from_and_to_all_places(space, guard, vectors):
    copy = "".join(f"ld.global.u64 %rd5, [%rd4+{i}]; st.shared.u64 [%rd6+{i}], %rd5;" for i in range(0, 64, 8))
    body = f"""ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2;
        ld.global.u32 %r2, [%rd2]; ld.global.u32 %r3, [%rd2+128]; setp.ne.u32 %p1, %r2, 5; mov.u64 %rd7, s;
        mul.wide.u32 %rd3, %r1, 64; add.s64 %rd4, %rd1, %rd3; add.s64 %rd6, %rd7, %rd3; {copy} bar.sync 0;
        {moves(space, guard, vectors)}"""
    data = np.random.default_rng(3).integers(0, 1 << 32, 4096, np.uint32)
    lane = np.arange(32)
    for read, written in (("in order", "backwards"), ("all in one place", "every second"), ("anywhere", "in order")):
        data[:32], data[32:64] = PLACES[read](lane), PLACES[written](lane)
        emulation, _ = both(body, data, declarations=".shared .align 16 .b8 s[2048];")
        assert emulation.engine == "compiled", emulation.not_compiled
