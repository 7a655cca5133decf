"""Constant memory on a real GPU: a file's values reach the kernel."""

import pytest

from lab.runs.pipeline import RunOptions, run

pytestmark = pytest.mark.gpu

SOURCE = """
namespace ours { static __constant__ float filter[4]; }
__constant__ double scale;
__global__ void fir(float *y, const float *x, int n) {
    int i = blockIdx.x * bs + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < 3; ++k) if (i < n) sum += ours::filter[k] * x[i + k];
    if (i < n) y[i] = scale * sum;
}
"""
FILE = """source: fir.cu
problem: {n: 100_000}
arguments: {y: "out float32[n]", x: "float32[n + 2]", n: int32}
constants: {filter: "float32[3]", scale: float64 = 0.5}
parameters: {bs: [128, 256]}
grid: ceil_div(n, bs)
block: bs
reference: {y: "scale * correlate(x, filter, 'valid')"}
"""


def test_constant_memory_is_filled(tmp_path):
    (tmp_path / "fir.cu").write_text(SOURCE)
    (tmp_path / "fir.yaml").write_text(FILE)
    outcome = run(tmp_path / "fir.yaml", RunOptions(output=tmp_path / "out"))
    assert [record.status.failed for record in outcome.records] == [False, False]
    assert all(record.measurement is not None for record in outcome.records)


def test_a_launch_asks_the_driver_for_clusters(tmp_path):
    """Also of 16 blocks, which a kernel must allow; the grid counts whole clusters that the card holds."""
    (tmp_path / "k.cu").write_text(
        "#include <cooperative_groups.h>\n"
        "__global__ void k(int *out, int n) {\n"
        "    auto cluster = cooperative_groups::this_cluster();\n"
        "    __shared__ int own;\n    if (threadIdx.x == 0) own = 10 + cluster.block_rank();\n    cluster.sync();\n"
        "    for (int i = blockIdx.x; i < n; i += gridDim.x)\n"
        "        if (threadIdx.x == 0) out[i] = *cluster.map_shared_rank(&own, cluster.block_rank() ^ 1);\n"
        "    cluster.sync();\n}\n"
    )
    (tmp_path / "k.yaml").write_text(
        'source: k.cu\nproblem: {n: 65536}\narguments: {out: "out int32[n]", n: int32}\n'
        "parameters: {size: [2, 4, 8, 16]}\n"
        "grid: resident_blocks // size * size\nblock: 256\ncluster: size\n"
        'reference: {out: "10 + (arange(n) % size ^ 1)"}\n'
    )
    outcome = run(tmp_path / "k.yaml", RunOptions(output=tmp_path / "out"))
    assert [record.launch.cluster for record in outcome.records] == [(n, 1, 1) for n in (2, 4, 8, 16)]
    assert all(record.measurement is not None for record in outcome.records)
    assert not [record.reason for record in outcome.records if record.status.failed]


def test_a_swept_carve_out_reaches_the_driver(tmp_path):
    (tmp_path / "copy.cu").write_text(
        "__global__ void copy(float *y, const float *x, int n) {\n"
        "    int i = blockIdx.x * 256 + threadIdx.x;\n    if (i < n) y[i] = x[i];\n}\n"
    )
    (tmp_path / "copy.yaml").write_text(
        "source: copy.cu\nproblem: {n: 100_000}\n"
        'arguments: {y: "out float32[n]", x: "float32[n]", n: int32}\n'
        "parameters: {preferred: [-1, 0, 50, 100]}\ncarveout: preferred\n"
        "grid: ceil_div(n, 256)\nblock: 256\nreference: {y: x}\n"
    )
    outcome = run(tmp_path / "copy.yaml", RunOptions(output=tmp_path / "out"))
    assert [record.launch.carveout for record in outcome.records] == [None, 0, 50, 100]
    assert all(record.measurement is not None for record in outcome.records)
