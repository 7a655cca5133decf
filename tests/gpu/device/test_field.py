"""The device's own inputs, reference and comparison (field.cu), executed on the CPU and held against NumPy."""

from __future__ import annotations

from importlib import resources

import numpy as np
import pytest

from lab.emulator.api import launch
from lab.isa.ptx.module import read_ptx
from lab.toolchain.own import build_own

M, N, K, GUARD = 67, 45, 70, 1024


@pytest.fixture(scope="module")
def run():
    source = (resources.files("lab.gpu.device") / "field.cu").read_text(encoding="utf-8")
    module = read_ptx(build_own(source, "field.cu", "sm_90").ptx)

    def execute(name, blocks, *arguments):
        done = launch(module, name, (blocks, 1, 1), (256, 1, 1), list(arguments))
        assert not done.findings

    return execute


def normal(run, count, seed):
    array = np.full(count, np.nan, np.float32)
    run("fill_normal", 2, array, np.int64(count), np.uint64(seed))
    return array


def operands(run, layout):
    """A, B with their strides along (rows or columns of C, k), and op(A), op(B) in float64."""
    a, b = normal(run, M * K, 0), normal(run, K * N, 1)
    a_strides = (1, M) if layout[0] == "n" else (K, 1)
    b_strides = (1, K) if layout[1] == "n" else (N, 1)
    op_a = a.reshape(K, M).T if layout[0] == "n" else a.reshape(M, K)
    op_b = b.reshape(N, K).T if layout[1] == "n" else b.reshape(K, N)
    return a, b, a_strides, b_strides, op_a.astype(np.float64), op_b.astype(np.float64)


def test_inputs_are_standard_normal_and_of_their_seed(run):
    x, y = normal(run, 5000, 0), normal(run, 5000, 1)
    for array in (x, y):
        assert abs(array.mean()) < 0.05
        assert abs(array.std() - 1) < 0.05
        assert 3 < np.abs(array).max() < 8
    assert abs(np.corrcoef(x, y)[0, 1]) < 0.05
    assert np.array_equal(x, normal(run, 5000, 0))


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_the_reference_is_numpys(run, layout):
    a, b, (ai, ap), (bp, bj), op_a, op_b = operands(run, layout)
    values, rows, columns = np.zeros(M * N), np.zeros(M), np.zeros(N)
    shape = tuple(np.int32(extent) for extent in (M, N, K))
    blocks = -(-M // 64) * -(-N // 64)
    run("reference", blocks, *shape, a, np.int64(ai), np.int64(ap), b, np.int64(bp), np.int64(bj), values)
    run("norms", M, a, np.int64(ai), np.int64(ap), np.int32(K), rows)
    run("norms", N, b, np.int64(bj), np.int64(bp), np.int32(K), columns)
    assert np.allclose(values.reshape(N, M).T, op_a @ op_b, rtol=1e-12, atol=1e-12)
    assert np.allclose(rows, np.linalg.norm(op_a, axis=1), rtol=1e-12)
    assert np.allclose(columns, np.linalg.norm(op_b, axis=0), rtol=1e-12)


@pytest.mark.parametrize(
    ("place", "value", "largest"),
    [
        (None, 0.0, 0.0),
        (3, np.nan, np.inf),
        (5, 1.5, 0.5 / 6),
        (M * N + 7, 1.0, np.inf),
        (M * N + GUARD - 1, 0.0, np.inf),
    ],
)
def test_the_comparison_finds_the_largest_error_and_stray_writes(run, place, value, largest):
    got = np.concatenate([np.ones(M * N, np.float32), np.full(GUARD, 0xFFFFFFFF, np.uint32).view(np.float32)])
    if place is not None:
        got[place] = value
    rows, columns, worst = np.full(M, 2.0), np.full(N, 3.0), np.zeros(1, np.uint64)
    shape = tuple(np.int32(extent) for extent in (M, N, GUARD))
    run("compare", 4, got, np.ones(M * N), rows, columns, *shape, worst)
    assert worst.view(np.float64)[0] == pytest.approx(largest)
