"""The device's inputs, reference and comparison (field.cu), emulated and compared with NumPy; the class, on a driver
that is played."""

from __future__ import annotations

from dataclasses import dataclass

import fake_pycuda
import numpy as np
import pytest
from fake_pycuda import view

from lab.emulator.api import launch
from lab.gpu.device.backend import BaselineMissingError, DeviceError, RefusedError
from lab.isa.ptx.module import read_ptx
from lab.operators.builtin import operator
from lab.operators.matrices import tolerance_of_sums
from lab.operators.stored import empty, parts, stored, wide, widened
from lab.templates.launches import Launch, Launches, Workspace
from lab.toolchain.own import build_own

M, N, K, GUARD = 67, 45, 70, 1024


ELEMENTS = ("float32", "float64", "float16", "bfloat16", "complex64", "complex128")


@pytest.fixture(scope="module", params=ELEMENTS)
def dtype(request):
    return request.param


@pytest.fixture(scope="module")
def run(dtype):
    with fake_pycuda.installed():
        from lab.gpu.device.field import source_of  # noqa: PLC0415 - PyCUDA is played by now
    module = read_ptx(build_own(source_of(dtype), "field.cu", "sm_90").ptx)

    def execute(name, blocks, *arguments):
        done = launch(module, name, (blocks, 1, 1), (256, 1, 1), list(arguments))
        assert not done.findings

    return execute


def normal(run, count, seed, dtype):
    array = empty(count, dtype)
    run("fill_normal", 2, array, np.int64(count), np.uint64(seed))
    return array


def operands(run, layout, dtype):
    """A, B with their strides along (rows or columns of C, k), and op(A), op(B) in float64 or complex128."""
    a, b = normal(run, M * K, 0, dtype), normal(run, K * N, 1, dtype)
    a_strides = (1, M) if layout[0] == "n" else (K, 1)
    b_strides = (1, K) if layout[1] == "n" else (N, 1)
    op_a = a.reshape(K, M).T if layout[0] == "n" else a.reshape(M, K)
    op_b = b.reshape(N, K).T if layout[1] == "n" else b.reshape(K, N)
    return a, b, a_strides, b_strides, wide(op_a), wide(op_b)


def test_inputs_are_standard_normal_and_of_their_seed(run, dtype):
    x, y = (widened(parts(normal(run, 5000, seed, dtype))) for seed in (0, 1))
    for array in (x, y):
        assert abs(array.mean()) < 0.05
        assert abs(array.std() - 1) < 0.05
        assert 3 < np.abs(array).max() < 8
    assert abs(np.corrcoef(x, y)[0, 1]) < 0.05
    assert np.array_equal(x, widened(parts(normal(run, 5000, 0, dtype))))
    assert np.array_equal(x, x.astype(np.float32))  # as the operator draws them


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_the_reference_is_numpys(run, layout, dtype):
    if dtype != "float32" and layout in ("nt", "tn"):
        pytest.skip("the strides of two layouts are enough for the other types")
    a, b, (ai, ap), (bp, bj), op_a, op_b = operands(run, layout, dtype)
    values, rows, columns = np.zeros(M * N, op_a.dtype), np.zeros(M), np.zeros(N)
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
def test_the_comparison_finds_the_largest_error_and_stray_writes(run, dtype, place, value, largest):
    some = parts(stored(np.ones(M * N, np.float32), dtype))
    components = some.size // (M * N)
    if components > 1:
        some[1::2] = 1  # as the imaginary parts of what is expected below
    guard = np.full(components * GUARD * some.itemsize, 0xFF, np.uint8).view(some.dtype)
    got = np.concatenate([some, guard])
    if place is not None:
        got[components * place + components - 1] = parts(stored(np.array([value], np.float32), dtype))[0]
    rows, columns, worst = np.full(M, 2.0), np.full(N, 3.0), np.zeros(1, np.uint64)
    shape = tuple(np.int32(extent) for extent in (M, N, 1, GUARD))
    bound = np.float64(1), np.float64(0), np.float64(0)
    run("compare", 4, got, np.ones(components * M * N), rows, columns, *shape, *bound, worst)
    assert worst.view(np.float64)[0] == pytest.approx(largest)


def test_errors_are_relative_to_the_norms_the_value_and_the_least(run, dtype):
    components = 2 if dtype.startswith("complex") else 1
    got, worst = parts(stored(np.full(M * N, 1.5, np.float32), dtype)), np.zeros(1, np.uint64)
    shape = tuple(np.int32(extent) for extent in (M, N, 1, 0))
    expected = np.where(np.arange(components * M * N) % components, 0.0, 1.0)
    bound = np.float64(0.25), np.float64(2), np.float64(0.5)
    run("compare", 4, got, expected, np.full(M, 2.0), np.full(N, 3.0), *shape, *bound, worst)
    assert worst.view(np.float64)[0] == pytest.approx(0.5 / (0.25 * 6 + 2 * 1 + 0.5))


