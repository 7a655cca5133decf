import compiling
import numpy as np
import pytest
import small_ptx

from lab.emulator.api import launch
from lab.emulator.compiled import copies
from lab.emulator.results import Emulation, Engine


def both(ptx, kernel, grid, block, arguments):
    engines: tuple[Engine, Engine] = ("interpreted", "compiled")
    emulations: list[Emulation] = []
    outs = []
    for engine in engines:
        mine = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
        emulations.append(launch(ptx, kernel, grid, block, mine, check=False, engine=engine))
        outs.append([one.tobytes() for one in mine if isinstance(one, np.ndarray)])
    assert outs[0] == outs[1]
    assert emulations[0].lines == emulations[1].lines
    return emulations[1]


@pytest.mark.parametrize("lanes", [0b11111111, 0b11100011])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_both_engines_copy_and_count_alike(size, lanes):
    """Sources and targets lie anyhow, or many at one place; some lanes take no part, and some read nothing."""
    level = "cg" if size == 16 else "ca"
    body = f"""
        mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [at]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2;
        ld.global.u32 %r2, [%rd2]; and.b32 %r3, %r2, 1023; mul.lo.s32 %r3, %r3, {size}; ld.param.u64 %rd3, [data];
        cvt.u64.u32 %rd4, %r3; add.s64 %rd4, %rd3, %rd4; mov.u32 %r5, s; and.b32 %r6, %r1, {lanes};
        mul.lo.s32 %r6, %r6, {size};
        add.s32 %r5, %r5, %r6; shr.u32 %r7, %r2, 10; and.b32 %r8, %r7, 1; mul.lo.s32 %r8, %r8, {size};
        setp.gt.u32 %p1, %r7, 1;
        cp.async.{level}.shared.global [%r5], [%rd4], {size}; @%p1 cp.async.{level}.shared.global [%r5], [%rd4], {size};
        cp.async.{level}.shared.global [%r5], [%rd4], {size}, %r8; cp.async.commit_group; cp.async.wait_group 0;
        ld.shared.u32 %r9, [%r5]; st.global.u32 [%rd2], %r9;"""
    ptx = small_ptx.kernel(body, ["at", "data"], ".shared .align 16 .b8 s[4096];")
    rng = np.random.default_rng(2)
    at = rng.integers(0, 4096, 256).astype(np.uint32)
    at[:64] = np.arange(64) * 3 + 1024
    data = rng.integers(0, 256, 1024 * size).astype(np.uint8)
    emulation = both(ptx, "k", 1, 256, [at, data])
    assert emulation.engine == "compiled", emulation.not_compiled
    assert {"shared.copy", "global.copy"} <= {key for line in emulation.lines for key in line.memory}


def test_a_part_of_a_copy_is_left_to_the_interpreter():
    body = """ld.param.u64 %rd1, [data]; mov.u32 %r5, s; mov.u32 %r6, 5;
        cp.async.cg.shared.global [%r5], [%rd1], 16, %r6; cp.async.wait_all;"""
    ptx = small_ptx.kernel(body, ["data"], ".shared .align 16 .b8 s[64];")
    assert both(ptx, "k", 1, 1, [np.zeros(16, np.uint8)]).engine == "interpreted"


def test_a_product_with_copies():
    rng = np.random.default_rng(0)
    m, n, k = 40, 36, 24
    arguments = [m, n, k, rng.standard_normal(m * k, np.float32), rng.standard_normal(k * n, np.float32)]
    ptx = compiling.ptx("gemm_async")
    name = ptx.split(".entry ")[1].split("(")[0].strip()
    emulation = both(ptx, name, (2, 2), 256, [*arguments, np.zeros(m * n, np.float32)])
    assert emulation.engine == "compiled", emulation.not_compiled


def test_a_new_pattern_keeps_what_the_old_one_cost():
    record = np.zeros(copies.BYTES, np.uint8)
    narrow, wide = record.view(np.int32), record.view(np.int64)
    narrow[:32] = narrow[32:64] = 4 * np.arange(32)
    narrow[64:66] = -1
    copies.new_pattern(record, 4)
    wide[34] = 3  # hits
    first = copies.traffic(record, 4)
    assert (first[0].requests, first[0].bytes_used, first[1].sectors) == (3, 384, 12)
    narrow[32:64] = 128 * np.arange(32)
    copies.new_pattern(record, 4)
    wide[34] = 1
    shared, fetched = copies.traffic(record, 4)
    assert (shared.requests, fetched.sectors) == (4, 12 + 32)
