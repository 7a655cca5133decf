"""Barriers of a whole block that some of its warps skip."""

from functools import cache

import compiling
import numpy as np
import pytest
from small_ptx import kernel

from lab.emulator.api import launch
from lab.emulator.program import Program
from lab.emulator.waiting.skipped import behind_barriers
from lab.isa.ptx.module import read_ptx

SOURCE = """
#define K(NAME) extern "C" __global__ void NAME(int* o, int n)
#define T threadIdx.x
// unsound
K(one_warp) { if (T < 32) __syncthreads(); o[T] = 1; }
K(one_warp_at_last) { o[64] = 1; if (T < 32) { __syncthreads(); o[T] = 2; } o[80] = 1; }
K(half_a_warp) { if (T % 32 < 16) __syncthreads(); o[T] = 1; }
K(fewer_rounds) { for (int i = 0; i < (T < 32 ? 2 : 1); ++i) { o[T] = i; __syncthreads(); } }
K(rounds_by_elements) { for (int i = T; i < n; i += 64) { o[i] = i; __syncthreads(); } }
K(two_barriers) { if (T < 32) __syncthreads(); else { o[70] = n; __syncthreads(); } o[T] = 1; }
K(not_aligned) { if (T < 32) asm volatile("barrier.sync 0;" ::: "memory"); o[T] = 1; }
K(counted) { if (T < 32) o[T] = __syncthreads_count(n); o[T + 64] = 1; }
K(in_one_branch) { __shared__ int s; if (T == 40) s = n; if (T < 32) { __syncthreads(); o[T] = s; } o[99] = 1; }
K(of_the_sum) { if (T >= 32) { o[T] = 3; } else { o[T] = 4; __syncthreads(); } atomicAdd(o + 99, 1); }
// sound
K(early_return) { if (T >= 32) return; o[T] = 1; __syncthreads(); o[64 + T] = o[31 - T]; }
K(a_result_before_it_returns) { if (T >= 32) { o[T] = 1; return; } o[T] = 1; __syncthreads(); o[64 + T] = o[31 - T]; }
K(same_rounds) { for (int i = 0; i < n / 64; ++i) { if (T < 32) o[T] = i; __syncthreads(); } }
K(by_block) { if (blockIdx.x == 0) { o[T] = 1; __syncthreads(); } o[64 + T] = 1; }
K(by_parameter) { if (n > 64) __syncthreads(); o[T] = 1; }
K(a_barrier_of_its_own) { if (T < 32) asm volatile("bar.sync 1, 32;" ::: "memory"); o[T] = 1; }
K(in_each_branch) { if (n > 64) { o[T] = 1; __syncthreads(); } else { o[T] = 2; __syncthreads(); } }
K(sums) { for (int d = 32; d; d /= 2) { if (T < d) o[T] += o[T + d]; __syncthreads(); } }
"""
UNSOUND, SOUND = (
    [line[2 : line.index(")")] for line in part.splitlines() if line.startswith("K(")]
    for part in SOURCE.split("// sound")
)


@cache
def module():
    return read_ptx(compiling.compile_text(SOURCE))


@pytest.mark.parametrize("schedule", [None, 1])
@pytest.mark.parametrize("name", [*UNSOUND, *SOUND])
def test_barriers_that_not_all_warps_reach(name, schedule):
    emulation = launch(module(), name, 1, 64, [np.zeros(192, np.int32), np.int32(128)], schedule=schedule)
    if name == "rounds_by_elements":
        emulation = launch(module(), name, 1, 64, [np.zeros(192, np.int32), np.int32(96)], schedule=schedule)
    kinds = {finding.kind for finding in emulation.findings}
    assert ("barrier-divergence" in kinds) == (name in UNSOUND)
    assert emulation.clean == (name in SOUND), emulation.findings


@pytest.mark.parametrize("name", ["early_return", "one_warp"])
def test_the_compiled_engine_hands_over(name):
    emulation = launch(module(), name, 2, 64, [np.zeros(192, np.int32), np.int32(0)], engine="compiled")
    assert emulation.engine == "interpreted"


def test_code_behind_a_barrier_that_can_be_reached_without_it():
    body = """setp.eq.u32 %p0, %r63, 0; @%p0 bra B; bar.sync 0; bar.sync 0; @%p0 bra C; st.shared.u32 [%r0], 1;
        B: mov.u32 %r1, 0; C: st.shared.u32 [%r0], 2;"""
    program = Program(read_ptx(kernel(body)), "k")
    barriers = [at for at, (_, one) in enumerate(program.code) if one.opcode == "bar.sync"]
    found = behind_barriers(program, barriers)
    stores = {at for at, (_, one) in enumerate(program.code) if one.operands and one.operands[-1] == "2"}
    assert set(found) == set(barriers)
    for blocks in found.values():
        assert {program.blocks[index].first for index in blocks} == stores
