"""Products that wrap around."""

import compiling
import numpy as np
import pytest

from lab.emulator.api import launch

SOURCE = """extern "C" __global__ void rows(float* y, int rows, int pitch) {
  int r = blockIdx.x;
  long long at = r * pitch;
  if (threadIdx.x == 0) y[r & 7] = at;
}
extern "C" __global__ void shares(unsigned* y, int n) {
  int begin = n * blockIdx.x / gridDim.x;
  if (threadIdx.x == 0) y[blockIdx.x & 7] = begin;
}
extern "C" __global__ void hash(unsigned* y, int n) {
  y[threadIdx.x & 7] = threadIdx.x * 2654435761u;
}"""


@pytest.fixture(scope="module")
def ptx():
    return compiling.compile_text(SOURCE, "-lineinfo")


def lines(ptx, kernel, grid, *scalars, blocks=None):
    y = np.zeros(8, np.float32 if kernel == "rows" else np.uint32)
    found = launch(ptx, kernel, grid, 32, [y, *scalars], blocks=blocks, wraps=True, engine="auto")
    return [one.line for one in found.wraps]


def test_an_index_that_is_too_large_for_its_type(ptx):
    assert lines(ptx, "rows", 300_000, 300_000, 8960, blocks=[299_999]) == [3]
    assert lines(ptx, "rows", 300_000, 300_000, 8960, blocks=[5]) == []


def test_a_share_of_a_large_array(ptx):
    assert lines(ptx, "shares", 1000, 100_000_000, blocks=[0, 999]) == [7]
    assert lines(ptx, "shares", 1000, 1_000_000, blocks=[0, 999]) == []


def test_a_hash_wraps_on_purpose(ptx):
    assert lines(ptx, "hash", 1, 0) == []


def test_nobody_asked(ptx):
    assert launch(ptx, "rows", 8, 32, [np.zeros(8, np.float32), 8, 2**30]).wraps == ()
