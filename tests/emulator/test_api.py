"""Arguments, buffers and module variables of a launch."""

import compiling
import numpy as np
import pytest
from mistakes import coded
from small_ptx import HEADER, kernel

from lab.base.errors import UserError
from lab.emulator.api import launch
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.results import NEVER_SET, Buffer, IndexedBuffer, StructureArgument
from lab.isa.ptx.module import read_ptx

COPY = """ld.param.u64 %rd0, [p]; mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 5; mad.wide.u32 %rd0, %r0, 4, %rd0;
@%p0 st.global.u32 [%rd0], %r0;"""


def test_outputs_that_are_not_written_are_found():
    out = np.full(8, 99, np.uint32)
    emulation = launch(kernel(COPY, ["p"]), "k", 1, 32, [Buffer(out, output=True)])
    (finding,) = emulation.findings
    assert (finding.kind, finding.count, finding.line) == ("never-written", 3, 0)
    assert "3 of 8 elements" in finding.detail
    assert "first element 5" in finding.detail
    assert out.tolist() == [0, 1, 2, 3, 4, 99, 99, 99]


def test_a_module_that_was_read_before_can_be_launched_again_and_again():
    module, out = read_ptx(kernel(COPY, ["p"])), np.zeros(8, np.uint32)
    first, second = (launch(module, "k", 1, 32, [out]) for _ in range(2))
    assert out.tolist() == [0, 1, 2, 3, 4, 0, 0, 0]
    assert first == second
    another = read_ptx(kernel("ld.param.u64 %rd0, [p]; st.global.u32 [%rd0], 1;", ["p"]))
    other = launch(another, "k", 1, 1, [out])
    assert other.clean
    assert out[0] == 1


def test_columns_are_written_in_memory_order():
    out = np.zeros((2, 4), np.uint32, order="F")
    launch(kernel(COPY, ["p"]), "k", 1, 32, [out])
    assert out.reshape(-1, order="F").tolist() == [0, 1, 2, 3, 4, 0, 0, 0]


def test_an_array_that_cannot_be_written_stays():
    out = np.zeros(8, np.uint32)
    out.flags.writeable = False
    launch(kernel(COPY, ["p"]), "k", 1, 32, [out])
    assert not out.any()


@pytest.mark.parametrize(
    ("parameter", "value", "wanted"),
    [
        ("u32 n", -1, 2**32 - 1),
        ("s32 n", np.int32(-1), 2**32 - 1),
        ("f32 n", 1.0, 0x3F800000),
        ("f32 n", 1, 0x3F800000),
        ("b32 n", np.float32(-0.0), 0x80000000),
        ("b32 n", b"\x01\x02\x03\x04", 0x04030201),
        ("u32 n", True, 1),
    ],
)
def test_scalars_keep_their_bits(parameter, value, wanted):
    out = np.zeros(1, np.uint32)
    ptx = kernel("ld.param.u64 %rd0, [p]; ld.param.b32 %r0, [n]; st.global.b32 [%rd0], %r0;", ["p", parameter])
    if wanted == 2**32 - 1 and value == -1 and isinstance(value, int):
        with pytest.raises(UserError, check=coded("out-of-range", key="args[1]", found=-1)):
            launch(ptx, "k", 1, 1, [out, value])
        return
    launch(ptx, "k", 1, 1, [out, value])
    assert out[0] == wanted


@pytest.mark.parametrize(
    ("grid", "block", "key"),
    [(0, 32, "grid"), ((1, 2, 3, 4), 32, "grid"), (1, (32, 33), "block"), (1, (1, 1, 65), "block"), (1, -1, "block")],
)
def test_geometry_that_no_gpu_accepts(grid, block, key):
    with pytest.raises(UserError) as error:
        launch(kernel(""), "k", grid, block, [])
    assert error.value.key == key


def test_module_variables_are_initialised():
    module = (
        ".global .align 4 .u32 cells[4] = {1, 2, 0xFFFFFFFF};\n.const .align 4 .f32 factor = 0f40000000;\n"
        ".global .align 8 .u64 pointer = cells;\n"
    )
    body = """ld.param.u64 %rd0, [p]; ld.global.u64 %rd1, [pointer]; ld.global.u32 %r0, [%rd1+8];
    ld.const.f32 %f0, [factor]; st.global.u32 [%rd0], %r0; st.global.f32 [%rd0+4], %f0; ld.global.u32 %r1, [cells+12];
    st.global.u32 [%rd0+8], %r1;"""
    out = np.zeros(3, np.uint32)
    assert launch(kernel(body, ["p"], module=module), "k", 1, 1, [out]).clean
    assert out.tolist() == [2**32 - 1, 0x40000000, 0]


