"""Kernels synchronised by mbarriers, clusters, bulk copies (cp.async.bulk) and named barriers, and edits to them.

Each change is either a fault, with the kinds of findings of which one tells it, or harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

HEAD = r"""
typedef unsigned u32; typedef unsigned long long u64;
#define DO static __device__ __forceinline__
DO u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
DO void init(u64* b, u32 n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(b)), "r"(n) : "memory"); }
DO void inval(u64* b) { asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(at(b)) : "memory"); }
DO void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DO void fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DO void fence_proxies() { asm volatile("fence.proxy.async;" ::: "memory"); }
DO void arrive(u64* b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(b)) : "memory"); }
DO void arrive_relaxed(u64* b) {
    asm volatile("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0];" ::"r"(at(b)) : "memory");
}
DO void expect(u64* b, u32 n) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(b)), "r"(n) : "memory");
}
DO void announce(u64* b, u32 n) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(at(b)), "r"(n) : "memory");
}
#define WAIT(name, words)                                                                                   \
    DO void name(u64* b, u32 parity) {                                                                      \
        asm volatile("{ .reg .pred d; again: mbarrier.try_wait.parity" words ".shared::cta.b64 d, [%0], %1; " \
                     "@!d bra again; }" ::"r"(at(b)), "r"(parity) : "memory");                              \
    }
