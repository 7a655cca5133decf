"""Files as users have them, host code and all, through load, plan, build and execution on the CPU."""

from __future__ import annotations

import pytest
from plain_files import FILES, write

from lab.base.errors import UserError
from lab.experiment.load import load
from lab.experiment.space import expand
from lab.experiment.variants import plan
from lab.runs import flow
from lab.runs.flow import FlowContext
from lab.stages.build import Built, build, build_task
from lab.stages.emulate import emulate
from lab.toolchain.select import toolchain


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_host_code_is_an_experiment(name, tmp_path):
    experiment = load(write(name, tmp_path))
    verified(experiment, 2)


def verified(experiment, variants):
    records = []
    points = expand(experiment).points
    assert len(points) == variants
    both = plan(experiment, points, [toolchain("nvrtc")], ["sm_90"])
    for planned, outcome in zip(both, build([build_task(one) for one in both]), strict=True):
        assert "int main" not in planned.request.source
        assert isinstance(outcome, Built), outcome
        context = FlowContext(experiment, None, emulate=True)
        variant = flow.inspect(context, planned, outcome, None)
        assert flow.argument_mistake(context, variant, outcome) is None
        assert flow.constant_mistake(context, variant, outcome) is None
        record = emulate(flow.emulation_task(context, variant), variant.ptx)
        assert (record.fault, record.unsupported) == ("", "")
        assert record.verification is not None
        assert record.verification.passed, record.verification
        records.append(record)
    return records


MAPPED = """
#include <cuda.h>
__device__ unsigned at(const void *p) { return __cvta_generic_to_shared(p); }
// doubles boxes of BOX rows and 32 columns; those of x by the dimensions (columns / 32, rows, 32)
__global__ void twice(const __grid_constant__ CUtensorMap y, const __grid_constant__ CUtensorMap x) {
    __shared__ alignas(128) float tile[BOX * 32];
    __shared__ unsigned long long full;
    const int column = blockIdx.x * 32, row = blockIdx.y * BOX;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&full)) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(&full)), "r"(BOX * 128));
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3, %4}], [%5];"
                     ::"r"(at(tile)), "l"(&x), "r"(0), "r"(row), "r"(column / 32), "r"(at(&full)) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }"
                 ::"r"(at(&full)) : "memory");
    for (int i = threadIdx.x; i < BOX * 32; i += 32) tile[i] *= 2;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                     ::"l"(&y), "r"(column), "r"(row), "r"(at(tile)) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
"""
MAPPED_FILE = """source: twice.cu
problem: {rows: 512, columns: 512}
emulate: {rows: 21, columns: 96}
arguments:
  y: "out float32[rows, columns] as map[BOX, 32]"
  x: "float32[rows, columns] as map[1, BOX, 32] of [columns // 32, rows, 32] strides [32, columns, 1]"
parameters: {BOX: 8}
grid: [columns // 32, "ceil_div(rows, BOX)"]
block: 32
reference: {y: 2 * x}
archs: [sm_90]
"""


def test_a_kernel_takes_tensor_maps_of_its_arrays(tmp_path):
    (tmp_path / "twice.cu").write_text(MAPPED)
    (tmp_path / "twice.yaml").write_text(MAPPED_FILE)
    verified(load(tmp_path / "twice.yaml"), 1)


def test_a_kernel_takes_tensor_maps_by_pointer(tmp_path):
    """The host encodes a map, copies it to the device and passes its address; one of the two is acquired."""
    by_value, fence = "const __grid_constant__ CUtensorMap ", "fence.proxy.tensormap::generic.acquire.sys [%0], 128;"
    source = MAPPED.replace(by_value, "const CUtensorMap *").replace('"l"(&x)', '"l"(x)').replace('"l"(&y)', '"l"(y)')
    first = '    if (threadIdx.x == 0) {\n        asm volatile("mbarrier.init'
    source = source.replace(first, f'    asm volatile("{fence}" ::"l"(x) : "memory");\n{first}')
    (tmp_path / "twice.cu").write_text(source)
    (tmp_path / "twice.yaml").write_text(MAPPED_FILE)
    [record] = verified(load(tmp_path / "twice.yaml"), 1)
    [note] = [note for note in record.notes if "tensor map" in note]
    assert "cp.async.bulk.tensor" not in note
    assert "a tensor map in global memory without a fence.proxy.tensormap::generic.acquire" in note


