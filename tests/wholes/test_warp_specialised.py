"""A warp-specialised GEMM: TMA loads, mbarriers, wgmma and register limits, with planted faults."""

import functools

import compiling
import numpy as np
import pytest

from lab.emulator.api import launch
from lab.emulator.results import Buffer, TensorMapArgument
from lab.isa.mix import module_mix
from lab.isa.ptx.module import read_ptx

SUMS = ", ".join(f"%{i}" for i in range(32))
OPERANDS = ", ".join(f'"+f"(d[{i}])' for i in range(32))
KERNEL = f"""
struct __align__(64) Map {{ unsigned long long words[16]; }};
constexpr int STAGES = 3;
extern "C" __global__ void __launch_bounds__(256) k(
    const __grid_constant__ Map a, const __grid_constant__ Map b, float* c, int n, int depth) {{
    __shared__ __align__(1024) unsigned short sa[STAGES][64 * 64], sb[STAGES][64 * 64];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
    const int t = threadIdx.x, row0 = blockIdx.y * 64, col0 = blockIdx.x * 64;
    const auto at = [](const void* p) {{ return static_cast<unsigned>(__cvta_generic_to_shared(p)); }};
    const auto wait = [&](void* bar, unsigned parity) {{
        asm volatile("{{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;"
                     " @!done bra again; }}" ::"r"(at(bar)), "r"(parity) : "memory"); }};
    const auto box = [&](const Map& map, void* to, void* bar, int x, int y) {{
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {{%2, %3}}], [%4];"
                     ::"r"(at(to)), "l"(&map), "r"(x), "r"(y), "r"(at(bar)) : "memory"); }};
    const auto described = [&](const void* p) {{
        return static_cast<unsigned long long>(at(p) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62; }};
    if (t == 0) {{
        for (int s = 0; s < STAGES; ++s) {{
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&full[s])) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 4;" ::"r"(at(&empty[s])) : "memory");
        }}
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }}
    __syncthreads();
    const int steps = depth / 64;
    if (t < 128) {{  // copies
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (t == 0) {{
            for (int i = 0; i < steps; ++i) {{
                const int s = i % STAGES;
                if (i >= STAGES) wait(&empty[s], (i / STAGES - 1) & 1);
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                             ::"r"(at(&full[s])), "r"(16384) : "memory");
                box(a, sa[s], &full[s], i * 64, row0);
                box(b, sb[s], &full[s], i * 64, col0);
            }}
        }}
    }} else {{  // products
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        float d[32] = {{}};
        for (int i = 0; i < steps; ++i) {{
            const int s = i % STAGES;
            wait(&full[s], i / STAGES & 1);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
            for (int k = 0; k < 4; ++k)
                asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {{{SUMS}}}, %32, %33, 1, 1, 1, 0, 0;"
                             : {OPERANDS} : "l"(described(sa[s]) + 2 * k), "l"(described(sb[s]) + 2 * k));
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
            if (t % 32 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(&empty[s])) : "memory");
        }}
        const int row = row0 + t / 32 % 4 * 16 + t % 32 / 4, col = col0 + t % 4 * 2;
        for (int i = 0; i < 32; ++i) c[(row + i / 2 % 2 * 8) * n + col + i / 4 * 8 + i % 2] = d[i];
    }}
}}
"""


@functools.cache
def ptx(text):
    return compiling.compile_text(text, "-lineinfo", arch="compute_90a")


def run(text=KERNEL, depth=256, edge=64):
    random = np.random.default_rng(1)
    a, b = (random.integers(-4, 5, (edge, depth)).astype(np.float16) for _ in range(2))
    c = np.zeros((edge, edge), np.float32)
    maps = [TensorMapArgument(Buffer(one), (depth, edge), depth, (64, 64), 128) for one in (a, b)]
    emulation = launch(ptx(text), "k", (edge // 64, edge // 64), 256, [*maps, c, np.int32(edge), np.int32(depth)])
    return emulation, c, a.astype(np.float32) @ b.astype(np.float32).T


def test_roles_meet_at_mbarriers():
    emulation, c, wanted = run(depth=320, edge=128)
    assert emulation.clean, emulation.findings
    np.testing.assert_array_equal(c, wanted)


def test_roles_of_a_plain_kernel_are_read_from_its_ptx():
    (kernel,) = module_mix(read_ptx(ptx(KERNEL)))
    assert {(role.role.value, role.registers) for role in kernel.roles} == {("producer", 40), ("consumer", 232)}


WAIT = 'asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");'
RELEASE = 'if (t % 32 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(&empty[s])) : "memory");'
EARLY = WAIT, f"{RELEASE} if (i == steps - 1) {WAIT}"
PLANTED = [
    ("no wait for the stage", "wait(&full[s], i / STAGES & 1);", "", "async-not-waited"),
    ("no wait for the consumers", "if (i >= STAGES) wait(&empty[s], (i / STAGES - 1) & 1);", "", "async-not-waited"),
    ("released before the wait", *EARLY, "async-not-waited"),
    ("no wait for the product", "wgmma.wait_group.sync.aligned 0;", "", "async-not-waited"),
    ("no group", "wgmma.commit_group.sync.aligned;", "", "async-not-waited"),
    ("no fence", "wgmma.fence.sync.aligned;", "", "wgmma-misuse"),
    ("too few bytes", '"r"(16384)', '"r"(8192)', "async-not-waited"),
    ("the wrong parity", "i / STAGES & 1);", "(i / STAGES + 1) & 1);", "mbarrier-deadlock"),
    ("one warp does not release", "if (t % 32 == 0)", "if (t % 32 == 0 && t > 160)", "mbarrier-deadlock"),
    ("no fence of the mbarriers", "fence.mbarrier_init.release.cluster;", "", "missing-proxy-fence"),
    ("no barrier after the mbarriers", "__syncthreads();", "", "shared-race"),
    ("one warp leaves", "float d[32] = {};", "float d[32] = {}; if (t >= 224) return;", "wgmma-misuse"),
    ("three warps ask", 'asm volatile("setmaxnreg.inc', 'if (t >= 160) asm volatile("setmaxnreg.inc', "wgmma-misuse"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "kind"), [one[1:] for one in PLANTED], ids=[one[0] for one in PLANTED])
def test_planted_faults_are_found(right, wrong, kind):
    assert right in KERNEL
    emulation, _, _ = run(KERNEL.replace(right, wrong, 1))
    assert kind in {finding.kind for finding in emulation.findings}, emulation.findings
