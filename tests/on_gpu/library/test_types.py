"""Libraries of every element type compute on a real GPU."""

from __future__ import annotations

import pytest
from typed_libraries import GIVEN, TYPES, library_of

from lab.library import dispatch
from lab.library.emit import write
from lab.operators.builtin import operator
from lab.templates.instance import Instance
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain

pytestmark = pytest.mark.gpu

GEMM = operator("gemm")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layout", ["nt", "tn"])
def test_a_call_computes_with_elements_and_factors_of_the_type(gpu, driver, tmp_path, dtype, layout):
    from pycuda import gpuarray  # noqa: PLC0415

    library, template = library_of(dtype, layout)
    values = {"dtype": dtype, "layout": layout, "alpha": -1.5, "beta": 0.5}
    if dtype.startswith("complex"):
        values |= {"alpha_imag": 0.25, "beta_imag": -2.0}
    source = Instance.of(template, GIVEN, GEMM.problem({**values, "m": 1, "n": 1, "k": 1})).source
    request = CompileRequest(source, "kernel.cu", gpu.arch)
    write(library, {"one": toolchain("nvrtc").compile(request).cubin}, tmp_path)
    loaded = dispatch.load(tmp_path)
    for m, n, k in ((1, 1, 1), (37, 64, 129), (256, 130, 64)):
        problem = GEMM.problem({**values, "m": m, "n": n, "k": k})
        inputs = GEMM.inputs(problem, 0)
        stored = {
            name: gpuarray.to_gpu(inputs.arrays[name].reshape((rows, columns), order="F"))
            for name, (rows, columns, _) in problem.shapes.items()
        }
        alpha, beta = problem.factors if dtype.startswith("complex") else (problem.alpha, problem.beta)
        loaded.gemm(alpha, stored["A"], stored["B"], beta, stored["C"])
        got = {"C": stored["C"].get().ravel(order="F")}
        error, tolerance, worst = GEMM.verify(problem, GEMM.reference(problem, inputs), got)
        assert error <= tolerance, worst
