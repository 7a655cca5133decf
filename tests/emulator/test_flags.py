"""Volatile reads of flags, and of data that nothing orders."""

from functools import cache

import compiling
import numpy as np
import pytest
from small_ptx import kernel

from lab.emulator.api import launch
from lab.emulator.flags import flag_reads, guess_reads
from lab.emulator.program import Program
from lab.isa.ptx.module import read_ptx

SOURCE = """
#define K extern "C" __global__ void
typedef volatile unsigned V;
__device__ __noinline__ unsigned look(V* flag) { return *flag; }

// sound: flags, and data that something orders
K polled_with_a_body(V* flag, unsigned* data, unsigned* out) {
    if (threadIdx.x) return;
    if (blockIdx.x) { *data = 7; __threadfence(); *flag = 1; return; }
    while (*flag == 0) __nanosleep(20);
    __threadfence();
    *out = *data;
}
K polled_by_a_function(V* flag, unsigned* data, unsigned* out) {
    if (threadIdx.x) return;
    if (blockIdx.x) { *data = 7; __threadfence(); *flag = 1; return; }
    while (look(flag) == 0) {}
    __threadfence();
    *out = *data;
}
K value_and_flag_in_one_word(V* state, unsigned*, unsigned* out) {
    if (threadIdx.x >= 2) return;
    if (blockIdx.x) { state[threadIdx.x] = 0x80000000u | threadIdx.x + 5; return; }
    unsigned seen = state[threadIdx.x];
    while (!(seen >> 31)) { __nanosleep(20); seen = state[threadIdx.x]; }
    out[threadIdx.x] = seen & 0xffff;
}
K a_hint_to_stop(V* stop, unsigned* data, unsigned* out) {
    if (*stop) return;
    out[blockIdx.x * 64 + threadIdx.x] = 1;
    if (threadIdx.x == 5) *stop = 1;
}
K a_hint_in_a_loop(V* stop, unsigned* data, unsigned* out) {
    for (unsigned i = 0; i < 9; ++i) {
        if (*stop) break;
        out[blockIdx.x * 64 + threadIdx.x] = i;
        if (i == 4 && threadIdx.x == 63) *stop = 1;
    }
}
K a_flag_in_shared_memory(V*, unsigned*, unsigned* out) {
    __shared__ V flag; __shared__ unsigned word;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    if (threadIdx.x == 0) { word = 3; __threadfence_block(); flag = 1; }
    if (threadIdx.x == 32) { while (!flag) {} __threadfence_block(); out[blockIdx.x] = word; }
}
K data_with_a_barrier(V*, unsigned*, unsigned* out) {
    __shared__ V s[64];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = s[63 - threadIdx.x];
}
K data_of_a_warp(V*, unsigned*, unsigned* out) {
    __shared__ V s[64];
    unsigned t = threadIdx.x; s[t] = t; __syncwarp();
    for (int d = 16; d; d /= 2) { unsigned v = s[t & 32 | (t + d) & 31]; __syncwarp(); s[t] = s[t] + v; __syncwarp(); }
    out[blockIdx.x * 64 + t] = s[t];
}
K last_block(V* part, unsigned* count, unsigned* out) {
    if (threadIdx.x) return;
    part[blockIdx.x] = blockIdx.x + 1;
    __threadfence();
    if (atomicInc(count, 9) != gridDim.x - 1) return;
    unsigned sum = 0;
    for (int i = 0; i < gridDim.x; ++i) sum += part[i];
    *out = sum;
}

// unsound: nothing orders data
K data_without_a_barrier(V*, unsigned*, unsigned* out) {
    __shared__ V s[64];
    s[threadIdx.x] = threadIdx.x;
    out[blockIdx.x * 64 + threadIdx.x] = s[63 - threadIdx.x];
}
K overwritten_without_a_barrier(V*, unsigned*, unsigned* out) {
    __shared__ V s[64];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = s[63 - threadIdx.x];
    s[threadIdx.x] = 0;
}
K data_that_decides(V*, unsigned*, unsigned* out) {
    __shared__ V s[64];
    s[threadIdx.x] = threadIdx.x;
    if (s[63 - threadIdx.x] > 9) { out[blockIdx.x * 64 + threadIdx.x] = 1; __nanosleep(9); }
}
K data_as_an_index(V* index, unsigned* data, unsigned* out) {
    if (threadIdx.x == 0) index[blockIdx.x] = blockIdx.x;
    out[blockIdx.x * 64 + threadIdx.x] = data[index[blockIdx.x ^ 1]];
}
K last_block_without_a_fence(V* part, unsigned* count, unsigned* out) {
    if (threadIdx.x) return;
    part[blockIdx.x] = blockIdx.x + 1;
    if (atomicInc(count, 9) != gridDim.x - 1) return;
    unsigned sum = 0;
    for (int i = 0; i < gridDim.x; ++i) sum += part[i];
    *out = sum;
}
K flag_without_a_fence(V* flag, V* data, unsigned* out) {
    if (threadIdx.x) return;
    if (blockIdx.x) { *data = 7; *flag = 1; return; }
    while (*flag == 0) {}
    *out = *data;
}
K told_without_a_barrier(V*, unsigned*, unsigned* out) {
    __shared__ volatile bool first;
    if (threadIdx.x == 0) first = blockIdx.x == 0;
    if (first) { out[threadIdx.x] = 1; __nanosleep(9); }
}
K lanes_of_a_warp(V*, unsigned*, unsigned* out) {
    __shared__ V s[64];
    unsigned t = threadIdx.x; s[t] = t; __syncwarp();
    if (t < 16) { s[t] = s[t] + s[t + 8]; s[t] = s[t] + s[t + 4]; }
    out[blockIdx.x * 64 + t] = s[t];
}
"""
SOUND, UNSOUND = (
    [line.split("(")[0].removeprefix("K ") for line in part.splitlines() if line.startswith("K ")]
    for part in SOURCE.split("// unsound")
)


