"""Emulated contractions of 16-bit and complex elements."""

from __future__ import annotations

import numpy as np
import pytest
from compiling import quiet_ptx_of
from contraction_cases import TILES
from narrowing import known

from lab.base.expressions import Scalar
from lab.operators.builtin import operator
from lab.operators.stored import parts, wide
from lab.stages.emulate import EmulationTask, emulate
from lab.templates import front_matter as kernels
from lab.templates.instance import Instance

CONTRACTION = operator("contraction")
TYPES = ("float16", "bfloat16", "complex64", "complex128")
SIZES = {"i": 5, "j": 4, "k": 3, "l": 2, "m": 7, "n": 3, "o": 3}
CASES: dict[str, dict[str, Scalar]] = {
    "batched NT": {"einsum": "ilk,jlk->ijk", "i": 40, "j": 33, "k": 3, "l": 20},
    "convolution": {"IndexAssignmentsA": "6,5,0,1,4,3", "IndexAssignmentsB": "6,5,1,4,2,3", "NumIndicesC": 4, **SIZES},
    "d0 in B": {"einsum": "ilk,jlk->jki", "i": 37, "j": 36, "k": 3, "l": 5},
    "repeated": {"einsum": "ab,ab->", "a": 30, "b": 7, "strides_A": "0,0", "strides_B": "0,0"},
}


def cases():
    """Yield each contraction with every type, cycling through the tiles; two of the tiles split the summation."""
    for number, name in enumerate(CASES):
        for turn, dtype in enumerate(TYPES):
            tile = (number + turn) % len(TILES)
            marks = [pytest.mark.thorough] if (number + turn) % 2 else []
            yield pytest.param(name, dtype, tile, id=f"{name}-{dtype}-{tile}", marks=marks)


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize(("name", "dtype", "tile"), list(cases()))
def test_contractions_of_other_types_are_right_and_clean(name, dtype, tile):
    template = kernels.load("contraction/tiled.cu.j2", kernels.search_path())
    values = {**CASES[name], "dtype": dtype, "beta": 0.5 if tile % 2 else 0.0}
    if dtype.startswith("complex"):
        values |= {"alpha_imag": 0.25, "beta_imag": -2.0 if tile % 2 else 0.0}
    problem = CONTRACTION.problem(values)
    instance = Instance.of(template, {**TILES[tile], "split": 4 if tile >= 2 else 1}, problem)
    assert instance.unmet() is None
    done = emulate(EmulationTask(instance.launches, "contraction", problem, 1, {}), quiet_ptx_of(instance.source))
    assert done.unsupported == ""
    assert done.fault == ""
    assert done.verification.passed, done.verification


@pytest.mark.parametrize("dtype", TYPES)
def test_the_reference_is_numpys_einsum(dtype):
    values = {"einsum": "ilk,jlk->jki", "i": 7, "j": 6, "k": 3, "l": 5, "dtype": dtype, "beta": 0.5}
    if dtype.startswith("complex"):
        values |= {"alpha_imag": 0.25, "beta_imag": -2.0}
    problem = CONTRACTION.problem(values)
    inputs = CONTRACTION.inputs(problem, 0)
    a, b, c = (wide(inputs.arrays[tensor]).reshape(problem.shape.layout(tensor).sizes, order="F") for tensor in "ABC")
    alpha, beta = problem.factors
    expected = alpha * np.einsum("ilk,jlk->jki", a, b) + beta * c
    reference = CONTRACTION.reference(problem, inputs)["C"]
    expected_values = reference.values
    if dtype.startswith("complex"):
        assert np.allclose(expected_values[0] + 1j * expected_values[1], expected, rtol=1e-13, atol=1e-13)
        stored = expected.astype(dtype).reshape(-1, order="F")
        error, tolerance, worst = CONTRACTION.verify(problem, CONTRACTION.reference(problem, inputs), {"C": stored})
        assert error <= tolerance
        laid, _ = known(CONTRACTION.elementwise(problem, {"C": reference}))
        assert np.allclose(parts(stored), laid["C"].values, rtol=1e-5)
        stored[7] += 1j
        worst = CONTRACTION.verify(problem, CONTRACTION.reference(problem, inputs), {"C": stored})[2]
        assert worst.startswith("imaginary part of C[1, 1, 0]: got ")
    else:
        assert np.allclose(expected_values, expected.real, rtol=1e-13, atol=1e-13)


def test_complex_contractions_count_four_times_the_work():
    values = {"einsum": "ik,kj->ij", "i": 7, "j": 6, "k": 3}
    real, complex_ = (CONTRACTION.problem({**values, "dtype": dtype}) for dtype in ("float32", "complex64"))
    assert CONTRACTION.flops(complex_) == 4 * CONTRACTION.flops(real) == 8 * 7 * 6 * 3
    assert CONTRACTION.bytes_moved(complex_) == 2 * CONTRACTION.bytes_moved(real)
    assert CONTRACTION.fma_dtype(complex_) == np.float32
    assert "alpha_imag" not in real
