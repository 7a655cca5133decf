"""The blocks that a block waits for."""

from functools import cache

import compiling
import numpy as np
import pytest
from small_ptx import kernel

from lab.emulator.api import launch
from lab.emulator.program import program_of
from lab.emulator.residency import may_wait
from lab.emulator.results import BlockWait

SOURCE = r"""
extern "C" __global__ void grid_barrier(unsigned* count, float* out, const float* x) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = x[i];
  __threadfence(); __syncthreads();
  if (threadIdx.x == 0) { atomicAdd(count, 1); while (atomicAdd(count, 0) < gridDim.x) ; }
  __syncthreads();
}
extern "C" __global__ void volatile_barrier(unsigned* count, float* out, const float* x) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = x[i];
  __shared__ bool done;
  __threadfence(); __syncthreads();
  if (threadIdx.x == 0) atomicAdd(count, 1);
  do {
    if (threadIdx.x == 0) done = *(volatile unsigned*)count >= gridDim.x;
    __syncthreads();
  } while (!*(volatile bool*)&done);
}
extern "C" __global__ void with_sleep(unsigned* count, float* out, const float* x) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = x[i];
  __threadfence(); __syncthreads();
  unsigned pause = 8;
  if (threadIdx.x == 0) {
    atomicAdd(count, 1);
    while (*(volatile unsigned*)count < gridDim.x) { __nanosleep(pause); pause = pause * 3 + 1; }
  }
  __syncthreads();
}
extern "C" __global__ void wait_for_next(unsigned* flags, float* out, const float* x) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = x[i];
  __syncthreads();
  if (threadIdx.x == 0) {
    if (blockIdx.x + 1 < gridDim.x) while (atomicAdd(&flags[blockIdx.x + 1], 0) == 0) ;
    __threadfence();
    atomicExch(&flags[blockIdx.x], 1u);
  }
}
extern "C" __global__ void look_back(unsigned* flags, float* out, const float* x) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = x[i];
  __syncthreads();
  if (threadIdx.x == 0) {
    if (blockIdx.x > 0) while (((volatile unsigned*)flags)[blockIdx.x - 1] == 0) ;
    __threadfence();
    ((volatile unsigned*)flags)[blockIdx.x] = 1;
  }
}
extern "C" __global__ void look_back_by_ticket(unsigned* flags, float* out, const float* x) {
  __shared__ unsigned ticket;
  if (threadIdx.x == 0) ticket = atomicAdd(&flags[100], 1);
  __syncthreads();
  int i = ticket * blockDim.x + threadIdx.x;
  out[i] = x[i];
  if (threadIdx.x == 0) {
    if (ticket > 0) while (((volatile unsigned*)flags)[ticket - 1] == 0) ;
    __threadfence();
    ((volatile unsigned*)flags)[ticket] = 1;
  }
}
extern "C" __global__ void lock(unsigned* held, float* out, const float* x) {
  if (threadIdx.x == 0) {
    while (atomicCAS(held, 0u, 1u) != 0u) ;
    __threadfence();
    *(volatile float*)out = *(volatile float*)out + x[blockIdx.x];
    __threadfence();
    atomicExch(held, 0u);
  }
}
extern "C" __global__ void last_block(unsigned* count, float* out, const float* x) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    ((volatile float*)out)[1 + blockIdx.x] = x[blockIdx.x];
    __threadfence();
    last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float sum = 0;
    for (int i = 0; i < gridDim.x && sum < 1e30f; ++i) sum += ((volatile float*)out)[1 + i];
    out[0] = sum;
  }
}
extern "C" __global__ void compare_and_swap(unsigned* bits, float* out, const float* x) {
  unsigned old = *bits, assumed;
  do {
    assumed = old;
    old = atomicCAS(bits, assumed, __float_as_uint(__uint_as_float(assumed) + x[threadIdx.x]));
  } while (assumed != old);
}
extern "C" __global__ void queue(unsigned* next, float* out, const float* x) {
  __shared__ unsigned tile;
  while (true) {
    if (threadIdx.x == 0) tile = atomicAdd(next, 1);
    __syncthreads();
    unsigned mine = tile;
    __syncthreads();
    if (mine >= 2 * gridDim.x) break;
    out[mine * blockDim.x / 2 + threadIdx.x / 2] = x[threadIdx.x];
  }
}
extern "C" __global__ void warps_of_a_block(unsigned* flags, float* out, const float* x) {
  if (threadIdx.x == 0) {
    while (((volatile unsigned*)flags)[blockIdx.x] == 0) ;
  } else if (threadIdx.x == 32) {
    __threadfence();
    ((volatile unsigned*)flags)[blockIdx.x] = 1;
  }
}
extern "C" __global__ void plain(unsigned* flags, float* out, const float* x) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = x[i];
  for (int k = 0; k < 5; ++k) atomicAdd(&flags[(i + k) % 64], 1u);
}
"""

WAITS = {
    "grid_barrier": BlockWait.ANY,
    "volatile_barrier": BlockWait.ANY,
    "with_sleep": BlockWait.ANY,
    "wait_for_next": BlockWait.ANY,
    "look_back": BlockWait.EARLIER,
    "look_back_by_ticket": BlockWait.NONE,
    "lock": BlockWait.NONE,
    "last_block": BlockWait.NONE,
    "compare_and_swap": BlockWait.NONE,
    "queue": BlockWait.NONE,
    "warps_of_a_block": BlockWait.NONE,
    "plain": BlockWait.NONE,
}


