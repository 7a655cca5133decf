"""The comparison on the device, executed by the emulator, against the operator's own in NumPy."""

from pathlib import Path

import numpy as np
import pytest

import lab.gpu
from lab.emulator.api import launch
from lab.operators.base import Expected
from lab.operators.builtin import operator
from lab.operators.gemm import Gemm
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain


@pytest.fixture(scope="module")
def ptx():
    source = (Path(lab.gpu.__file__).parent / "device" / "compare.cu").read_text()
    return toolchain("nvrtc").compile(CompileRequest(source, "compare.cu", "sm_90")).ptx


def on_device(ptx, output, expected):
    worst = np.zeros(1, np.uint64)
    arguments = [output, expected.values, expected.scale, np.int64(output.size), worst]
    done = launch(ptx, f"compare_{output.dtype}", (2,), (256,), arguments)
    assert done.clean
    return float(worst.view(np.float64)[0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["nn", "tt"])
def test_it_finds_what_the_operator_finds(ptx, dtype, layout):
    gemm = Gemm()
    problem = gemm.problem({"m": 33, "n": 20, "k": 7, "ldc": 40, "dtype": dtype, "layout": layout, "beta": 0.5})
    reference = gemm.reference(problem, gemm.inputs(problem, 0))
    expected, tolerance = gemm.elementwise(problem, reference)
    right = np.full(800, np.nan, dtype)
    right.reshape(20, 40)[:, :33] = reference["C"].values.T

    def both(change):
        output = right.copy()
        change(output.reshape(20, 40))
        largest, limit, _ = gemm.verify(problem, reference, {"C": output})
        assert limit == tolerance
        return on_device(ptx, output, expected["C"]), largest

    device, host = both(lambda c: None)
    assert device == host <= tolerance
    device, host = both(lambda c: c.__setitem__((4, 5), 3.0))
    assert device == host > tolerance
    device, host = both(lambda c: c.__setitem__((19, 32), np.nan))
    assert np.isnan([device, host]).all()
    device, host = both(lambda c: c.__setitem__((7, 35), 1.0))  # between two columns
    assert device == host == np.inf


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", ["copy", "transpose"])
def test_moves_too(ptx, name, dtype):
    move = operator(name)
    problem = move.problem({"m": 13, "n": 7, "ldb": 16, "dtype": dtype})
    reference = move.reference(problem, move.inputs(problem, 0))
    expected, tolerance = move.elementwise(problem, reference)
    rows, columns = reference["B"].values.shape
    right = np.full(16 * columns, np.nan, dtype)
    right.reshape(columns, 16)[:, :rows] = reference["B"].values.T
    assert on_device(ptx, right, expected["B"]) == 0.0 == tolerance
    for place, value in ((rows, 1.0), (3, np.nan), (4, 99.0)):  # between columns; missing; wrong
        output = right.copy()
        output[place] = value
        assert not on_device(ptx, output, expected["B"]) <= tolerance
        assert not move.verify(problem, reference, {"B": output})[0] <= tolerance


def test_halves_are_compared_too(ptx):
    output = np.arange(300, dtype=np.float16)
    expected = Expected(np.arange(300.0), np.full(300, 2.0))
    assert on_device(ptx, output, expected) == 0.0
    output[299] += 3
    assert on_device(ptx, output, expected) == 1.5