WAIT(wait, "") WAIT(wait_relaxed, ".relaxed.cta") WAIT(wait_cluster, ".acquire.cluster")
DO u32 try_once(u64* b, u32 parity) {
    u32 done;
    asm volatile("{ .reg .pred d; mbarrier.try_wait.parity.shared::cta.b64 d, [%1], %2; selp.u32 %0, 1, 0, d; }"
                 : "=r"(done) : "r"(at(b)), "r"(parity) : "memory");
    return done;
}
DO void load(void* to, const void* from, u32 n, u64* b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(at(to)), "l"(from), "r"(n), "r"(at(b)) : "memory");
}
DO u32 rank() { u32 r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
DO u32 there(const void* p, u32 r) {
    u32 a;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(at(p)), "r"(r));
    return a;
}
DO u32* mapped(u32* p, u32 r) { u64 a; asm("mapa.u64 %0, %1, %2;" : "=l"(a) : "l"(p), "r"(r)); return (u32*)a; }
DO void store_there(u32 a, u32 v) { asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(a), "r"(v) : "memory"); }
DO void arrive_there(u32 a) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(a) : "memory");
}
DO void meet_arrive() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
DO void meet_relaxed() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
DO void meet_wait() { asm volatile("barrier.cluster.wait;" ::: "memory"); }
DO void meet() { meet_arrive(); meet_wait(); }
#define KERNEL extern "C" __global__ void
#define PAIR KERNEL __cluster_dims__(2, 1, 1)
"""
HARMLESS: tuple[str, ...] = ()
RACE = ("shared-race",)
FLIGHT = ("async-not-waited",)
FENCE = ("missing-proxy-fence",)
MISUSE = ("mbarrier-misuse",)
DEADLOCK = ("mbarrier-deadlock",)
BARRIER = ("barrier-divergence",)
CLUSTER = ("missing-cluster-sync",)
OUTSIDE = ("out-of-bounds",)

Change = tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]]
"""What it is, the kinds of findings that tell it, and texts with those in their place."""


@dataclass(frozen=True)
class Case:
    """A clean kernel `k`, its launch, and its changes.

    Attributes:
        name: What it shows.
        source: CUDA behind `HEAD`.
        grid: Blocks.
        block: Threads of a block.
        arguments: Makes fresh arguments.
        changes: Faults and harmless ones.
    """

    name: str
    source: str
    grid: int
    block: int
    arguments: Callable[[], list[Any]]
    changes: Sequence[Change]

    def text(self, pairs: Sequence[tuple[str, str]] = ()) -> str:
        """Return the source with some texts replaced."""
        text = self.source
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        return HEAD + text


def buffers(*counts: int) -> Callable[[], list[Any]]:
    """Return what makes buffers of so many words, the first of zeros, the others of numbers from 1 on."""
    return lambda: [np.arange(1, count + 1, dtype=np.uint32) * (i > 0) for i, count in enumerate(counts)]


ONE_WARP = Case(
    "a bulk copy for one warp",
    """KERNEL k(u32* out, const u32* in) {
    __shared__ __align__(128) u32 a[32];
    __shared__ u64 bar;
    if (threadIdx.x == 0) { init(&bar, 1); fence_init(); expect(&bar, 128); load(a, in, 128, &bar); }
    __syncwarp();
    wait(&bar, 0);
    out[threadIdx.x] = a[31 - threadIdx.x];
}""",
    1, 32, buffers(32, 32),
    [
        ("lane 0 alone waits", FLIGHT, (("    wait(", "    if (threadIdx.x == 0) wait("),)),
        ("lane 0 waits and tells", HARMLESS,
         (("wait(&bar, 0);", "if (threadIdx.x == 0) wait(&bar, 0); __syncwarp();"),)),
        ("success is ignored", MISUSE, (("    wait(", "    try_once("),)),
        ("success is looked at", HARMLESS, (("    wait(&bar, 0);", "    while (!try_once(&bar, 0)) {}"),)),
    ],
)  # fmt: skip
RING = Case(
    "rounds of one mbarrier",
    """KERNEL k(u32* out, const u32* in) {
    __shared__ u32 s[4][32];
    __shared__ u64 full, empty;
    const int lane = threadIdx.x % 32;
    if (threadIdx.x == 0) { init(&full, 32); init(&empty, 32); }
    __syncthreads();
    for (int i = 0; i < 4; ++i)
        if (threadIdx.x < 32) {
            if (i > 0) wait(&empty, (i - 1) & 1);
            s[i][lane] = in[i * 32 + lane];
            arrive(&full);
        } else {
            wait(&full, i & 1);
            out[i * 32 + lane] = s[i][31 - lane];
            arrive(&empty);
        }
    // end
}""",
    1, 64, buffers(128, 128),
    [
        ("relaxed arrival", RACE, (("arrive(&full)", "arrive_relaxed(&full)"),)),
        ("relaxed arrival behind a fence", HARMLESS,
         (("arrive(&full)", "__threadfence_block(); arrive_relaxed(&full)"),)),
        ("relaxed wait", RACE, (("wait(&full,", "wait_relaxed(&full,"),)),
        ("relaxed wait before a fence", HARMLESS,
         (("wait(&full, i & 1)", "wait_relaxed(&full, i & 1); __threadfence_block()"),)),
        ("an arrival too few awaited", RACE, (("init(&full, 32)", "init(&full, 31)"),)),
        ("a round too far ahead", MISUSE, (("if (i > 0) wait", "if (i > 1) wait"),)),
        ("ended while others may wait", MISUSE, (("// end", "if (threadIdx.x == 0) inval(&full);"),)),
        ("ended behind a barrier", HARMLESS, (("// end", "__syncthreads(); if (threadIdx.x == 0) inval(&full);"),)),
    ],
)  # fmt: skip
FETCHED = Case(
    "a bulk copy of what threads wrote",
    """KERNEL k(u32* out, u32* mid) {
    __shared__ __align__(128) u32 a[64];
    __shared__ u64 bar;
    if (threadIdx.x == 0) { init(&bar, 1); fence_init(); }
    mid[threadIdx.x] = threadIdx.x;
    fence_proxies();
    __syncthreads();
    if (threadIdx.x == 0) { expect(&bar, 256); load(a, mid, 256, &bar); }
    wait(&bar, 0);
    out[threadIdx.x] = a[threadIdx.x];
    mid[threadIdx.x] = 0;
}""",
    1, 64, buffers(64, 64),
    [
        ("no fence", FENCE, (("    fence_proxies();\n", ""),)),
        ("fence of shared memory", FENCE, (("fence_proxies", "fence_shared"),)),
        ("fence of global memory", HARMLESS,
         (("fence_proxies();", 'asm volatile("fence.proxy.async.global;" ::: "memory");'),)),
        ("fence by the asking thread", HARMLESS,
         (("    fence_proxies();\n", ""), ("{ expect", "{ fence_proxies(); expect"))),
        ("written while it is read", FLIGHT, (("    wait(", "    if (threadIdx.x == 0) mid[5] = 7;\n    wait("),)),
    ],
)  # fmt: skip
MEMORY_OF_PEERS = Case(
    "shared memory of peers",
    """PAIR k(u32* out) {
    __shared__ u32 s[32];
    s[threadIdx.x] = threadIdx.x;
    meet();  // filled
    out[blockIdx.x * 32 + threadIdx.x] = *mapped(s + 31 - threadIdx.x, rank() ^ 1);
    meet();  // read
}""",
    2, 32, buffers(64),
    [
        ("relaxed arrival", RACE, (("meet();  // filled", "meet_relaxed(); meet_wait();"),)),
        ("relaxed arrival behind a fence", HARMLESS,
         (("meet();  // filled", "__threadfence(); meet_relaxed(); meet_wait();"),)),
        ("relaxed arrival behind reads", HARMLESS, (("meet();  // read", "meet_relaxed(); meet_wait();"),)),
        ("filled behind the arrival", RACE,
         (("    s[threadIdx.x] =", "    meet_arrive(); s[threadIdx.x] ="), ("meet();  // filled", "meet_wait();"))),
        ("not awaited", RACE, (("meet();  // filled", "meet_arrive();"), ("meet();  // read", "meet_wait(); meet();"))),
        ("generic access, not met before", CLUSTER, (("meet();  // filled", "__syncthreads();"),)),
        ("generic access, not met behind", CLUSTER, (("meet();  // read", ""),)),
    ],
)  # fmt: skip
TOLD_PEER = Case(
    "a peer that is told",
    """PAIR k(u32* out) {
    __shared__ u32 s[32];
    __shared__ u64 full;
    if (threadIdx.x == 0) { init(&full, 32); fence_init(); }
    meet_relaxed(); meet_wait();
    if (rank() == 0) {
        store_there(there(s + threadIdx.x, 1), threadIdx.x);
        arrive_there(there(&full, 1));
    } else {
        wait_cluster(&full, 0);
        out[threadIdx.x] = s[31 - threadIdx.x];
    }
}""",
    2, 32, buffers(32),
    [
        ("initialisation not fenced", RACE, (("fence_init(); }", "fence_shared(); }"),)),
        ("initialisation not fenced, but released", HARMLESS,
         (("fence_init(); }", "}"), ("meet_relaxed(); meet_wait", "meet_arrive(); meet_wait"))),
        ("a block that is not there", OUTSIDE, (("there(s + threadIdx.x, 1)", "there(s + threadIdx.x, 2)"),)),
        ("an mbarrier that is not there", OUTSIDE, (("there(&full, 1)", "there(&full, 3)"),)),
    ],
)  # fmt: skip
SENT = Case(
    "a bulk copy to a peer",
    """PAIR k(u32* out) {
    __shared__ __align__(128) u32 from[32];
    __shared__ __align__(128) u32 to[32];
    __shared__ u64 bar;
    if (threadIdx.x == 0) { init(&bar, 1); fence_init(); expect(&bar, 128); }
    from[threadIdx.x] = threadIdx.x;
    fence_shared();
    meet();  // filled
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];"
                     ::"r"(there(to, rank() ^ 1)), "r"(at(from)), "r"(there(&bar, rank() ^ 1)) : "memory");
    wait_cluster(&bar, 0);
    out[blockIdx.x * 32 + threadIdx.x] = to[31 - threadIdx.x];
    meet();  // received
    from[threadIdx.x] = 0;
}""",
    2, 32, buffers(64),
    [
        ("overwritten before the peer has it", FLIGHT, (("meet();  // received", ""),)),
        ("ends before the peer has it", FLIGHT, (("    meet();  // received\n    from[threadIdx.x] = 0;\n", ""),)),
    ],
)  # fmt: skip
COPIED = Case(
    "copies by threads that an mbarrier tells of",
    """KERNEL k(u32* out, const u32* in) {
    __shared__ u32 a[64];
    __shared__ u64 bar;
    if (threadIdx.x == 0) init(&bar, 64);
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                 ::"r"(at(a + threadIdx.x)), "l"(in + threadIdx.x) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    arrive(&bar);
    wait(&bar, 0);
    out[threadIdx.x] = a[63 - threadIdx.x];
}""",
    1, 64, buffers(64, 64),
    [
        ("not awaited before the arrival", FLIGHT, (('    asm volatile("cp.async.wait_all;" ::: "memory");\n', ""),)),
        ("awaited by one warp", FLIGHT,
         (('    asm volatile("cp.async.wait', '    if (threadIdx.x < 32) asm volatile("cp.async.wait'),)),
    ],
)  # fmt: skip
NAMED = Case(
    "named barriers of pairs of warps",
    """KERNEL k(u32* out, const u32* in) {
    __shared__ u32 s[128];
    s[threadIdx.x] = in[threadIdx.x];
    asm volatile("bar.sync %0, 64;" ::"r"(1 + threadIdx.x / 64) : "memory");
    out[threadIdx.x] = s[threadIdx.x ^ 63];
}""",
    1, 128, buffers(128, 128),
    [
        ("one for both pairs", BARRIER, (("1 + threadIdx.x / 64", "1"),)),
        ("number 16", BARRIER, (("1 + threadIdx.x / 64", "15 + threadIdx.x / 64"),)),
        ("another count in each warp", BARRIER,
         (('"bar.sync %0, 64;" ::"r"(1 + threadIdx.x / 64)',
           '"bar.sync %0, %1;" ::"r"(1 + threadIdx.x / 64), "r"(threadIdx.x % 64 < 32 ? 64 : 128)'),)),
        ("number 15", HARMLESS, (("1 + threadIdx.x / 64", "14 + threadIdx.x / 64"),)),
    ],
)  # fmt: skip
EACH_ITS_OWN = Case(
    "rows that threads fetch for themselves",
    """KERNEL k(u32* out, const u32* in) {
    __shared__ __align__(128) u32 a[4 * 64];
    __shared__ u64 bar;
    if (threadIdx.x == 0) { init(&bar, 64); fence_init(); }
    __syncthreads();
    const int at = 4 * threadIdx.x;
    if (true) { load(a + at, in + at, 16, &bar); expect(&bar, 16); }
    wait(&bar, 0);
    for (int i = 0; i < 4; ++i) out[at + i] = a[255 - at - i];
}""",
    1, 64, buffers(256, 256),
    [
        ("an arrival too few awaited", MISUSE, (("init(&bar, 64)", "init(&bar, 63)"),)),
        ("half of the arrivals awaited", MISUSE, (("init(&bar, 64)", "init(&bar, 32)"),)),
        ("an arrival too many awaited", DEADLOCK, (("init(&bar, 64)", "init(&bar, 65)"),)),
        ("a thread does not arrive", DEADLOCK, (("if (true)", "if (threadIdx.x != 7)"),)),
        ("too few bytes", DEADLOCK, (("expect(&bar, 16)", "expect(&bar, threadIdx.x == 7 ? 0 : 16)"),)),
        ("too many bytes", DEADLOCK, (("expect(&bar, 16)", "expect(&bar, threadIdx.x == 7 ? 32 : 16)"),)),
        ("announced before", HARMLESS,
         (("load(a", "expect(&bar, 16); load(a"), ("&bar); expect(&bar, 16);", "&bar);"))),
        ("one for all", HARMLESS,
         (("init(&bar, 64)", "init(&bar, 1)"), ("if (true)", "if (threadIdx.x == 0)"), (", 16", ", 1024"))),
    ],
)  # fmt: skip
ONE_ANNOUNCES = Case(
    "rounds in which one thread announces the bytes and the others arrive",
    """KERNEL k(u32* out, const u32* in) {
    __shared__ __align__(128) u32 a[64];
    __shared__ u64 bar;
    if (threadIdx.x == 0) { init(&bar, 64); fence_init(); }
    __syncthreads();
    for (int i = 0; i < 3; ++i) {
        if (threadIdx.x == 63) { expect(&bar, 256); load(a, in + 64 * i, 256, &bar); }
        else if (true) arrive(&bar);
        wait(&bar, i & 1);
        out[64 * i + threadIdx.x] = a[63 - threadIdx.x];
        __syncthreads();
    }
}""",
    1, 64, buffers(192, 192),
    [
        ("an arrival too few awaited", MISUSE, (("init(&bar, 64)", "init(&bar, 63)"),)),
        ("an arrival too many in one round", MISUSE,
         (("init(&bar, 64)", "init(&bar, 63)"), ("if (true)", "if (threadIdx.x != 7 || i == 1)"))),
        ("an arrival too many awaited", DEADLOCK, (("init(&bar, 64)", "init(&bar, 65)"),)),
        ("a thread that arrives in two rounds of three", DEADLOCK, (("if (true)", "if (threadIdx.x != 7 || i != 2)"),)),
        ("one thread neither arrives nor is awaited", HARMLESS,
         (("init(&bar, 64)", "init(&bar, 63)"), ("if (true)", "if (threadIdx.x != 7)"))),
        ("announced without an arrival", MISUSE,
         (("init(&bar, 64)", "init(&bar, 63)"), ("expect(&bar, 256)", "announce(&bar, 256)"))),
        ("announced, then arrived", HARMLESS, (("expect(&bar, 256);", "announce(&bar, 256); arrive(&bar);"),)),
        ("arrivals of two warps for one", HARMLESS,
         (("init(&bar, 64)", "init(&bar, 2)"),
          ("else if (true) arrive", "if (threadIdx.x % 32 == 0) arrive"), ("expect(", "announce("),
          ("threadIdx.x == 63", "threadIdx.x == 0"))),
    ],
)  # fmt: skip
CASES = (EACH_ITS_OWN, ONE_ANNOUNCES, ONE_WARP, RING, FETCHED, MEMORY_OF_PEERS, TOLD_PEER, SENT, COPIED, NAMED)
