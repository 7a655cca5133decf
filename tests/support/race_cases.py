"""Kernels that synchronise in the ways that CUDA knows, and mutants of them that lack one part of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

RACE = frozenset({"shared-race", "global-race"})
HEAD = 'extern "C" __global__ void '
COOPERATIVE = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"


@dataclass(frozen=True)
class Case:
    """A clean kernel, its launch, and what breaks it.

    Attributes:
        name: What it shows.
        source: CUDA of a kernel `k`.
        grid: Blocks.
        block: Threads of a block.
        arguments: Makes fresh arguments.
        mutants: What is replaced, and by what: each makes a race.
        check: Whether the arguments hold the right result afterwards.
        clean: Other changes, which leave the kernel without a race.
    """

    name: str
    source: str
    grid: int
    block: int
    arguments: Callable[[], list[Any]]
    mutants: Sequence[tuple[str, str]]
    check: Callable[[list[Any]], bool] = lambda _arguments: True
    clean: Sequence[tuple[str, str]] = field(default=())


def words(*counts: int) -> Callable[[], list[Any]]:
    """Make zeroed buffers of so many 32-bit words."""
    return lambda: [np.zeros(count, np.uint32) for count in counts]


SPIN_LOCK = Case(
    "spin lock",
    HEAD
    + """k(unsigned* lock, unsigned* sum) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0u, 1u) == 0u) {
            *sum += 1;
            __threadfence();
            atomicExch(lock, 0u);
            done = true;
        }
    }
}""",
    4,
    8,
    words(1, 1),
    [
        ("__threadfence();", ""),
        ("__threadfence();", "__threadfence_block();"),
        ("atomicExch(lock, 0u);", "*lock = 0u;"),
        ("atomicCAS(lock, 0u, 1u) == 0u", "*(volatile unsigned*)lock == 0u"),
    ],
    lambda arguments: arguments[1][0] == 32,
)
HANDSHAKE = Case(
    "flag from a later block",
    HEAD
    + """k(unsigned* flag, unsigned* data, unsigned* out) {
    if (blockIdx.x == gridDim.x - 1) {
        data[threadIdx.x] = threadIdx.x + 1;
        __syncthreads();
        if (threadIdx.x == 0) { __threadfence(); *(volatile unsigned*)flag = 1; }
    } else {
        if (threadIdx.x == 0) { while (*(volatile unsigned*)flag == 0) {} __threadfence(); }
        __syncthreads();
        out[blockIdx.x * blockDim.x + threadIdx.x] = data[threadIdx.x];
    }
}""",
    5,
    64,
    words(1, 64, 4 * 64),
    [
        ("__threadfence(); *(v", "*(v"),
        ("{} __threadfence(); }", "{} }"),
        ("        __syncthreads();\n        if", "        if"),
        ("        __syncthreads();\n        out", "        out"),
        ("== 0) {} __threadfence(); }", "== 0) {} __threadfence_block(); }"),
        ("__threadfence(); *(v", "__threadfence_block(); *(v"),
    ],
    lambda arguments: (arguments[2].reshape(4, 64) == np.arange(1, 65)).all(),
)
ACQUIRE = Case(
    "release and acquire",
    HEAD
    + """k(unsigned* flag, unsigned* data, unsigned* out) {
    if (blockIdx.x == 1 && threadIdx.x == 0) {
        *data = 42;
        asm volatile("st.release.gpu.global.u32 [%0], 1;" :: "l"(flag) : "memory");
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        unsigned seen;
        do { asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory"); } while (!seen);
        *out = *data;
    }
}""",
    2,
    32,
    words(1, 1, 1),
    [
        ("st.release.gpu", "st.relaxed.gpu"),
        ("ld.acquire.gpu", "ld.relaxed.gpu"),
        ("st.release.gpu", "st.release.cta"),
        ("ld.acquire.gpu", "ld.acquire.cta"),
        ("st.release.gpu.global", "st.global"),
    ],
    lambda arguments: arguments[2][0] == 42,
)
LAST_BLOCK = Case(
    "last block reduces",
    HEAD
    + """k(const unsigned* in, unsigned* parts, unsigned* count, unsigned* out) {
    __shared__ unsigned s[64]; __shared__ bool last;
    s[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();  // filled
    for (int d = 32; d > 0; d /= 2) { if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d]; __syncthreads(); }
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = s[0];
        __threadfence();
        last = atomicAdd(count, 1u) == gridDim.x - 1;
    }
    __syncthreads();  // told
    if (last && threadIdx.x == 0) { unsigned t = 0; for (int i = 0; i < gridDim.x; ++i) t += parts[i]; *out = t; }
}""",
    6,
    64,
    lambda: [np.arange(6 * 64, dtype=np.uint32), *words(6, 1, 1)()],
    [
        ("__threadfence();", ""),
        ("__syncthreads();  // filled", ""),
        ("__syncthreads();  // told", ""),
        ("+= s[threadIdx.x + d]; __syncthreads(); }", "+= s[threadIdx.x + d]; }"),
        ("atomicAdd(count, 1u)", "(*count)++"),
        ("last && threadIdx", "threadIdx"),
    ],
    lambda arguments: arguments[3][0] == np.arange(6 * 64).sum(),
    [("+= s[threadIdx.x + d]; __syncthreads(); }", "+= s[threadIdx.x + d]; __syncwarp(); }")],  # one warp is left
)
LOOK_BACK = Case(
    "decoupled look-back",
    HEAD
    + """k(const unsigned* in, unsigned* tickets, volatile unsigned* state, unsigned* sums, unsigned* out) {
    __shared__ unsigned tile, before;
    if (threadIdx.x == 0) tile = gridDim.x - 1 - atomicAdd(tickets, 1u);
    __syncthreads();
    unsigned mine = gridDim.x - 1 - tile, value = in[mine * 32 + threadIdx.x];
    for (int d = 1; d < 32; d *= 2) { unsigned v = __shfl_up_sync(~0u, value, d); if (threadIdx.x >= d) value += v; }
    if (threadIdx.x == 31) {
        unsigned sum = 0;
        if (mine > 0) { while (state[mine - 1] == 0) {} __threadfence(); sum = sums[mine - 1]; }
        sums[mine] = sum + value;
        __threadfence();
        state[mine] = 1;
        before = sum;
    }
    __syncthreads();  // told
    out[mine * 32 + threadIdx.x] = before + value;
}""",
    7,
    32,
    lambda: [np.arange(7 * 32, dtype=np.uint32), *words(1, 7, 7, 7 * 32)()],
    [
        ("        __threadfence();\n", ""),
        ("{} __threadfence();", "{}"),
        ("__syncthreads();  // told", ""),
        ("while (state[mine - 1] == 0) {}", ""),
        ("atomicAdd(tickets, 1u)", "(*tickets)++"),
    ],
    lambda arguments: (arguments[4] == np.arange(7 * 32).cumsum()).all(),
)
HISTOGRAM = Case(
    "histogram",
    HEAD
    + """k(const unsigned* in, unsigned* out) {
    __shared__ unsigned s[32];
    if (threadIdx.x < 32) s[threadIdx.x] = 0;
    __syncthreads();  // cleared
    atomicAdd(&s[in[blockIdx.x * blockDim.x + threadIdx.x] % 32], 1u);
    __syncthreads();  // counted
    if (threadIdx.x < 32) atomicAdd(&out[threadIdx.x], s[threadIdx.x]);
}""",
    4,
    96,
    lambda: [np.arange(4 * 96, dtype=np.uint32), np.zeros(32, np.uint32)],
    [
        ("__syncthreads();  // cleared", ""),
        ("__syncthreads();  // counted", ""),
        ("atomicAdd(&s[in[blockIdx.x * blockDim.x + threadIdx.x] % 32], 1u)", "s[in[threadIdx.x] % 32] += 1u"),
        ("atomicAdd(&out[threadIdx.x], s[threadIdx.x])", "out[threadIdx.x] += s[threadIdx.x]"),
        ("if (threadIdx.x < 32) atomicAdd", "if (threadIdx.x < 32 && out[threadIdx.x] < 99) atomicAdd"),
        ("atomicAdd(&out[", "atomicAdd_block(&out["),
    ],
    lambda arguments: (arguments[1] == 12).all(),
    [("atomicAdd(&s[", "atomicAdd_block(&s[")],
)
WARPS = Case(
    "warps exchange through shared memory",
    HEAD
    + """k(const unsigned* in, unsigned* out) {
    __shared__ unsigned s[128];
    unsigned* mine = s + threadIdx.x / 32 * 32;
    unsigned lane = threadIdx.x % 32, at = blockIdx.x * blockDim.x + threadIdx.x;
    mine[lane] = in[at];
    __syncwarp();  // filled
    unsigned v = mine[31 - lane];
    __syncwarp();  // read
    mine[lane] = v + 1;
    __syncwarp();  // filled again
    out[at] = mine[lane ^ 1];
}""",
    2,
    128,
    lambda: [np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32)],
    [
        ("__syncwarp();  // filled\n", ""),
        ("__syncwarp();  // read", ""),
        ("__syncwarp();  // filled again", ""),
        ("__syncwarp();  // filled\n", "__syncwarp(lane < 16 ? 0xffffu : 0xffff0000u);"),
        ("__syncwarp();  // filled\n", "__shfl_sync(~0u, lane, 0);"),
        ("s + threadIdx.x / 32 * 32", "s"),
    ],
    lambda arguments: (arguments[1] == np.arange(256) // 32 * 32 + 31 - (np.arange(256) % 32 ^ 1) + 1).all(),
    [
        ("__syncwarp();  // read", "__syncthreads();"),
        ("__syncwarp();  // filled again", "__syncwarp(3u << (lane & 30));"),
    ],
)
NAMED = Case(
    "named barriers",
    HEAD
    + """k(unsigned* out) {
    __shared__ unsigned s[64];
    out += 96 * blockIdx.x;
    if (threadIdx.x < 64) {
        s[threadIdx.x] = threadIdx.x;
        asm volatile("bar.sync 1, 64;" ::: "memory");
        out[threadIdx.x] = s[63 - threadIdx.x];
        asm volatile("bar.arrive 2, 96;" ::: "memory");
        // arrived
    } else {
        asm volatile("bar.sync 2, 96;" ::: "memory");
        out[threadIdx.x] = s[threadIdx.x - 64];
    }
}""",
    2,
    96,
    words(192),
    [
        ("bar.sync 1, 64;", "bar.warp.sync -1;"),
        ("// arrived", "s[threadIdx.x] = 7;"),
        ("bar.sync 2, 96;", "bar.sync 3, 32;"),
    ],
    lambda arguments: (arguments[0].reshape(2, 96) == [*range(63, -1, -1), *range(32)]).all(),
)
GRID_SYNC = Case(
    "the whole grid meets",
    HEAD
    + """k(unsigned* a, unsigned* b, unsigned* state) {
    auto count = state; auto phase = state + 1;
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    a[i] = i;
    __syncthreads();  // before
    if (threadIdx.x == 0) {
        __threadfence();
        if (atomicAdd(count, 1u) == gridDim.x - 1) { __threadfence(); *(volatile unsigned*)phase = 1; }
        else while (*(volatile unsigned*)phase == 0) {}
        __threadfence();  // after
    }
    __syncthreads();  // behind
    b[i] = a[n - 1 - i];
}""",
    6,
    64,
    words(384, 384, 2),
    [
        ("__syncthreads();  // before", ""),
        ("        __threadfence();\n        if", "        if"),
        ("__threadfence();  // after", ""),
        ("__syncthreads();  // behind", ""),
        ("else while (*(volatile unsigned*)phase == 0) {}", ""),
    ],
    lambda arguments: (arguments[1] == np.arange(384)[::-1]).all(),
)
TILES = Case(
    "tiles of a cooperative group",
    COOPERATIVE
    + HEAD
    + """k(const unsigned* in, unsigned* out) {
    __shared__ unsigned s[64];
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    s[threadIdx.x] = in[threadIdx.x];
    tile.sync();  // filled
    unsigned sum = 0;
    for (int i = 0; i < 8; ++i) sum += s[tile.meta_group_rank() * 8 + i];
    block.sync();  // read
    s[threadIdx.x] = sum;
    block.sync();  // filled again
    out[blockIdx.x * 64 + threadIdx.x] = s[63 - threadIdx.x];
}""",
    2,
    64,
    lambda: [np.ones(64, np.uint32), np.zeros(128, np.uint32)],
    [
        ("tile.sync();", ""),
        ("block.sync();  // read", ""),
        ("block.sync();  // filled again", ""),
        ("block.sync();  // filled again", "tile.sync();"),
        ("* 8 + i", "* 4 + i"),
    ],
    lambda arguments: (arguments[1] == 8).all(),
    [("block.sync();  // read", "tile.sync();")],
)
BYTES = Case(
    "neighbouring bytes",
    HEAD
    + """k(unsigned char* out, unsigned short* s16) {
    __shared__ unsigned char s[64];
    s[threadIdx.x] = threadIdx.x;
    out[blockIdx.x * 64 + threadIdx.x] = s[threadIdx.x];
    s16[blockIdx.x * 64 + threadIdx.x] = threadIdx.x;
}""",
    2,
    64,
    lambda: [np.zeros(128, np.uint8), np.zeros(128, np.uint16)],
    [
        ("out[blockIdx.x * 64 + threadIdx.x]", "out[threadIdx.x / 2]"),
        ("s16[blockIdx.x * 64 +", "s16[63 * blockIdx.x +"),
    ],
)
ONE_VALUE = Case(
    "all write one value",
    HEAD
    + """k(unsigned* found, unsigned* out) {
    if (threadIdx.x % 3 == 0) *found = 1;
}""",
    3,
    64,
    words(1, 1),
    [("*found = 1", "*found = threadIdx.x"), ("*found = 1;", "*found = 1; if (threadIdx.x == 5) *out = *found;")],
)
RESET_COUNTER = Case(
    "last block resets the counter",
    HEAD
    + """k(unsigned* count, unsigned* part, unsigned* sum) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        part[blockIdx.x] = blockIdx.x + 1;
        __threadfence();
        last = atomicInc(count, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        for (int i = 0; i < gridDim.x; ++i) *sum += part[i];
        *count = 0;
    }
}""",
    5,
    64,
    words(1, 5, 1),
    [
        ("if (last && threadIdx.x == 0) {", "if (last && threadIdx.x == 0) *count = 0; if (blockIdx.x == 1) {"),
        ("*count = 0;", "} if (blockIdx.x == 2 && threadIdx.x == 1) { *count = 0;"),  # sees two blocks of four
        ("*count = 0;", "} if (blockIdx.x == 0 && threadIdx.x == 0) { *count = 0;"),
        (
            "last = atomicInc(count, gridDim.x) == gridDim.x - 1;",
            "last = *count == gridDim.x - 1; atomicAdd(count, 1u);",
        ),
        ("__threadfence();", ""),  # the counter is seen, and nothing else
        ("__syncthreads();", ""),
    ],
    lambda arguments: arguments[0][0] == 0 and arguments[2][0] == 15,
    [("if (last && threadIdx.x == 0) {", "if (last && threadIdx.x == 40) {")],
)
RESET_LOCK = Case(
    "last block resets a lock that blocks take in turn",
    HEAD
    + """k(int* lock, int* sum) {
    int state;
    do asm volatile("ld.global.acquire.gpu.b32 %0, [%1];" : "=r"(state) : "l"(lock)); while (state != blockIdx.x);
    *sum += 1;
    if (blockIdx.x == gridDim.x - 1) { lock[0] = 0; return; }
    asm volatile("fence.acq_rel.gpu;");
    asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" :: "l"(lock), "r"(1));
}""",
    3,
    1,
    words(1, 1),
    [
        ('asm volatile("fence.acq_rel.gpu;");', ""),
        ("ld.global.acquire", "ld.global.relaxed"),
        ("if (blockIdx.x == gridDim.x - 1) { lock[0] = 0; return; }", "if (!blockIdx.x) { lock[0] = 1; return; }"),
        ("do asm volatile", "if (blockIdx.x == 2) lock[0] = 0; do asm volatile"),
    ],
    lambda arguments: arguments[0][0] == 0 and arguments[1][0] == 3,
)
MATRICES = Case(
    "warps store what they then load as matrices",
    HEAD
    + """k(const unsigned* in, unsigned* out) {
    __shared__ __align__(16) unsigned s[2][8][4];
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, sum = 0;
    for (unsigned i = 0; i < 3; ++i) {
        s[warp][lane / 4][lane % 4] = in[lane] + i;
        __syncwarp();  // filled
        unsigned r, place = (unsigned)__cvta_generic_to_shared(&s[warp][lane % 8][0]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(place) : "memory");
        sum += r;  // the next store needs no __syncwarp: no lane goes on before all have read
    }
    out[threadIdx.x] = sum;
}""",
    1,
    64,
    lambda: [np.arange(32, dtype=np.uint32), np.zeros(64, np.uint32)],
    [
        ("__syncwarp();  // filled", ""),
        ("&s[warp][", "&s[0]["),  # of the other warp
        ('asm volatile("ldmatrix', 's[warp][lane % 8][1] = i; asm volatile("ldmatrix'),
        ("sum += r;", "sum += s[warp][7 - lane / 4][lane % 4];"),  # an ordinary load is over for its own lane alone
    ],
    lambda arguments: (arguments[1] == np.arange(64) % 32 * 3 + 3).all(),
    [("sum += r;", "__syncwarp(); sum += r;")],
)
FRAGMENTS = Case(
    "a warp stores what it then loads as a fragment",
    HEAD
    + """k(float* out) {
    __shared__ __align__(32) unsigned short s[256];
    float sum = 0;
    for (int i = 0; i < 2; ++i) {
        for (int j = threadIdx.x; j < 256; j += 32) s[j] = 0x3c00;
        __syncwarp();  // filled
        unsigned r[8], place = (unsigned)__cvta_generic_to_shared(s);
        asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], 16;"
            : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7])
            : "r"(place) : "memory");
        sum += r[0] == 0x3c003c00u;
        for (int j = threadIdx.x; j < 256; j += 32) s[j] = 0x4000;
        __syncwarp();  // filled again
        sum += s[255 - threadIdx.x] == 0x4000;
        __syncwarp();  // read
    }
    out[threadIdx.x] = sum;
}""",
    1,
    32,
    lambda: [np.zeros(32, np.float32)],
    [("__syncwarp();  // filled\n", ""), ("__syncwarp();  // filled again", ""), ("__syncwarp();  // read", "")],
    lambda arguments: (arguments[0] == 4).all(),
)
CASES = (
    SPIN_LOCK, HANDSHAKE, ACQUIRE, LAST_BLOCK, RESET_COUNTER, RESET_LOCK,
    LOOK_BACK, HISTOGRAM, WARPS, MATRICES, FRAGMENTS, NAMED, GRID_SYNC, BYTES, ONE_VALUE,
)  # fmt: skip
SLOW_TO_COMPILE = (TILES,)