@cache
def module():
    return read_ptx(compiling.compile_text(SOURCE))


@pytest.mark.parametrize("schedule", [None, 1])
@pytest.mark.parametrize("name", [*SOUND, *UNSOUND])
def test_volatile_accesses_need_what_orders_them_unless_they_are_of_flags(name, schedule):
    buffers = [np.zeros(128, np.uint32) for _ in range(3)]
    emulation = launch(module(), name, 2, 64, buffers, schedule=schedule)
    races = {finding.kind for finding in emulation.findings} & {"shared-race", "global-race"}
    assert bool(races) == (name in UNSOUND)
    assert emulation.clean == (name in SOUND)


@pytest.mark.parametrize(
    ("body", "uses"),
    [
        ("A: ld.volatile.global.u32 %r0, [%rd0]; setp.eq.u32 %p0, %r0, 0; @%p0 bra A; st.global.u32 [%rd1], %r0;",
         ["polled"]),
        ("ld.volatile.global.u32 %r0, [%rd0]; st.local.u32 [%rd1], %r0;", ["polled"]),  # it cannot be told
        ("ld.volatile.global.u32 %r0, [%rd0]; setp.eq.u32 %p0, %r0, 0; @%p0 bra A; mov.u32 %r1, 0; A:", ["looked at"]),
        ("ld.volatile.global.u32 %r0, [%rd0]; setp.eq.u32 %p0, %r0, 0; @%p0 st.global.u32 [%rd1], 0;", []),
        ("ld.volatile.global.u32 %r0, [%rd0]; add.u32 %r1, %r0, 1; red.global.add.u32 [%rd1], %r1;", []),
        ("ld.volatile.global.u64 %rd2, [%rd0]; ld.global.u32 %r0, [%rd2];", []),
        ("ld.relaxed.gpu.global.u32 %r0, [%rd0]; setp.eq.u32 %p0, %r0, 0; @%p0 bra A; mov.u32 %r1, 0; A:", []),
    ],
)  # fmt: skip
def test_what_a_volatile_read_is_for(body, uses):
    program = Program(read_ptx(kernel(f"mov.u64 %rd0, 0; mov.u64 %rd1, 0;\n{body}")), "k")
    assert list(flag_reads(program).values()) == uses


SWAP = """mov.u32 %r1, %r0; add.u32 %r3, %r1, 1; atom.global.cas.b32 %r2, [%rd0], %r1, %r3; mov.u32 %r0, %r2;
setp.ne.u32 %p0, %r2, %r1; @%p0 bra A;"""


@pytest.mark.parametrize(
    ("body", "loads"),
    [
        (f"ld.global.u32 %r0, [%rd0]; A: {SWAP}", [2]),
        (f"ld.global.u32 %r4, [%rd0]; add.u32 %r5, %r4, 0; mov.u32 %r0, %r5; A: {SWAP}", [2]),
        (f"ld.volatile.global.u32 %r0, [%rd0]; A: {SWAP}", []),
        (f"ld.const.u32 %r0, [%rd0]; A: {SWAP}", []),
        # it is stored, decides something else, or is added
        (f"ld.global.u32 %r0, [%rd0]; st.global.u32 [%rd1], %r0; A: {SWAP}", []),
        (f"ld.global.u32 %r0, [%rd0]; setp.eq.u32 %p1, %r0, 0; @%p1 bra B; A: {SWAP} B:", []),
        ("ld.global.u32 %r0, [%rd0]; atom.global.add.u32 %r1, [%rd0], %r0;", []),
    ],
)
def test_guesses_of_a_swap(body, loads):
    program = Program(read_ptx(kernel(f"mov.u64 %rd0, 0; mov.u64 %rd1, 0;\n{body}")), "k")
    assert sorted(guess_reads(program)) == loads