def test_an_initialiser_that_is_not_known():
    with pytest.raises(UnsupportedInstruction, match="this initialiser"):
        launch(kernel("", module=".global .align 8 .u64 pointer = elsewhere;\n"), "k", 1, 1, [])


def test_static_and_dynamic_shared_memory():
    ptx = HEADER + (
        ".extern .shared .align 16 .b8 pool[];\n.visible .entry k(.param .u64 p) { .shared .align 4 .b8 fixed[20];\n"
        ".reg .b32 %r<4>; .reg .b64 %d; st.shared.u8 [fixed+19], 1; mov.u32 %r0, pool;\n"
        "mov.u32 %r1, %dynamic_smem_size;\n"
        "st.shared.u32 [pool+60], 7; ld.shared.u32 %r2, [pool+60]; ld.param.u64 %d, [p];\n"
        "st.global.u32 [%d], %r0; st.global.u32 [%d+4], %r1; st.global.u32 [%d+8], %r2; ret; }\n"
    )
    out = np.zeros(3, np.uint32)
    assert launch(ptx, "k", 1, 1, [out], dynamic_shared_bytes=64).clean
    assert out.tolist() == [32, 64, 7]
    findings = launch(ptx, "k", 1, 1, [out], dynamic_shared_bytes=60).findings
    assert {finding.kind for finding in findings} == {"out-of-bounds"}


@pytest.mark.parametrize(
    ("grid", "block", "key"),
    [((1, 65536), 32, "grid"), ((1, 1, 65536), 32, "grid"), (1, 128, "block")],
)
def test_launches_that_a_driver_refuses(grid, block, key):
    ptx = kernel("").replace("k()\n", "k() .maxntid 64, 1, 1\n")
    assert ".maxntid" in ptx
    with pytest.raises(UserError) as refused:
        launch(ptx, "k", grid, block, [])
    assert refused.value.key == key


def test_a_block_of_another_size_than_the_kernel_requires():
    ptx = kernel("").replace("k()\n", "k() .reqntid 64, 1, 1\n")
    assert launch(ptx, "k", 1, 64, []).clean
    with pytest.raises(UserError, check=coded("mismatch", key="block", found=(32, 1, 1))):
        launch(ptx, "k", 1, 32, [])


def test_shared_memory_beyond_what_a_gpu_has():
    with pytest.raises(UserError, check=coded("out-of-range", key="dynamic_shared_bytes", found="300000 bytes")):
        launch(kernel(""), "k", 1, 32, [], dynamic_shared_bytes=300_000)


VIEW = """struct View { const float *from; char step; double scale; float *to; int n; };
extern "C" __global__ void k(int before, View view, int apart) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < view.n) view.to[i / apart] = view.scale * view.from[i] + view.step + before;
}
"""


def test_a_structure_holds_pointers_and_values():
    ptx = compiling.ptx_of(VIEW)
    given, out = np.arange(40, dtype=np.float32), np.zeros(40, np.float32)
    members = (given, np.int8(-3), np.float64(0.5), Buffer(out, output=True), np.int32(40))
    done = launch(ptx, "k", 2, 32, [np.int32(7), StructureArgument(members), np.int32(1)])
    assert not done.findings
    assert (out == given / 2 + 4).all()


def test_races_through_a_structure_are_found():
    given, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    members = (given, np.int8(0), np.float64(1), out, np.int32(64))
    done = launch(compiling.ptx_of(VIEW), "k", 2, 32, [np.int32(0), StructureArgument(members), np.int32(2)])
    assert {finding.kind for finding in done.findings} == {"global-race"}


def test_a_structure_has_the_size_of_its_parameter():
    members = (np.zeros(4, np.float32), np.int8(0))
    with pytest.raises(UserError, check=coded("mismatch", key="args[1]", found="16 bytes")) as caught:
        launch(compiling.ptx_of(VIEW), "k", 1, 32, [np.int32(0), StructureArgument(members), np.int32(1)])
    assert (caught.value.found, caught.value.accepted) == ("16 bytes", "40 bytes (.b8 k_param_1)")


def test_a_module_that_was_read_is_launched():
    module = read_ptx(kernel("ld.param.u64 %rd0, [p]; mov.u32 %r1, 5; st.global.u32 [%rd0], %r1;", ["p"]))
    x = np.zeros(1, np.uint32)
    assert launch(module, "k", 1, 1, [x]).clean
    assert x[0] == 5