@cache
def ptx():
    return compiling.compile_text(SOURCE)


def run(name, blocks=12, **options):
    out, x = np.zeros(blocks * 64 + 64, np.float32), np.ones(blocks * 64 + 64, np.float32)
    return launch(ptx(), name, blocks, 64, [np.zeros(128, np.uint32), out, x], **options)


@pytest.mark.parametrize(("name", "wanted"), WAITS.items())
def test_which_blocks_wait_for_which(name, wanted):
    emulation = run(name)
    assert emulation.waits_for_blocks is wanted
    assert not {finding.kind for finding in emulation.findings} & {"deadlock", "endless-loop"}


@pytest.mark.parametrize("engine", ["auto", "compiled"])
def test_every_engine_tells(engine):
    assert run("grid_barrier", engine=engine).waits_for_blocks is BlockWait.ANY
    assert run("look_back", engine=engine).waits_for_blocks is BlockWait.EARLIER
    assert run("plain", engine=engine).waits_for_blocks is BlockWait.NONE


def test_one_block_waits_for_nobody():
    assert run("grid_barrier", blocks=1).waits_for_blocks is BlockWait.NONE


def test_a_launch_with_a_seed_does_not_look():
    assert run("grid_barrier", schedule=1).waits_for_blocks is None


def test_looking_changes_no_buffer():
    count, out = np.zeros(128, np.uint32), np.zeros(64 * 3, np.float32)
    launch(ptx(), "grid_barrier", 3, 64, [count, out, np.ones(64 * 3, np.float32)])
    assert count[0] == 3


def test_grid_synchronisation_of_cooperative_groups_needs_all_blocks():
    text = """#include <cooperative_groups.h>
    extern "C" __global__ void k(float* out) {
      out[blockIdx.x] = 1; cooperative_groups::this_grid().sync(); out[blockIdx.x] += out[gridDim.x - 1 - blockIdx.x];
    }"""
    emulation = launch(compiling.compile_text(text), "k", 5, 32, [np.zeros(5, np.float32)], check=False)
    assert emulation.waits_for_blocks is BlockWait.ANY


def test_blocks_of_one_cluster_are_resident_together():
    body = """ld.param.u64 %rd0, [p]; mov.u32 %r0, %ctaid.x; and.b32 %r1, %r0, 1; mad.wide.u32 %rd1, %r0, 4, %rd0;
    setp.eq.u32 %p0, %r1, 1; @%p0 bra SET; L: ld.volatile.global.u32 %r2, [%rd1+4]; setp.eq.u32 %p1, %r2, 0;
    @%p1 bra L; bra DONE; SET: st.volatile.global.u32 [%rd1], 1; DONE:"""
    for cluster, wanted in ((None, BlockWait.ANY), ((2, 1, 1), BlockWait.NONE)):
        emulation = launch(kernel(body, ["p"]), "k", 8, 1, [np.zeros(9, np.uint32)], cluster=cluster)
        assert emulation.waits_for_blocks is wanted


def test_only_loops_that_branch_on_strong_reads_are_tried():
    tried = {name for name in WAITS if may_wait(program_of(ptx(), name))}
    assert tried >= {name for name, wanted in WAITS.items() if wanted is not BlockWait.NONE}
    assert "plain" not in tried


@pytest.mark.parametrize(
    ("body", "waits"),
    [
        # what it polls goes through a register, or through memory, to the branch
        ("L: ld.volatile.global.u32 %r1, [%rd0]; add.u32 %r2, %r1, 1; setp.eq.u32 %p0, %r2, 1; @%p0 bra L;", True),
        ("L: ld.volatile.global.u32 %r1, [%rd0]; st.local.u32 [l], %r1; ld.local.u32 %r2, [l]; AGAIN", True),
        ("L: ld.volatile.global.u32 %r1, [%rd0]; ld.local.u32 %r2, [l]; AGAIN", False),
        ("L: ld.volatile.global.u32 %r1, [%rd0]; setp.eq.u32 %p0, %r3, 1; @%p0 bra L;", False),
        ("L: ld.global.u32 %r1, [%rd0]; setp.eq.u32 %p0, %r1, 1; @%p0 bra L;", False),
        ("L: ld.volatile.shared.u32 %r1, [s]; setp.eq.u32 %p0, %r1, 1; @%p0 bra L;", False),
        ("ld.volatile.global.u32 %r1, [%rd0]; setp.eq.u32 %p0, %r1, 1; @%p0 bra L; L:", False),
    ],
)
def test_loops_that_may_wait(body, waits):
    declarations = ".local .b32 l; .shared .b32 s;"
    body = body.replace("AGAIN", "setp.eq.u32 %p0, %r2, 1; @%p0 bra L;")
    ptx = kernel("mov.u64 %rd0, 0; mov.u32 %r3, 0;\n" + body, declarations=declarations)
    assert may_wait(program_of(ptx, "k")) is waits
