"""The device's inputs, reference and comparison (field.cu), emulated and compared with NumPy; the class, on a driver
that is played."""

from __future__ import annotations

from importlib import resources

import numpy as np
import pytest
from fake_pycuda import view

from lab.emulator.api import launch
from lab.gpu.device.backend import BaselineMissingError, DeviceError, RefusedError
from lab.isa.ptx.module import read_ptx
from lab.operators.builtin import operator
from lab.templates.launches import Launch, Launches, Workspace
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


def fill_normal(grid, to, count, seed):
    view(to, np.float32, count)[:] = np.random.default_rng(seed).standard_normal(count, dtype=np.float32)


def strided(at, rows, apart, columns, step):
    """The elements [i * apart + p * step] of device memory, in float64."""
    flat = view(at, np.float32, (rows - 1) * apart + (columns - 1) * step + 1)
    return flat[np.arange(rows)[:, None] * apart + np.arange(columns) * step].astype(np.float64)


def norms(grid, at, apart, step, k, to):
    view(to, np.float64, grid[0])[:] = np.linalg.norm(strided(at, grid[0], apart, k, step), axis=1)


def reference(grid, m, n, k, a, ai, ap, b, bp, bj, to):
    assert grid[0] == -(-m // 64) * -(-n // 64)
    product = strided(a, m, ai, k, ap) @ strided(b, n, bj, k, bp).T
    view(to, np.float64, m * n)[:] = product.ravel(order="F")


def compare(grid, c, values, rows, columns, m, n, guard, worst):
    scale = np.outer(view(columns, np.float64, n), view(rows, np.float64, m)).ravel()
    error = np.abs(view(c, np.float32, m * n) - view(values, np.float64, m * n)) / scale
    untouched = (view(int(c) + 4 * m * n, np.uint32, guard) == 0xFFFFFFFF).all()
    largest = np.nan_to_num(error, nan=np.inf).max() if untouched else np.inf
    view(worst, np.float64, 1)[0] = largest


def product(grid, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    """C = A B of the layout nn, as a kernel under test would compute it."""
    found = strided(a, m, 1, k, lda) @ strided(b, n, ldb, k, 1).T
    view(c, np.float32, m * n)[:] = found.ravel(order="F")


ARGUMENTS = (
    *(("m", "int32"), ("n", "int32"), ("k", "int32"), ("alpha", "float32"), ("A", "float32*"), ("lda", "int32")),
    *(("B", "float32*"), ("ldb", "int32"), ("beta", "float32"), ("C", "float32*"), ("ldc", "int32")),
)
GEMM = Launches((Launch("product", (1, 1, 1), (128, 1, 1), 0, ARGUMENTS),))


@pytest.fixture
def field(cuda):
    """Make a field on a driver that is played; named arguments replace the usual ones."""
    from lab.gpu.device.field import CudaField  # noqa: PLC0415 - PyCUDA is played by now
    from lab.gpu.device.launching import Launcher  # noqa: PLC0415 - as above

    cuda.kernels |= {"fill_normal": fill_normal, "norms": norms, "reference": reference, "compare": compare}
    cuda.kernels["product"] = product

    def absent():
        raise BaselineMissingError("libcublas was not found")

    def make(**given):
        wanted = {"dtype": "float32", "elements": (4000, 4000, 4000), "workspace_bytes": 1024, "seed": 3, **given}
        return CudaField("sm_90", cuda.Stream(), Launcher(cuda.Device(0), cuda.Stream()), absent, **wanted)

    return make


def problem(m=33, n=20, k=50):
    return operator("gemm").problem({"m": m, "n": n, "k": k})


def test_a_right_kernel_has_a_small_error_at_every_size(field):
    made = field()
    for size in ((33, 20, 50), (1, 1, 1), (60, 66, 60)):
        made.expect(problem(*size))
        assert made.check(made.kernel("one", b"cubin", GEMM, problem(*size))) < 1e-6


def test_wrong_missing_and_stray_results_are_found(field, cuda):
    made = field()
    made.expect(problem())
    launch = made.kernel("one", b"cubin", GEMM, problem())
    cuda.kernels["product"] = lambda grid, *values: None  # C keeps its NaN
    assert made.check(launch) == np.inf

    def stray(grid, *values):
        product(grid, *values)
        view(values[9], np.float32, 33 * 20 + 8)[-1] = 0

    cuda.kernels["product"] = stray
    assert made.check(launch) == np.inf

    def off(grid, *values):
        product(grid, *values)
        view(values[9], np.float32, 1)[0] += 1

    cuda.kernels["product"] = off
    assert 1e-3 < made.check(launch) < np.inf


def test_a_kernel_is_loaded_once(field, cuda):
    made = field()
    loaded = len(cuda.loaded)
    for _ in range(2):
        made.kernel("one", b"cubin", GEMM, problem())
    assert len(cuda.loaded) == loaded + 1


def test_workspace_buffers_lie_one_behind_another(field, cuda):
    seen = []
    cuda.kernels["scratch"] = lambda grid, *values: seen.append(values)
    launch = Launch("scratch", (1, 1, 1), (32, 1, 1), 0, (("u", "float32*"), ("v", "float32*")))
    scratch = (Workspace("u", "float32", 65), Workspace("v", "float32", 1, zero=True))
    made = field()
    made.kernel("one", b"cubin", Launches((launch,), scratch), problem())()
    ((u, v),) = seen
    assert v - u == 512
    assert view(v, np.float32, 1)[0] == 0


def test_more_workspace_than_was_allocated_is_refused(field):
    scratch = (Workspace("u", "float32", 10_000),)
    with pytest.raises(RefusedError, match="the workspace takes 40192 bytes; 1024 were allocated"):
        field().kernel("one", b"cubin", Launches(GEMM.steps, scratch), problem())


def test_a_missing_cublas_is_a_missing_baseline(field):
    with pytest.raises(BaselineMissingError, match="libcublas was not found"):
        field().baseline(problem())


def test_a_reference_that_differs_from_numpys_is_not_trusted(field, cuda):
    def off(grid, m, n, k, *values):
        reference(grid, m, n, k, *values)
        view(values[-1], np.float64, m * n)[7] += 1

    cuda.kernels["reference"] = off
    with pytest.raises(DeviceError, match=r"the device's reference differs from NumPy's by .* \(layout nn\)"):
        field()


def test_other_types_than_float32_are_refused(field):
    with pytest.raises(DeviceError, match="a survey computes in float32, not in float64"):
        field(dtype="float64")
