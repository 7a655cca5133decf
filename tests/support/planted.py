"""Kernels with one known property each, executed by the pipeline: what the page says of them can be checked."""

from __future__ import annotations

from pathlib import Path

from lab.runs.pipeline import RunOptions, run

HEAD = """{{#---
summary: s
operator: gemm
{entry}
parameters: {{}}
grid: [1]
block: [64]
arguments: {{m: int32, n: int32, alpha: T, A: T*, B: T*, C: T*}}
---#}}
"""
SIGNATURE = "(int m, int n, {{ T }} alpha, const {{ T }}* A, const {{ T }}* B, {{ T }}* C)"
BY_WAY_OF_ANOTHER = (
    """extern "C" __global__ void k"""
    + SIGNATURE
    + """
{
    __shared__ {{ T }} cell[64];
    const int i = threadIdx.x, other = 63 - i;
    cell[i] = i < m ? alpha * A[i] * B[0] : 0;
    %s
    if (other %s m) C[other] = cell[other];
}
"""
)
TWO_LOOPS = (
    """extern "C" __global__ void k"""
    + SIGNATURE
    + """
{
    {{ T }} once = 0;
#pragma unroll 1
    for (int i = 0; i < (n > 100 ? n : 1); ++i)  // many fma, executed once
        once = fmaf(once, once, fmaf(once, 2, fmaf(once, 3, fmaf(once, once, alpha))));
    volatile int spin = 0;
#pragma unroll 1
    for (int i = 0; i < 2; ++i) spin = spin + i;  // a little more, but not twice as much
    if (threadIdx.x < m) C[threadIdx.x] = alpha * A[threadIdx.x] * B[0] + (once == 12345 ? 1 : 0);
}
"""
)
CONFLICTS = (
    """extern "C" __global__ void k"""
    + SIGNATURE
    + """
{
    __shared__ {{ T }} cell[64 * 8];
    cell[threadIdx.x * 8] = threadIdx.x < m ? alpha * A[threadIdx.x] * B[0] : 0;  // 8 lanes to a bank
    __syncthreads();
    if (threadIdx.x < m) C[threadIdx.x] = cell[threadIdx.x * 8];
}
"""
)
TWO_ENTRIES = """{% for name in ("even", "odd") %}
extern "C" __global__ void {{ name }}(int m, int n, {{ T }} alpha, const {{ T }}* A, const {{ T }}* B, {{ T }}* C)
{
    const int i = threadIdx.x {{ "+ 1" if name == "odd" else "" }};
    if (i <= m) C[i] = alpha * A[i] * B[0];
}
{% endfor %}
"""
ONE = "entry: k"
KERNELS = {
    "clean": (ONE, BY_WAY_OF_ANOTHER % ("__syncthreads();", "<")),
    "racy": (ONE, BY_WAY_OF_ANOTHER % ("", "<")),
    "off_by_one": (ONE, BY_WAY_OF_ANOTHER % ("__syncthreads();", "<=")),
    "two_loops": (ONE, TWO_LOOPS),
    "conflicts": (ONE, CONFLICTS),
    "two_entries": ("entries: [{name: even, when: m % 2 == 0}, {name: odd}]", TWO_ENTRIES),
}
EXPERIMENT = """question: Which line is it?
operator: gemm
problem: {m: 64, n: 1, k: 1, alpha: 2.0}
emulate: {m: 63}
kernels:
"""


def execute(folder: Path) -> Path:
    """Run every kernel without a GPU; the run directory, report included."""
    for name, (entry, body) in KERNELS.items():
        (folder / f"{name}.cu.j2").write_text(HEAD.format(entry=entry) + body)
    file = folder / "planted.yaml"
    listed = "".join(f"  - {{template: {name}.cu.j2, name: {name}, parameters: {{}}}}\n" for name in KERNELS)
    file.write_text(EXPERIMENT + listed + "archs: [sm_90]\n")
    run(file, RunOptions(output=folder / "out", jobs=1, measure=False))
    return folder / "out"