@dataclass(frozen=True)
class Played:
    """The field's kernels and one that is timed, on an element type."""

    dtype: str

    def fill_normal(self, grid, to, count, seed):
        view(to, self.dtype, count)[:] = np.random.default_rng(seed).standard_normal(count, dtype=np.float32)

    def strided(self, at, rows, apart, columns, step):
        """The elements [i * apart + p * step] of device memory, in float64."""
        flat = view(at, self.dtype, (rows - 1) * apart + (columns - 1) * step + 1)
        return flat[np.arange(rows)[:, None] * apart + np.arange(columns) * step].astype(np.float64)

    def norms(self, grid, at, apart, step, k, to):
        view(to, np.float64, grid[0])[:] = np.linalg.norm(self.strided(at, grid[0], apart, k, step), axis=1)

    def reference(self, grid, m, n, k, a, ai, ap, b, bp, bj, to):
        assert grid[0] == -(-m // 64) * -(-n // 64)
        product = self.strided(a, m, ai, k, ap) @ self.strided(b, n, bj, k, bp).T
        view(to, np.float64, m * n)[:] = product.ravel(order="F")

    def compare(self, grid, c, values, rows, columns, m, n, batch, guard, *of_bound_and_worst):
        *_, worst = of_bound_and_worst
        lengths = ((columns, n), (rows, m))
        sides = (view(at, np.float64, batch * length).reshape(batch, length) for at, length in lengths)
        scale, count = np.concatenate([np.outer(*own).ravel() for own in zip(*sides, strict=True)]), m * n * batch
        error = np.abs(view(c, self.dtype, count) - view(values, np.float64, count)) / scale
        item = np.dtype(self.dtype).itemsize
        untouched = (view(int(c) + item * count, np.uint8, item * guard) == 0xFF).all()
        largest = np.nan_to_num(error, nan=np.inf).max() if untouched else np.inf
        view(worst, np.float64, 1)[0] = largest

    def product(self, grid, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
        """C = A B of the layout nn, as a kernel under test would compute it."""
        found = self.strided(a, m, 1, k, lda) @ self.strided(b, n, ldb, k, 1).T
        view(c, self.dtype, m * n)[:] = found.ravel(order="F")

    @property
    def gemm(self):
        names = ("m", "n", "k", "alpha", "A", "lda", "B", "ldb", "beta", "C", "ldc")
        types = {**dict.fromkeys("ABC", f"{self.dtype}*"), **dict.fromkeys(("alpha", "beta"), self.dtype)}
        arguments = tuple((name, types.get(name, "int32")) for name in names)
        return Launches((Launch("product", (1, 1, 1), (128, 1, 1), 0, arguments),))


@pytest.fixture(params=["float32", "float64"])
def played(cuda, request):
    found = Played(request.param)
    cuda.kernels |= {name: getattr(found, name) for name in ("fill_normal", "norms", "reference", "compare", "product")}
    return found


@pytest.fixture
def field(cuda, played):
    """Make a field on a driver that is played; named arguments replace the usual ones."""
    from lab.gpu.device.field import CudaField  # noqa: PLC0415 - PyCUDA is played by now
    from lab.gpu.device.launching import Launcher  # noqa: PLC0415 - as above

    def absent():
        raise BaselineMissingError("libcublas was not found")

    def make(**given):
        wanted = {"dtype": played.dtype, "elements": (4000, 4000, 4000), "workspace_bytes": 1024, "seed": 3, **given}
        return CudaField("sm_90", cuda.Stream(), Launcher(cuda.Device(0), cuda.Stream()), absent, **wanted)

    return make


def problem(played, m=33, n=20, k=50):
    return operator("gemm").problem({"m": m, "n": n, "k": k, "dtype": played.dtype})


def test_a_right_kernel_has_a_small_error_at_every_size(field, played):
    cuda_field = field()
    for size in ((33, 20, 50), (1, 1, 1), (60, 66, 60)):
        cuda_field.expect(problem(played, *size))
        launch = cuda_field.kernel("one", b"cubin", played.gemm, problem(played, *size))
        assert cuda_field.check(launch) <= tolerance_of_sums(played.dtype)


def test_every_member_of_a_batch_is_compared(field, played, cuda):
    cuda_field, batch = field(), 3
    of = operator("gemm").problem({"m": 33, "n": 20, "k": 50, "batch": batch, "dtype": played.dtype})
    cuda_field.expect(of)
    launch = cuda_field.kernel("one", b"cubin", played.gemm, of)
    wrong: list[int] = []

    def members(grid, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
        item = np.dtype(played.dtype).itemsize
        for i in range(batch):
            at_a, at_b, at_c = (int(at) + item * i * each for at, each in ((a, m * k), (b, k * n), (c, m * n)))
            played.product(grid, m, n, k, alpha, at_a, lda, at_b, ldb, beta, at_c, ldc)
            if i in wrong:
                view(at_c, played.dtype, m * n)[-1] += 1

    cuda.kernels["product"] = members
    assert cuda_field.check(launch) <= tolerance_of_sums(played.dtype)
    for member in range(batch):
        wrong[:] = [member]
        assert cuda_field.check(launch) > 1e-3


def test_the_comparison_takes_each_members_norms(run, dtype):
    got, worst = parts(stored(np.full(2 * M * N, 1.5, np.float32), dtype)), np.zeros(1, np.uint64)
    components = 2 if dtype.startswith("complex") else 1
    got[1::2] = got[1::2] if components == 1 else 0
    rows, columns = np.repeat([8.0, 2.0], M), np.repeat([1.0, 3.0], N)
    shape = tuple(np.int32(extent) for extent in (M, N, 2, 0))
    expected = np.where(np.arange(2 * components * M * N) % components, 0.0, 1.0)
    expected[: components * M * N] = got[: components * M * N].astype(np.float64) if dtype != "bfloat16" else 1.5
    run("compare", 4, got, expected, rows, columns, *shape, *map(np.float64, (1, 0, 0)), worst)
    assert worst.view(np.float64)[0] == pytest.approx(0.5 / 6)


def test_wrong_missing_and_stray_results_are_found(field, played, cuda):
    cuda_field = field()
    cuda_field.expect(problem(played))
    launch = cuda_field.kernel("one", b"cubin", played.gemm, problem(played))
    cuda.kernels["product"] = lambda grid, *values: None  # C keeps its NaN
    assert cuda_field.check(launch) == np.inf

    def stray(grid, *values):
        played.product(grid, *values)
        view(values[9], played.dtype, 33 * 20 + 8)[-1] = 0

    cuda.kernels["product"] = stray
    assert cuda_field.check(launch) == np.inf

    def off(grid, *values):
        played.product(grid, *values)
        view(values[9], played.dtype, 1)[0] += 1

    cuda.kernels["product"] = off
    assert 1e-3 < cuda_field.check(launch) < np.inf


def test_a_kernel_is_loaded_once(field, played, cuda):
    cuda_field = field()
    loaded = len(cuda.loaded)
    for _ in range(2):
        cuda_field.kernel("one", b"cubin", played.gemm, problem(played))
    assert len(cuda.loaded) == loaded + 1


def test_workspace_buffers_lie_one_behind_another(field, played, cuda):
    launches_seen = []
    cuda.kernels["scratch"] = lambda grid, *values: launches_seen.append(values)
    launch = Launch("scratch", (1, 1, 1), (32, 1, 1), 0, (("u", "float32*"), ("v", "float32*")))
    scratch = (Workspace("u", "float32", 65), Workspace("v", "float32", 1, zero=True))
    cuda_field = field()
    cuda_field.kernel("one", b"cubin", Launches((launch,), scratch), problem(played))()
    ((u, v),) = launches_seen
    assert v - u == 512
    assert view(v, np.float32, 1)[0] == 0


def test_more_workspace_than_was_allocated_is_refused(field, played):
    scratch = (Workspace("u", "float32", 10_000),)
    with pytest.raises(RefusedError, match="the workspace takes 40192 bytes; 1024 were allocated"):
        field().kernel("one", b"cubin", Launches(played.gemm.steps, scratch), problem(played))


def test_a_missing_cublas_is_a_missing_baseline(field, played):
    with pytest.raises(BaselineMissingError, match="libcublas was not found"):
        field().baseline(problem(played))


def test_a_reference_that_differs_from_numpys_is_not_trusted(field, played, cuda):
    def off(grid, m, n, k, *values):
        played.reference(grid, m, n, k, *values)
        view(values[-1], np.float64, m * n)[7] += 1

    cuda.kernels["reference"] = off
    with pytest.raises(DeviceError, match=r"the device's reference differs from NumPy's by .* \(layout nn\)"):
        field()


def test_other_types_are_refused(field):
    with pytest.raises(DeviceError, match=r"a survey supports float32, .*, complex128, not in int8"):
        field(dtype="int8")
