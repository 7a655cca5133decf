"""A library computes on a real GPU: by `lab.dispatch`, and by its C source in a shared object."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
from real_libraries import cases, check, kernels_for, operands, poisoned

from lab.library import dispatch
from lab.toolchain import locate

pytestmark = pytest.mark.gpu

GCC = shutil.which("gcc")


def test_python_computes_with_every_kernel(library, driver, gpu):
    from pycuda import gpuarray  # noqa: PLC0415

    layout, folder, sizes = library
    loaded, picked = dispatch.load(folder), set()
    for (m, n, k), (alpha, beta) in cases(sizes):
        a, b = operands(layout, m, n, k)
        before = poisoned(m, n, beta)
        on_device = gpuarray.to_gpu(before)
        loaded.gemm(alpha, gpuarray.to_gpu(a), gpuarray.to_gpu(b), beta, on_device)
        check(layout, a, b, (alpha, beta), before, on_device.get())
        picked.add(loaded.select(m, n, k))
    assert picked == set(kernels_for(gpu.arch))


def test_tensors_of_torch_are_taken_where_they_are(library, driver):
    torch = pytest.importorskip("torch")
    layout, folder, _ = library
    m, n, k = 257, 130, 1000
    a, b = operands(layout, m, n, k)
    before = poisoned(m, n, 0.0)
    ours = [torch.from_numpy(np.ascontiguousarray(x.T)).cuda().T for x in (a, b, before)]  # column-major views
    dispatch.load(folder).gemm(1.0, ours[0], ours[1], 0.0, ours[2])
    torch.cuda.synchronize()
    check(layout, a, b, (1.0, 0.0), before, ours[2].cpu().numpy())


@pytest.mark.skipif(GCC is None, reason="gcc compiles the library")
def test_c_computes_with_every_kernel(library, driver, tmp_path):
    layout, folder, sizes = library
    shared, headers = tmp_path / "libsgemm.so", locate.headers()
    assert GCC is not None
    assert headers is not None
    flags = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC")
    subprocess.run([GCC, *flags, "-I", headers, "-o", shared, folder / "sgemm.c"], check=True)
    ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)  # whose functions the library calls
    c = ctypes.CDLL(str(shared))
    handle, int64, real = ctypes.c_void_p(), ctypes.c_int64, ctypes.c_float
    address = ctypes.c_uint64
    assert c.sgemm_open(ctypes.byref(handle), str(folder).encode()) == 0
    for (m, n, k), (alpha, beta) in cases(sizes):
        a, b = operands(layout, m, n, k)
        before = poisoned(m, n, beta)
        devices = [driver.to_device(np.ravel(x, order="F")) for x in (a, b, before)]
        size = int64(m), int64(n), int64(k), real(alpha)
        needed = ctypes.c_size_t()
        leading = [int64(x.shape[0]) for x in (a, b, before)]
        assert c.sgemm_workspace(*size, leading[0], leading[1], real(beta), leading[2], ctypes.byref(needed)) == 0
        scratch = driver.mem_alloc(max(1, needed.value))
        driver.memset_d8(scratch, 0xFF, max(1, needed.value))  # NaN, which the library has to zero or overwrite
        status = c.sgemm_gemm(
            handle, *size, address(int(devices[0])), leading[0], address(int(devices[1])), leading[1], real(beta),
            address(int(devices[2])), leading[2], address(int(scratch)), needed, None,
        )  # fmt: skip
        assert status == 0
        got = np.empty(m * n, np.float32)
        driver.memcpy_dtoh(got, devices[2])
        check(layout, a, b, (alpha, beta), before, got.reshape((m, n), order="F"))
    c.sgemm_close(handle)
