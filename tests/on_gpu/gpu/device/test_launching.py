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
