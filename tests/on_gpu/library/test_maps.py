"""A library of kernels with tensor maps and wgmma, one of which cannot take every operand, on a real GPU."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from typing import Any

import numpy as np
import pytest

from lab.library import dispatch
from lab.library.emit import write
from lab.library.grid import Loss
from lab.library.package import POINTERS, Library, TimesKind
from lab.library.specialise import kernel
from lab.library.tree import Logic, Split
from lab.operators.builtin import operator
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance
from lab.toolchain import locate
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain

pytestmark = pytest.mark.gpu

GEMM = operator("gemm")
GCC = shutil.which("gcc")
KERNELS: dict[str, tuple[str, dict[str, Any]]] = {
    "bulk": ("v8_epilogue", {"block_m": 128}),
    "packed": ("packed", {"block_m": 128, "block_n": 128}),
    "split": ("split", {"split_k": 8}),
}
SIZES = [(1, 1, 1), (128, 256, 512), (1000, 264, 2048), (1001, 263, 77), (4096, 2048, 64), (36, 20, 5000)]


@pytest.fixture(scope="module", params=["nn", "tt"])
def folder(request, gpu, tmp_path_factory):
    """The first kernel is the pick of all sizes; where it cannot take the operands, m decides between the others."""
    if gpu.arch != "sm_90":
        pytest.skip("wgmma is of sm_90a")
    kernel_list, cubins = [], {}
    for name, (file, given) in KERNELS.items():
        template = kernels.load(f"hgemm/{file}.cu.j2", kernels.search_path())
        parameters = template.completed(given)
        problem = GEMM.problem({"m": 1, "n": 1, "k": 1, "dtype": "bfloat16", "layout": request.param})
        source = Instance(template, parameters, problem).source
        cubins[name] = toolchain("nvrtc").compile(CompileRequest(source, "kernel.cu", "sm_90a")).cubin
        words: dict[str, Any] = {"dtype": "bfloat16", "layout": request.param}
        kernel_list.append(kernel(name, cubin=f"{name}.cubin", template=template, parameters=parameters, **words))
    names = tuple(KERNELS)
    library = Library(
        "hgemm", "bfloat16", request.param, "sm_90a", TimesKind.PREDICTED, "invented for a test", tuple(kernel_list),
        Logic(names, ~0), Loss(0.0, 0.0, (1, 1, 1), 1), general=Logic(names, 0, (Split(0, 500, ~2, ~1),)),
    )  # fmt: skip
    where = tmp_path_factory.mktemp("maps")
    write(library, cubins, where)
    return where


@pytest.mark.parametrize("slack", [0, 3, 8])
@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_every_operand_gets_a_kernel_that_computes_it(folder, driver, slack, beta):
    from pycuda import gpuarray  # noqa: PLC0415

    loaded = dispatch.load(folder)
    layout = loaded.library.layout
    for m, n, k in SIZES:
        problem = padded({"m": m, "n": n, "k": k, "layout": layout, "alpha": -1.5, "beta": beta}, slack)
        inputs = GEMM.inputs(problem, 0)
        stored = {}
        for name, (rows, columns, apart) in problem.shapes.items():
            whole = gpuarray.to_gpu(inputs.arrays[name])
            stored[name] = Strided(whole, rows, columns, apart)
        for _ in range(2):  # with maps that are made, and with maps that are kept
            stored["C"].whole.set(inputs.arrays["C"])
            loaded.gemm(-1.5, stored["A"], stored["B"], beta, stored["C"])
            got = {"C": stored["C"].whole.get()}
            error, tolerance, worst = GEMM.verify(problem, GEMM.reference(problem, inputs), got)
            assert error <= tolerance, worst


def padded(values, slack):
    """The problem with so many elements behind each column."""
    plain = GEMM.problem({**values, "dtype": "bfloat16"})
    leading = {f"ld{name.lower()}": plain.shapes[name][0] + slack for name in POINTERS}
    return GEMM.problem({**values, "dtype": "bfloat16", **leading})


class Strided:
    """A column-major matrix in a buffer of 16-bit words."""

    def __init__(self, whole, rows, columns, apart):
        self.whole = whole
        self.__cuda_array_interface__ = {
            "shape": (rows, columns), "strides": (2, 2 * apart), "typestr": "<u2", "data": (int(whole.ptr), False),
            "version": 3, "stream": None,
        }  # fmt: skip


@pytest.mark.skipif(GCC is None, reason="gcc compiles the library")
@pytest.mark.parametrize("slack", [0, 3])
def test_c_computes_with_maps_and_blocks_that_stay(folder, driver, tmp_path, slack):
    shared, headers = tmp_path / "libhgemm.so", locate.headers()
    assert GCC is not None
    assert headers is not None
    flags = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC")
    subprocess.run([GCC, *flags, "-I", headers, "-o", shared, folder / "hgemm.c"], check=True)
    ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)  # whose functions the library calls
    c = ctypes.CDLL(str(shared))
    handle, number, real, address = ctypes.c_void_p(), ctypes.c_int64, ctypes.c_float, ctypes.c_uint64
    assert c.hgemm_open(ctypes.byref(handle), str(folder).encode()) == 0
    layout = dispatch.load(folder).library.layout
    for m, n, k in SIZES:
        problem = padded({"m": m, "n": n, "k": k, "layout": layout, "alpha": 2.0, "beta": 0.5}, slack)
        inputs = GEMM.inputs(problem, 1)
        a, b, result = (driver.to_device(inputs.arrays[name]) for name in POINTERS)
        size, leading = [number(extent) for extent in (m, n, k)], [number(problem[f"ld{x}"]) for x in "abc"]
        needed = ctypes.c_size_t()
        factors = real(2.0), real(0.5)
        assert c.hgemm_workspace(*size, factors[0], *leading[:2], factors[1], leading[2], ctypes.byref(needed)) == 0
        scratch = driver.mem_alloc(max(1, needed.value))
        at = [address(int(one)) for one in (a, b, result, scratch)]
        for _ in range(2):
            driver.memcpy_htod(result, inputs.arrays["C"])
            status = c.hgemm_gemm(
                handle, *size, factors[0], at[0], leading[0], at[1], leading[1], factors[1], at[2], leading[2], at[3],
                needed, None,
            )  # fmt: skip
            assert status == 0
            got = np.empty_like(inputs.arrays["C"])
            driver.memcpy_dtoh(got, result)
            error, tolerance, worst = GEMM.verify(problem, GEMM.reference(problem, inputs), {"C": got})
            assert error <= tolerance, worst
    c.hgemm_close(handle)


def test_a_graph_of_a_call_with_maps_computes_again(folder, driver):
    torch = pytest.importorskip("torch")
    loaded = dispatch.load(folder)
    m, n, k = 1024, 512, 256
    layout = loaded.library.layout
    shapes = [(m, k) if layout[0] == "n" else (k, m), (k, n) if layout[1] == "n" else (n, k), (m, n)]
    a, b, c = (torch.randn(columns, rows, device="cuda").bfloat16().T for rows, columns in shapes)
    side = torch.cuda.Stream()
    loaded.prepare(m, n, k, stream=side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        loaded.gemm(1.0, a, b, 0.0, c, stream=side)
    for _ in range(2):
        a.copy_(torch.randn_like(a))
        graph.replay()
        torch.cuda.synchronize()
        left, right = (x.float() if way == "n" else x.float().T for x, way in zip((a, b), layout, strict=True))
        torch.testing.assert_close(c.float(), left @ right, rtol=2e-2, atol=2e-1)
