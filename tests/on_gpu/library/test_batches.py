"""A library of batches computes each batch on a real GPU by one call, from Python and from C."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
from real_libraries import BATCHED, cases, check, operands, poisoned, write_library

from lab.library import dispatch
from lab.toolchain import locate

pytestmark = pytest.mark.gpu

GCC = shutil.which("gcc")
GUARD = 13
"""Elements between the members of C, which no launch may write."""


@pytest.fixture(scope="module", params=["nn", "nt", "tn", "tt"])
def batches(gpu, request, tmp_path_factory):
    """Layout, folder, and the sizes of which every kernel is the pick of some."""
    folder = tmp_path_factory.mktemp("batches")
    return request.param, folder, write_library(request.param, gpu.arch, folder, batched=True)


def members(layout, m, n, k, batch):
    """A and B of every member."""
    rng = np.random.default_rng(batch)
    shapes = [x.shape for x in operands(layout, m, n, k)]
    return [[np.asfortranarray(rng.standard_normal(shape, dtype=np.float32)) for _ in range(batch)] for shape in shapes]


def laid(matrices, gap=0):
    """Column-major members one behind another, with a gap of NaN behind each."""
    rows = [np.concatenate([x.ravel(order="F"), np.full(gap, np.nan, np.float32)]) for x in matrices]
    return np.concatenate(rows)


class Strided:
    """A batch on the GPU, as an array's interface."""

    def __init__(self, place, shape, batch, stride):
        self.__cuda_array_interface__ = {
            "shape": (batch, *shape),
            "strides": (4 * stride, 4, 4 * shape[0]),
            "typestr": "<f4",
            "data": (int(place), False),
            "version": 3,
        }


@pytest.mark.parametrize("expanded", [False, True])
def test_python_computes_every_member(batches, driver, expanded):
    layout, folder, sizes = batches
    loaded, picked = dispatch.load(folder), set()
    for (m, n, k, batch), factors in cases(sizes):
        a, b = members(layout, m, n, k, batch)
        b = b[:1] * batch if expanded else b
        before = poisoned(m, n, factors[1])
        held = [driver.to_device(laid(x)) for x in (a, b[:1] if expanded else b)]
        result = driver.to_device(laid([before] * batch, GUARD))
        loaded.gemm_batched(
            factors[0],
            Strided(held[0], a[0].shape, batch, m * k),
            Strided(held[1], b[0].shape, batch, 0 if expanded else k * n),
            factors[1],
            Strided(result, (m, n), batch, m * n + GUARD),
        )
        got = driver.from_device(result, (batch, m * n + GUARD), np.float32)
        assert np.isnan(got[:, m * n :]).all()
        for i in range(batch):
            check(layout, a[i], b[i], factors, before, got[i, : m * n].reshape((m, n), order="F"))
        picked.add(loaded.select(m, n, k, batch))
    assert picked == set(BATCHED)


def test_one_product_is_a_batch_of_one(batches, driver):
    from pycuda import gpuarray  # noqa: PLC0415

    layout, folder, _ = batches
    m, n, k = 67, 31, 130
    a, b = operands(layout, m, n, k)
    before = poisoned(m, n, 0.0)
    on_device = gpuarray.to_gpu(before)
    dispatch.load(folder).gemm(1.5, gpuarray.to_gpu(a), gpuarray.to_gpu(b), 0.0, on_device)
    check(layout, a, b, (1.5, 0.0), before, on_device.get())


@pytest.mark.skipif(GCC is None, reason="gcc compiles the library")
def test_c_computes_every_member(batches, driver, tmp_path):
    layout, folder, sizes = batches
    shared, headers = tmp_path / "libsgemm.so", locate.headers()
    assert GCC is not None
    assert headers is not None
    flags = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC")
    subprocess.run([GCC, *flags, "-I", headers, "-o", shared, folder / "sgemm.c"], check=True)
    ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)  # whose functions the library calls
    c = ctypes.CDLL(str(shared))
    handle, int64, real, address = ctypes.c_void_p(), ctypes.c_int64, ctypes.c_float, ctypes.c_uint64
    assert c.sgemm_open(ctypes.byref(handle), str(folder).encode()) == 0
    for (m, n, k, batch), (alpha, beta) in cases(sizes):
        a, b = members(layout, m, n, k, batch)
        b = b[:1] * batch
        before = poisoned(m, n, beta)
        devices = [driver.to_device(x) for x in (laid(a), laid(b[:1]), laid([before] * batch, GUARD))]
        size = *(int64(x) for x in (m, n, k, batch)), real(alpha)
        lda, ldb, ldc = (int64(x.shape[0]) for x in (a[0], b[0], before))
        strides = int64(m * k), int64(0), int64(m * n + GUARD)
        needed = ctypes.c_size_t()
        status = c.sgemm_workspace_batched(
            *size, lda, strides[0], ldb, strides[1], real(beta), ldc, strides[2], ctypes.byref(needed)
        )
        assert status == 0
        scratch = driver.mem_alloc(max(1, needed.value))
        driver.memset_d8(scratch, 0xFF, max(1, needed.value))  # NaN, which the library has to zero or overwrite
        status = c.sgemm_gemm_batched(
            handle, *size, address(int(devices[0])), lda, strides[0], address(int(devices[1])), ldb, strides[1],
            real(beta), address(int(devices[2])), ldc, strides[2], address(int(scratch)), needed, None,
        )  # fmt: skip
        assert status == 0
        got = driver.from_device(devices[2], (batch, m * n + GUARD), np.float32)
        assert np.isnan(got[:, m * n :]).all()
        for i in range(batch):
            check(layout, a[i], b[i], (alpha, beta), before, got[i, : m * n].reshape((m, n), order="F"))
    c.sgemm_close(handle)