def test_tensor_maps_lie_in_constant_memory(tmp_path):
    parameters = "const __grid_constant__ CUtensorMap y, const __grid_constant__ CUtensorMap x"
    source = MAPPED.replace(f"__global__ void twice({parameters})", "__global__ void twice(int rows)")
    (tmp_path / "twice.cu").write_text(source.replace("//", "__constant__ CUtensorMap y, x;\n//", 1))
    file = MAPPED_FILE.replace("arguments:", "arguments: {rows: int32}\nconstants:")
    (tmp_path / "twice.yaml").write_text(file)
    [record] = verified(load(tmp_path / "twice.yaml"), 1)
    assert record.notes == ()
    (tmp_path / "twice.cu").write_text(
        source.replace("//", "__constant__ CUtensorMap y[2], x;\n//", 1).replace("&y", "y")
    )
    experiment = load(tmp_path / "twice.yaml")
    [planned] = plan(experiment, expand(experiment).points, [toolchain("nvrtc")], ["sm_90"])
    [outcome] = build([build_task(planned)])
    context = FlowContext(experiment, None, emulate=True)
    mistake = flow.constant_mistake(context, flow.inspect(context, planned, outcome, None), outcome)
    for part in ("twice.yaml:6", "the variable y in constant memory has 256 bytes", "128 bytes", "CUtensorMap y"):
        assert part in str(mistake)


IM2COL = """
#include <cuda.h>
__device__ unsigned at(const void *p) { return __cvta_generic_to_shared(p); }
// sums the taps of a filter of 3 x 3 ones, padded by 1: a block has PIXELS outputs and 8 channels
__global__ void sums(float *y, const __grid_constant__ CUtensorMap x, int h, int w, int total) {
    __shared__ alignas(128) float tile[9][PIXELS * 8];
    __shared__ unsigned long long full;
    const int first = blockIdx.x * PIXELS, column = first % w - 1, row = first / w % h - 1, image = first / (w * h);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&full)) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(&full)), "r"(9 * PIXELS * 32));
        for (int tap = 0; tap < 9; ++tap)
            asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
                         "[%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};"
                         ::"r"(at(tile[tap])), "l"(&x), "r"(0), "r"(column), "r"(row), "r"(image), "r"(at(&full)),
                           "h"((unsigned short)(tap % 3)), "h"((unsigned short)(tap / 3)) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }"
                 ::"r"(at(&full)) : "memory");
    for (int i = threadIdx.x; i < PIXELS * 8 && first + i / 8 < total; i += 32) {
        float sum = 0;
        for (int tap = 0; tap < 9; ++tap) sum += tile[tap][i];
        y[first * 8 + i] = sum;
    }
}
"""
IM2COL_FILE = """source: sums.cu
problem: {n: 8, h: 64, w: 64}
emulate: {n: 2, h: 5, w: 7}
arguments:
  y: "out float32[n, h, w, 8]"
  x: "float32[n, h, w, 8] as im2col[PIXELS, 8] lower [-1, -1] upper [-1, -1]"
  h: int32
  w: int32
  total: int32 = n * h * w
parameters: {PIXELS: 16}
grid: ceil_div(n * h * w, PIXELS)
block: 32
reference: ./sums.py:sums
archs: [sm_90]
"""
IM2COL_REFERENCE = """import numpy as np


def sums(x):
    padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
    h, w = x.shape[1:3]
    return {"y": sum(padded[:, i : i + h, j : j + w] for i in range(3) for j in range(3))}
"""


def test_a_convolution_fetches_its_taps_by_im2col(tmp_path):
    (tmp_path / "sums.cu").write_text(IM2COL)
    (tmp_path / "sums.py").write_text(IM2COL_REFERENCE)
    (tmp_path / "sums.yaml").write_text(IM2COL_FILE)
    verified(load(tmp_path / "sums.yaml"), 1)
    (tmp_path / "sums.yaml").write_text(IM2COL_FILE.replace("upper [-1, -1]", "upper [-1, 900]"))
    with pytest.raises(UserError) as caught:
        verified(load(tmp_path / "sums.yaml"), 1)
    for part in ("sums.yaml:6", "this tensor map cannot be made", "900", "-128 to 127"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("map[BOX, 32]", "map[BX, 32]", ("twice.yaml:5", "unknown name 'BX'", "BOX")),
        ("map[BOX, 32]", "map[BOX, 300]", ("twice.yaml:5", "this tensor map cannot be made", "1 to 256")),
        ("float32[rows, columns] as map[BOX", "float32[rows, 97] as map[BOX", ("twice.yaml:5", "a multiple of 4")),
        ("out float32[rows, columns] as", "out complex64[rows, columns] as", ("twice.yaml:5", "complex64", "float16")),
    ],
)
def test_a_map_that_cannot_be_made_is_named_with_its_line(tmp_path, old, new, parts):
    (tmp_path / "twice.cu").write_text(MAPPED)
    (tmp_path / "twice.yaml").write_text(MAPPED_FILE.replace(old, new))
    with pytest.raises(UserError) as caught:
        verified(load(tmp_path / "twice.yaml"), 1)
    for part in parts:
        assert part in str(caught.value)
