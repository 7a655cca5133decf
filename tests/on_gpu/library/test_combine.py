"""Products whose alpha and beta lie on the GPU, by `lab.dispatch` and by the library's C."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
from real_libraries import check, operands, poisoned

from lab.library import dispatch
from lab.toolchain import locate

pytestmark = pytest.mark.gpu

GCC = shutil.which("gcc")
SIZE = (257, 130, 1000)
FACTORS = [(1.5, -0.5), (2.0, 0.0), (0.0, 3.0), (0.0, 0.0)]


@pytest.fixture(scope="module")
def torch(gpu):
    found = pytest.importorskip("torch")
    found.cuda.init()
    return found


def moved(torch, array):
    """A column-major tensor on the GPU."""
    return torch.from_numpy(np.ascontiguousarray(array.T)).cuda().T


@pytest.mark.parametrize("factors", FACTORS)
def test_factors_on_the_gpu_count_as_those_of_the_host(nn, torch, factors):
    a, b = operands("nn", *SIZE)
    before = poisoned(SIZE[0], SIZE[1], factors[1])
    x, y = (moved(torch, array) for array in (a, b))
    loaded = dispatch.load(nn[0])
    scalars = [torch.tensor(value, device="cuda") for value in factors]
    for given in (scalars, (factors[0], scalars[1]), (scalars[0], factors[1])):
        z = moved(torch, before)
        loaded.gemm(given[0], x, y, given[1], z)
        torch.cuda.synchronize()
        check("nn", a, b, factors, before, z.cpu().numpy())


def test_a_graph_reads_what_lies_there_when_it_runs(nn, torch):
    a, b = operands("nn", *SIZE)
    loaded, side = dispatch.load(nn[0]), torch.cuda.Stream()
    x, y, z = (moved(torch, array) for array in (a, b, poisoned(SIZE[0], SIZE[1], 1.0)))
    alpha, beta = torch.ones((), device="cuda"), torch.zeros(1, device="cuda")
    loaded.prepare(*SIZE, stream=side, on_gpu=True)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        loaded.gemm(alpha, x, y, beta, z, stream=side)
    for factors in FACTORS:
        before = poisoned(SIZE[0], SIZE[1], factors[1])
        z.copy_(moved(torch, before))
        alpha.fill_(factors[0])
        beta.fill_(factors[1])
        graph.replay()
        torch.cuda.synchronize()
        check("nn", a, b, factors, before, z.cpu().numpy())


@pytest.mark.skipif(GCC is None, reason="gcc compiles the library")
def test_c_takes_addresses_of_alpha_and_beta(nn, driver, tmp_path):
    shared, headers = tmp_path / "libsgemm.so", locate.headers()
    assert GCC is not None
    assert headers is not None
    flags = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC")
    subprocess.run([GCC, *flags, "-I", headers, "-o", shared, nn[0] / "sgemm.c"], check=True)
    ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
    c, handle, address = ctypes.CDLL(str(shared)), ctypes.c_void_p(), ctypes.c_uint64
    assert c.sgemm_open(ctypes.byref(handle), str(nn[0]).encode()) == 0
    m, n, k = SIZE
    a, b = operands("nn", m, n, k)
    size, leading = tuple(map(ctypes.c_int64, SIZE)), [ctypes.c_int64(rows) for rows in (m, k, m)]
    needed = ctypes.c_size_t()
    assert c.sgemm_workspace_on_gpu(*size, *leading, ctypes.byref(needed)) == 0
    scratch = driver.mem_alloc(needed.value)
    for factors in FACTORS:
        before = poisoned(m, n, factors[1])
        held = [driver.to_device(np.ravel(x, order="F")) for x in (a, b, before)]
        devices = [address(int(one)) for one in held]
        kept = [driver.to_device(np.array([value], np.float32)) for value in factors]
        alpha, beta = (address(int(one)) for one in kept)
        driver.memset_d8(scratch, 0xFF, needed.value)
        status = c.sgemm_gemm_on_gpu(
            handle, *size, alpha, devices[0], leading[0], devices[1], leading[1], beta, devices[2], leading[2],
            address(int(scratch)), needed, None,
        )  # fmt: skip
        assert status == 0
        got = np.empty(m * n, np.float32)
        driver.memcpy_dtoh(got, devices[2].value)
        check("nn", a, b, factors, before, got.reshape((m, n), order="F"))
    c.sgemm_close(handle)
