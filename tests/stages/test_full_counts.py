"""Counts of random blocks at the problem's own size."""

from pathlib import Path

import compiling
import pytest

from lab.operators.declared.declaration import declare
from lab.stages.full_counts import count_full_size, counted_launches, counted_share
from lab.stages.full_size import FullSizeTask, SizedLaunches
from lab.templates.launches import Launch, Launches

SOURCE = """extern "C" __global__ void gather(float* y, const float* x, const int* at, int n, int m) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) y[i] = x[at[i]];
}
extern "C" __global__ void rising(float* y, const float* x, const int* at, int n, int m) {
  float s = 0;
  for (int j = 0; j < blockIdx.x; ++j) s = s * 0.5f + x[(threadIdx.x + j) % m];
  if (blockIdx.x * 128 + threadIdx.x < n) y[blockIdx.x * 128 + threadIdx.x] = s;
}
extern "C" __global__ void later(float* y, int n) {
  if (blockIdx.x * 128 + threadIdx.x < n) y[blockIdx.x * 128 + threadIdx.x] *= 2;
}"""


@pytest.fixture(scope="module")
def ptx():
    return compiling.compile_text(SOURCE)


@pytest.fixture(scope="module")
def operator():
    arguments = {
        "y": "out float32[n]", "x": "float32[m]", "at": "int32[n] uniform 0 m", "n": "int32", "m": "int32"
    }  # fmt: skip
    declared, mistakes = declare(
        "k", arguments=arguments, reference={"y": "take(x, at)"}, folder=Path(), problem=["n", "m"], parameters=[]
    )
    assert mistakes == ()
    return declared.reference


def task_of(operator, *entries, n=1 << 22, m=1 << 20, block_warps=0.0):
    full = (("y", "float32*"), ("x", "float32*"), ("at", "int32*"), ("n", "int32"), ("m", "int32"))
    short = (("y", "float32*"), ("n", "int32"))
    steps = tuple(
        Launch(entry, (n // 128, 1, 1), (128, 1, 1), 0, short if entry == "later" else full) for entry in entries
    )
    return FullSizeTask(
        operator, 0, SizedLaunches({"n": n, "m": m}, Launches(steps)), 50_000_000, block_warps=block_warps
    )


def test_addresses_are_those_of_the_real_arrays(ptx, operator):
    (counted,) = count_full_size(task_of(operator, "gather"), ptx)
    assert counted.blocks == counted.result.finished == 256
    loads = counted.result.counts.memory["global.load"]
    # of a million elements, no two lanes of a warp take neighbours: 32 sectors, and 4 of the indices
    assert loads.sectors / (counted.blocks * 4) == pytest.approx(36, rel=0.01)
    assert counted.result.reuse.lonely > 200


def test_blocks_stand_for_the_whole_grid(ptx, operator):
    n = 1 << 17
    (counted,) = count_full_size(task_of(operator, "rising", n=n), ptx)
    warps = counted.result.counts.memory["global.load"].requests / counted.blocks
    assert warps == pytest.approx(4 * (n // 128 - 1) / 2, rel=0.05)  # a block makes as many passes as its number
    assert counted_share([counted]) == counted.blocks / 1024
    (step,) = counted_launches(task_of(operator, "rising", n=n).full.launches, [counted]).steps
    assert step.grid == (counted.blocks, 1, 1)


def test_long_blocks_are_executed_as_machine_code_and_too_long_ones_not_at_all(ptx, operator):
    (counted,) = count_full_size(task_of(operator, "rising", n=1 << 15, block_warps=1e7), ptx)
    assert (counted.result.engine, counted.blocks) == ("compiled", 4)


def test_launches_that_read_what_all_blocks_write_are_not_counted(ptx, operator):
    assert count_full_size(task_of(operator, "gather", "later"), ptx) == ()