CONSTANTS = """.const .align 4 .f32 scale; .const .align 4 .f32 unused; .const .align 4 .f32 given = 0f3F800000;
.visible .entry k(.param .u64 out) {
.reg .f32 %f<4>; .reg .b64 %rd<2>; ld.param.u64 %rd0, [out]; ld.const.f32 %f0, [scale]; ld.const.f32 %f1, [given];
add.f32 %f0, %f0, %f1; st.global.f32 [%rd0], %f0; ret; }
"""


def test_constant_memory_that_is_read_and_never_set_is_a_note():
    out = np.zeros(1, np.float32)
    (note,) = launch(HEADER + CONSTANTS, "k", 1, 1, [out]).notes
    assert note == f"{NEVER_SET} scale, which the kernel reads: zeros"
    assert launch(HEADER + CONSTANTS, "k", 1, 1, [out], constants={"scale": np.ones(1, np.float32)}).notes == ()
    assert out[0] == 2


SCALE = """extern "C" __global__ void scale(float* y, float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
  if (i == 300) x[7] = 1;
}"""


class Halves:
    """Elements that hold half of their index."""

    dtype = np.dtype(np.float32)

    def __init__(self, size):
        self.size = size

    def read(self, start, stop):
        return np.arange(start, stop).astype(np.float32) / 2


