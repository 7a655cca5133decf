"""Divergence and reconvergence of warps in compiled code: same visits and outputs as in the interpreter."""

import numpy as np
import pytest
import small_ptx

from lab.emulator.api import launch
from lab.emulator.compiled.decoding import Decoder
from lab.emulator.compiled.ir import LANES
from lab.emulator.compiled.layout import REGISTERS
from lab.emulator.compiled.warp_code import WarpCode, local_stride
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.program import Program
from lab.emulator.results import Engine
from lab.isa.ptx.module import read_ptx

STORE = "ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r9;"
NESTED = """mov.u32 %r1, %tid.x; mov.u32 %r9, 0; and.b32 %r2, %r1, 7;
    $A: setp.eq.s32 %p1, %r2, 0; @%p1 bra $D; and.b32 %r3, %r1, 3;
    $B: setp.eq.s32 %p2, %r3, 0; @%p2 bra $C; add.s32 %r9, %r9, %r3; add.s32 %r3, %r3, -1; bra $B;
    $C: add.s32 %r9, %r9, 1; add.s32 %r2, %r2, -1; bra $A;
    $D: add.s32 %r9, %r9, 1000;"""
EARLY = """mov.u32 %r1, %tid.x; mov.u32 %r9, 7; setp.gt.u32 %p1, %r1, 40; @%p1 exit; setp.lt.u32 %p2, %r1, 9;
    @!%p2 bra $X; mov.u32 %r9, 8; $X: @%p2 add.s32 %r9, %r9, 3;"""
GATHERED = """mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1; setp.eq.s32 %p1, %r2, 0; mov.u32 %r9, %r1; @%p1 bra $E;
    shfl.sync.bfly.b32 %r9, %r1, 2, 31, 0xAAAAAAAA; bra $F; $E: shfl.sync.bfly.b32 %r9, %r1, 4, 31, 0x55555555;
    $F: shfl.sync.idx.b32 %r9, %r9, 5, 31, -1; vote.sync.ballot.b32 %r3, %p1, -1; add.s32 %r9, %r9, %r3;"""
REUSED = """mov.u32 %r1, %tid.x; mov.u32 %r9, %r1; and.b32 %r2, %r1, 1; setp.eq.s32 %p1, %r2, 0; @%p1 bra $E;
    mov.u32 %r5, 100; add.s32 %r9, %r9, %r5; bra $F; $E: add.s32 %r9, %r9, %r5; $F: add.s32 %r9, %r9, %r5;"""


def both(body, block=64, declarations=""):
    ptx = small_ptx.kernel(body + STORE, ["out"], declarations)
    outs = [np.zeros(block, np.uint32) for _ in range(2)]
    engines: tuple[Engine, Engine] = ("interpreted", "compiled")
    emulations = [
        launch(ptx, "k", 1, block, [out], check=False, engine=engine) for out, engine in zip(outs, engines, strict=True)
    ]
    np.testing.assert_array_equal(outs[0], outs[1])
    assert emulations[0].lines == emulations[1].lines
    assert emulations[0].loops == emulations[1].loops
    return emulations[1]


@pytest.mark.parametrize("body", [NESTED, EARLY, GATHERED, REUSED], ids=["nested", "early", "gathered", "reused"])
def test_parted_lanes_meet_where_they_meet_in_the_interpreter(body):
    emulation = both(body)
    assert emulation.engine == "compiled", emulation.not_compiled


def test_part_of_a_warp():
    assert both(NESTED, block=45).engine == "compiled"


def test_lanes_that_never_come_are_told_by_the_interpreter():
    body = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 8; @%p1 bra $E; bar.sync 0; bra $F; $E: "
    emulation = both(body + "shfl.sync.bfly.b32 %r9, %r1, 16, 31, -1; $F:")
    assert emulation.engine == "interpreted"
    assert "wait forever" in emulation.not_compiled
    assert "warp-divergence" in {finding.kind for finding in emulation.findings}


def test_a_shuffle_from_an_absent_lane_is_left_to_the_interpreter():
    body = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 8; @!%p1 bra $E; shfl.sync.idx.b32 %r9, %r1, 20, 31, 255; $E:"
    assert both(body, block=32).not_compiled == "a faulting access or instruction"


def test_registers_lie_behind_the_lanes_places():
    program = Program(read_ptx(small_ptx.kernel(NESTED + STORE, ["out"])), "k")
    code = WarpCode(Decoder(program, {}), count=True)
    assert code.state_bytes >= REGISTERS + 4 * LANES
    assert code.counters == 2 * len(program.blocks) + len(code.guarded)
    assert code.zeroed == []
    assert local_stride(program) == 16


@pytest.mark.parametrize("instruction", ["selp.b32 %r9, 1, 2, %r1;", "add.u32 %r9, %p1, 1;", "and.pred %p1, %p1, %r1;"])
def test_predicates_and_numbers_are_told_apart(instruction):
    ptx = small_ptx.kernel("mov.u32 %r1, 1; setp.eq.u32 %p1, %r1, 1; " + instruction, ["out"])
    for engine in ("interpreted", "compiled"):
        with pytest.raises(UnsupportedInstruction):
            launch(ptx, "k", 1, 32, [np.zeros(1, np.uint32)], engine=engine)


MIXED = """mov.u32 %r1, %tid.x; cvt.rn.f32.u32 %f1, %r1; sqrt.rn.f32 %f2, %f1; mov.b32 %r2, %f2; cvt.u64.u32 %rd3, %r2;
    shl.b64 %rd3, %rd3, 3; cvt.u32.u64 %r3, %rd3; xor.b32 %r9, %r3, 0x55; mov.b64 {%r4, %r5}, %rd3;
    add.u32 %r9, %r9, %r5; mov.b64 %fd1, %rd3; mov.b64 %rd4, %fd1; cvt.u16.u32 %h1, %r1; cvt.s32.s16 %r6, %h1;
    mad.lo.u32 %r9, %r6, 3, %r9; mov.u32 %r7, %ntid.x; mov.u32 %r8, %laneid; mad.lo.u32 %r9, %r7, %r8, %r9;"""


@pytest.mark.parametrize("block", [32, 45, 64])
def test_registers_of_all_types_are_read_as_others(block):
    assert both(MIXED, block).engine == "compiled"
