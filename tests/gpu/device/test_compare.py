"""The comparison on the device, executed by the emulator, against the operator's own in NumPy."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from fake_pycuda import view

import lab.gpu
from lab.base.errors import MissingToolError
from lab.emulator.api import launch
from lab.operators.base import Expected, Inputs
from lab.operators.bfloat16 import from_float32
from lab.operators.builtin import operator
from lab.operators.gemm import Gemm
from lab.operators.stored import empty
from lab.toolchain.own import build_own


@pytest.fixture(scope="module")
def ptx():
    source = (Path(lab.gpu.__file__).parent / "device" / "compare.cu").read_text()
    return build_own(source, "compare.cu", "sm_90").ptx


def on_device(ptx, output, expected):
    worst = np.zeros(1, np.uint64)
    arguments = [output, expected.values, expected.scale, np.int64(output.size), worst]
    done = launch(ptx, KERNELS.get(output.dtype.name, f"compare_{output.dtype}"), (2,), (256,), arguments)
    assert done.clean
    return float(worst.view(np.float64)[0])


KERNELS = {"uint16": "compare_bfloat16"}


def held(values, dtype):
    """Values as a kernel stores them."""
    if dtype == "bfloat16":
        return from_float32(np.asarray(values, np.float32)).reshape(np.shape(values))
    return np.asarray(values).astype(dtype)


@pytest.mark.parametrize(
    ("dtype", "beta"), [("float32", 0.5), ("float64", 0.5), ("float16", 0.5), ("bfloat16", 0.5), ("int8", 0)]
)
@pytest.mark.parametrize("layout", ["nn", "tt"])
def test_it_finds_what_the_operator_finds(ptx, dtype, beta, layout):
    gemm = Gemm()
    problem = gemm.problem({"m": 33, "n": 20, "k": 7, "ldc": 40, "dtype": dtype, "layout": layout, "beta": beta})
    reference = gemm.reference(problem, gemm.inputs(problem, 0))
    found = gemm.elementwise(problem, reference)
    assert found is not None
    expected, tolerance = found
    of_result = problem.dtypes["C"]
    right = empty(800, of_result)
    right.reshape(20, 40)[:, :33] = held(reference["C"].values.T, of_result)

    def both(place, value):
        output = right.copy()
        if place is not None:
            output.reshape(20, 40)[place] = held(value, of_result)
        largest, limit, _ = gemm.verify(problem, reference, {"C": output})
        assert limit == tolerance
        return on_device(ptx, output, expected["C"]), largest

    device, host = both(None, 0)
    assert device == host <= tolerance
    device, host = both((4, 5), 3.0)
    assert device == host > tolerance
    if of_result != "int32":
        device, host = both((19, 32), np.nan)
        assert np.isnan([device, host]).all()
    device, host = both((7, 35), 1.0)  # between two columns
    assert device == host == np.inf


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", ["copy", "transpose"])
def test_moves_too(ptx, name, dtype):
    move = operator(name)
    problem = move.problem({"m": 13, "n": 7, "ldb": 16, "dtype": dtype})
    reference = move.reference(problem, move.inputs(problem, 0))
    found = move.elementwise(problem, reference)
    assert found is not None
    expected, tolerance = found
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


def by_numpy(grid, got, values, scale, count, worst, dtype):
    error = np.abs(view(got, dtype, count).astype(np.float64) - view(values, np.float64, count))
    largest = float((error / view(scale, np.float64, count)).max())
    found = view(worst, np.float64, 1)
    found[0] = max(found[0], largest)


@pytest.fixture
def comparison(cuda):
    """The comparison of a backend, on a driver that is played: kernels compute with NumPy."""
    from lab.gpu.device.compare import DeviceComparison  # noqa: PLC0415 - PyCUDA is played by now

    for dtype in (np.float16, np.float32, np.float64, np.int32):
        cuda.kernels[f"compare_{np.dtype(dtype)}"] = partial(by_numpy, dtype=dtype)
    return DeviceComparison("sm_90")


def case(cuda, dtype=np.float32):
    """Two outputs on the device; the second is wrong by 0.5 of its scale of 2."""
    arrays = {"y": np.arange(300, dtype=dtype), "z": np.ones(7, dtype)}
    expected = {name: Expected(array.astype(np.float64), np.ones(array.size)) for name, array in arrays.items()}
    expected["z"] = Expected(np.full(7, 2.0), np.full(7, 2.0))
    memory = {name: cuda.to_device(array) for name, array in arrays.items()}
    return expected, Inputs({}, arrays, ("y", "z")), {name: int(at) for name, at in memory.items()}, memory


def test_the_largest_error_of_all_outputs_counts(comparison, cuda):
    expected, inputs, pointers, _memory = case(cuda)
    assert comparison.largest_error(expected, inputs, pointers) == 0.5
    assert [grid for _, grid, *_ in cuda.launched] == [(2, 1), (1, 1)]


def test_expected_values_stay_on_the_device_until_they_are_forgotten(comparison, cuda):
    expected, inputs, pointers, _memory = case(cuda)
    before = cuda.used
    comparison.largest_error(expected, inputs, pointers)
    held = cuda.used
    assert held > before
    comparison.largest_error(expected, inputs, pointers)
    assert (cuda.used, len(cuda.loaded)) == (held, 1)
    comparison.forget()
    assert cuda.used == before + 8  # the result's own place
    assert comparison.largest_error(expected, inputs, pointers) == 0.5
    assert len(cuda.loaded) == 1


def test_a_type_without_a_kernel_is_compared_on_the_host(comparison, cuda):
    expected, inputs, pointers, _memory = case(cuda, np.uint8)
    assert comparison.largest_error(expected, inputs, pointers) is None


def test_without_room_outputs_are_compared_on_the_host(comparison, cuda):
    expected, inputs, pointers, _memory = case(cuda)
    cuda.capacity = cuda.used + 100
    assert comparison.largest_error(expected, inputs, pointers) is None


def test_without_a_compiler_outputs_are_compared_on_the_host(comparison, cuda, monkeypatch):
    from lab.gpu.device import compare  # noqa: PLC0415 - as above

    def missing(*_):
        raise MissingToolError("there is no NVRTC")

    monkeypatch.setattr(compare, "compiled", missing)
    expected, inputs, pointers, _memory = case(cuda)
    assert comparison.largest_error(expected, inputs, pointers) is None


def test_empty_outputs_are_right(comparison, cuda):
    nothing = np.empty(0, np.float32)
    expected = {"y": Expected(np.empty(0), np.empty(0))}
    assert comparison.largest_error(expected, Inputs({}, {"y": nothing}, ("y",)), {"y": 0}) == 0.0
