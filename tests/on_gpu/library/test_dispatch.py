"""A library computes on a real GPU: by `lab.dispatch`, and by its C source in a shared object."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from lab.library import dispatch
from lab.library.emit import write
from lab.library.grid import Grid
from lab.library.package import Library, TimesKind
from lab.library.specialise import kernel
from lab.library.tree import build, evaluate
from lab.operators.matrices import tolerance_of_sums
from lab.store.tuning_model import ProblemType
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance
from lab.toolchain import locate
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain
from lab.tuning.product import product

pytestmark = pytest.mark.gpu

GCC = shutil.which("gcc")

KERNELS: dict[str, tuple[str, dict[str, Any]]] = {
    "tiled": ("gemm/tiled.cu.j2", {"block_m": 64, "block_n": 64, "block_k": 16, "thread_m": 4, "thread_n": 4}),
    "split": ("gemm/sgemm.cu.j2", {"block_m": 32, "block_n": 32, "thread_m": 4, "thread_n": 4, "split_k": 3}),
    "packed": ("gemm/sgemm.cu.j2", {"block_m": 32, "block_n": 32, "thread_m": 4, "thread_n": 4, "pack": "both"}),
    "atomics": ("gemm/tensile.cu.j2", {"thread_tile_0": 4, "thread_tile_1": 4, "global_split_u": 6}),
    "workspace": ("gemm/tensile.cu.j2", {"global_split_u": 4, "global_split_u_algorithm": "workspace"}),
}
"""Several launches, scratch buffers, zeroed ones, more shared memory than the default, clusters."""

SIZES = [(1, 1, 1), (31, 67, 129), (64, 64, 64), (257, 130, 1000), (512, 36, 4096)]
FACTORS = [(1.0, 0.0), (-1.5, 0.5), (0.0, 2.0)]


@pytest.fixture(scope="module", params=["nn", "nt", "tn", "tt"])
def library(gpu, request, tmp_path_factory):
    """Every kernel is the pick of some sizes."""
    layout, names = request.param, list(KERNELS)
    problem = product(ProblemType("float32", layout), (1, 1, 1))
    cubins, shipped = {}, {}
    for name, (file, given) in KERNELS.items():
        template = kernels.load(file, kernels.search_path())
        parameters = template.completed(given)
        source = Instance(template, parameters, problem).source
        cubins[name] = toolchain("nvrtc").compile(CompileRequest(source, "kernel.cu", gpu.arch)).cubin
        shipped[name] = kernel(
            name, cubin=f"{name}.cubin", template=template, parameters=parameters, dtype="float32", layout=layout
        )
    grid = Grid.of(
        {(m + i, n, k): {name: 1.0 + (i != j) for j, name in enumerate(names)}
         for (m, n, k) in SIZES for i in range(len(names))}
    )  # fmt: skip
    logic = build(grid, grid)
    assert set(logic.kernels) == set(names)
    made = Library(
        name="sgemm",
        dtype="float32",
        layout=layout,
        arch=gpu.arch,
        times=TimesKind.PREDICTED,
        source="invented for a test",
        kernels=tuple(shipped[name] for name in logic.kernels),
        logic=logic,
        loss=evaluate(logic, grid),
    )
    folder = tmp_path_factory.mktemp("library")
    write(made, cubins, folder)
    return layout, folder, grid.sizes


@pytest.fixture(scope="module")
def driver(gpu):
    """PyCUDA's driver with the primary context current, as torch and others have it."""
    from pycuda import driver  # noqa: PLC0415 - missing where everything is skipped

    driver.init()
    context = driver.Device(0).retain_primary_context()
    context.push()
    yield driver
    driver.Context.pop()


def operands(layout, m, n, k):
    rng = np.random.default_rng(m * 31 + n * 7 + k)
    shapes = (m, k) if layout[0] == "n" else (k, m), (k, n) if layout[1] == "n" else (n, k)
    return tuple(np.asfortranarray(rng.standard_normal(shape, dtype=np.float32)) for shape in shapes)


def check(layout, a, b, factors, before, got):
    """Against float64; with beta = 0 what C held does not matter, not even NaN."""
    (alpha, beta), stored = factors, (a.astype(np.float64), b.astype(np.float64))
    op_a, op_b = (x if way == "n" else x.T for x, way in zip(stored, layout, strict=True))
    expected = alpha * (op_a @ op_b) + (beta * before.astype(np.float64) if beta else 0)
    scale = np.linalg.norm(op_a, axis=1)[:, None] * np.linalg.norm(op_b, axis=0)[None, :] * abs(alpha)
    scale += np.abs(beta * before) if beta else 0
    assert (np.abs(got - expected) <= tolerance_of_sums("float32") * np.maximum(scale, 1e-30)).all()


def cases(sizes):
    for i, (size, factors) in enumerate(itertools.product(sizes, FACTORS)):
        if i % 2 == 0:
            yield size, factors


def poisoned(m, n, beta):
    fill = np.random.default_rng(0).standard_normal((m, n), dtype=np.float32) if beta else np.full((m, n), np.nan)
    return np.asfortranarray(fill.astype(np.float32))


def test_python_computes_with_every_kernel(library, driver):
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
    assert picked == set(KERNELS)


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


PROGRAM = """
import sys

import numpy as np
import lab
from pycuda import driver, gpuarray

driver.init()
a = np.asfortranarray(np.ones((64, 64), np.float32))
primary = driver.Device(0).retain_primary_context()
primary.push()
arrays = [gpuarray.to_gpu(a) for _ in range(3)]
primary.pop()
lab.dispatch.load(sys.argv[1]).gemm(1.0, arrays[0], arrays[1], 0.0, arrays[2])
assert driver.Context.get_current() is None
primary.push()
assert (arrays[2].get() == 64).all()
arrays.clear()
primary.pop()
"""


def test_a_program_without_a_context_of_its_own_exits_with_0(library):
    """PyCUDA aborts, with exit code 134, a program that ends with a context on its stack."""
    _, folder, _ = library
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(folder)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


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