def scaled(n, blocks, engine="interpreted", work=None):
    y, x = Halves(n), Halves(n)
    buffers = [IndexedBuffer(y, "y", initialised=False), IndexedBuffer(x, "x")]
    grid = -(-n // 128)
    return launch(
        compiling.compile_text(SCALE), "scale", grid, 128, [*buffers, n], blocks=blocks, work=work, engine=engine
    )


@pytest.mark.parametrize("engine", ["interpreted", "auto", "compiled"])
def test_some_blocks_of_a_large_grid(engine):
    n = 2_000_000_011
    last = -(-n // 128) - 1
    found = scaled(n, [last, 5_000_000, 0], engine)
    assert (found.clean, found.finished) == (True, 3)
    (stored,) = [one for one in found.stored if one.name == "y"]
    assert len(stored.elements) == 128 + 128 + n % 128
    assert set(stored.blocks.tolist()) == {0, 5_000_000, last}
    np.testing.assert_array_equal(stored.values, stored.elements.astype(np.float32))


def test_findings_name_the_block_of_the_grid():
    found = scaled(100, [0])
    assert found.clean
    n = 1 << 20
    x = np.zeros(n - 5, np.float32)
    found = launch(compiling.compile_text(SCALE), "scale", n // 128, 128, [x.copy(), x, n], blocks=[3, n // 128 - 1])
    assert {finding.block for finding in found.findings} == {(n // 128 - 1, 0, 0)}


@pytest.mark.parametrize("blocks", [[], [-1], [8], [1, 1]])
def test_blocks_that_are_not_in_the_grid(blocks):
    with pytest.raises(UserError) as caught:
        scaled(1000, blocks)
    assert caught.value.key == "blocks"


def test_the_interpreter_stops_when_its_work_is_spent():
    found = scaled(1_000_000, list(range(200)), work=1000)
    assert found.finished < 200
    assert found.clean


@pytest.mark.parametrize("engine", ["interpreted", "auto", "compiled"])
def test_a_store_to_what_is_no_output_is_found(engine):
    x, y = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    text = compiling.compile_text(SCALE, "-lineinfo")
    found = launch(
        text, "scale", 8, 128, [Buffer(y, name="y"), Buffer(x, name="x", readonly=True), 1000], engine=engine
    )
    assert ("undeclared-write", 4) in [(finding.kind, finding.source.line) for finding in found.findings]


@pytest.mark.parametrize("engine", ["interpreted", "compiled"])
def test_the_stores_to_a_traced_buffer(engine):
    x, y = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    args = [Buffer(y, name="y", traced=True), Buffer(x, name="x"), 1000]
    found = launch(compiling.compile_text(SCALE), "scale", 8, 128, args, engine=engine, blocks=[7, 1])
    assert found.engine == engine
    (stored,) = found.stored
    assert stored.elements.tolist() == [*range(896, 1000), *range(128, 256)]
    np.testing.assert_array_equal(stored.values, 2 * stored.elements)
    np.testing.assert_array_equal(stored.blocks, stored.elements // 128)
    assert not y.any()


READ_ONLY = """ld.param.u64 %rd0, [p]; mov.u32 %r0, %tid.x; mad.wide.u32 %rd1, %r0, 4, %rd0;
xor.b32 %r1, %r0, 1; mad.wide.u32 %rd2, %r1, 4, %rd0; ld.param.u64 %rd3, [q]; mad.wide.u32 %rd3, %r0, 4, %rd3;"""
LOAD, STORE, BARRIER = "ld.global.nc.u32 %r3, [%rd2];\n", "st.global.u32 [%rd1], %r0;\n", "bar.sync 0;\n"


@pytest.mark.parametrize(
    ("body", "line", "notes"),
    [
        (STORE + BARRIER + LOAD, LOAD, 0),
        ("red.global.add.u32 [%rd1], 1;\n" + BARRIER + LOAD, LOAD, 0),
        (STORE + LOAD.replace("%rd2", "%rd1"), LOAD, 0),  # even its own value
        (LOAD + BARRIER + STORE, STORE, 0),
        (LOAD.replace("%rd2", "%rd1") + STORE, None, 1),  # an elementwise kernel in place
        (STORE + BARRIER + LOAD.replace(".nc", ""), None, 0),
        (LOAD + STORE.replace("%rd1", "%rd3"), None, 0),
        (STORE + BARRIER + LOAD.replace("%rd2", "%rd3"), None, 0),
    ],
)
@pytest.mark.parametrize("engine", ["interpreted", "compiled", "auto"])
def test_loads_that_take_for_read_only_what_the_launch_writes(body, line, notes, engine):
    ptx = kernel(READ_ONLY + "\n" + body, ["p", "q"])
    one, two = np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    emulation = launch(ptx, "k", 1, 64, [one, two], engine=engine)
    kinds = [(finding.kind, finding.text.split(".")[0]) for finding in emulation.findings]
    assert kinds == ([("global-race", line.split(".")[0])] if line else [])
    assert all(finding.other.kind == ("write" if line is LOAD else "read") for finding in emulation.findings)
    assert len(emulation.notes) == notes


def test_one_array_passed_twice_is_no_read_only_memory():
    ptx = kernel(READ_ONLY + BARRIER + LOAD + BARRIER + STORE.replace("%rd1", "%rd3"), ["p", "q"])
    one = np.zeros(64, np.uint32)
    assert launch(ptx, "k", 1, 64, [one, np.zeros(64, np.uint32)], engine="compiled").engine == "compiled"
    emulation = launch(ptx, "k", 1, 64, [one, one], engine="compiled")
    assert [finding.kind for finding in emulation.findings] == ["global-race"]


def test_an_offset_before_a_buffer_is_that_buffers_own():
    body = "ld.param.u64 %rd0, [q]; ld.global.u32 %r0, [%rd0+-8]; ld.param.u64 %rd1, [p]; st.global.u32 [%rd1], %r0;"
    args = [Buffer(np.zeros(4, np.uint32), name="p"), Buffer(np.zeros(4, np.uint32), name="q")]
    (found,) = launch(kernel(body, ["p", "q"]), "k", 1, 1, args).findings
    assert "offset -8 of q (16 bytes)" in found.detail


def test_constant_loads_of_a_traced_launch_are_counted_in_passes():
    palette = """.const .align 4 .b8 palette[128];
.visible .entry k(.param .u64 out, .param .u32 stride) {
.reg .b32 %r<4>; .reg .f32 %f<2>; .reg .b64 %rd<5>; ld.param.u64 %rd0, [out]; ld.param.u32 %r1, [stride];
mov.u32 %r0, %tid.x; mul.lo.u32 %r2, %r0, %r1; and.b32 %r2, %r2, 124; mov.u64 %rd1, palette;
cvt.u64.u32 %rd2, %r2; add.s64 %rd3, %rd1, %rd2;
ld.const.f32 %f0, [%rd3];
mul.wide.u32 %rd4, %r0, 4; add.s64 %rd4, %rd0, %rd4; st.global.f32 [%rd4], %f0; ret; }
"""
    for stride, words in ((0, 0), (4, 32), (8, 16)):
        for engine in ("interpreted", "compiled"):
            out = np.zeros(64, np.float32)
            counts = launch(HEADER + palette, "k", 1, 64, [out, np.uint32(stride)], trace=True, engine=engine).counts
            assert (counts.memory["const.load"].requests, counts.memory["const.load"].passes) == (2, 2 * words)
