"""Return values of user-defined operators: the accepted types, and the errors for all others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from axpy_operator import Axpy

from lab.base.errors import UserError
from lab.operators import checked
from lab.operators.base import Expected, Inputs
from lab.operators.builtin import BUILT_IN, operator
from lab.operators.checked import Checked, OperatorFault

SMALL: dict[str, dict[str, object]] = {
    "gemm": {"m": 16, "n": 8, "k": 4},
    "contraction": {"einsum": "ik,kj->ij", "i": 4, "j": 8, "k": 4},
    "softmax": {"m": 4, "n": 32},
    "softmax_backward": {"m": 4, "n": 32},
    "masked_softmax": {"m": 4, "n": 32},
    "layer_norm": {"m": 4, "n": 32},
    "rms_norm": {"m": 4, "n": 32},
    "copy": {"m": 8, "n": 16},
    "transpose": {"m": 8, "n": 16},
}


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_the_built_in_operators_return_is_accepted(name: str) -> None:
    mine = Checked(operator(name), Path(checked.__file__))
    problem = mine.problem(SMALL[name])
    assert dict(mine.restored(dict(problem))) == dict(problem)
    inputs = mine.inputs(problem, 0)
    reference = mine.reference(problem, inputs)
    mine.elementwise(problem, reference)
    error, tolerance, _ = mine.verify(problem, reference, {name: inputs.arrays[name] for name in inputs.outputs})
    assert not error <= tolerance  # the outputs are NaN
    assert mine.flops(problem) >= 0
    assert mine.bytes_moved(problem) > 0
    assert mine.fma_dtype(problem) == np.dtype(np.float32)


X = np.ones(4, np.float32)
ONES = np.ones(4)
INPUTS = Inputs({"n": 4}, {"x": X, "z": X}, ("z",))
WRONG: list[tuple[str, Any, str]] = [
    ("inputs", None, "returned None; accepted is Inputs"),
    ("inputs", Inputs({"n": [1]}, {"z": X}, ("z",)), "returned the scalar n=[1]"),  # type: ignore[dict-item]
    ("inputs", Inputs({}, {"z": X.reshape(2, 2)}, ("z",)), "the array z, which has the shape (2, 2); it must be 1-D"),
    ("inputs", Inputs({}, {"z": [1.0]}, ("z",)), "the array z, which is [1.0], not a NumPy array"),  # type: ignore[dict-item]
    ("inputs", Inputs({}, {"z": np.array(["a"])}, ("z",)), "has elements of type <U1"),
    ("inputs", Inputs({}, {"z": np.ones(8)[::2]}, ("z",)), "is not contiguous"),
    ("inputs", Inputs({}, [X], ("z",)), "scalars or arrays are not mappings"),  # type: ignore[arg-type]
    ("inputs", Inputs({}, {"z": X}, "z"), "returned the outputs 'z'"),  # type: ignore[arg-type]
    ("inputs", Inputs({}, {"z": X}, ()), "returned the outputs ()"),
    ("inputs", Inputs({}, {"z": X}, ("y",)), "returned the outputs ('y',)"),
    ("inputs", Inputs({}, {"z": X}, ("z",), ("y",)), "returned the required outputs ('y',)"),
    ("reference", None, "a mapping with an Expected for each output: z"),
    ("reference", {}, "a mapping with an Expected for each output: z"),
    ("reference", {"z": ONES}, "returned for z array([1., 1., 1., 1.]); accepted is Expected(values, scale)"),
    ("reference", {"z": Expected(X, ONES)}, "values of type float32; accepted is a float64 array"),  # type: ignore[arg-type]
    ("reference", {"z": Expected(ONES, np.ones(5))}, "values of shape (4,) and a scale of shape (5,)"),
    ("reference", {"z": Expected(ONES * np.nan, ONES)}, "values that are not finite"),
    ("reference", {"z": Expected(ONES, ONES * 0)}, "a scale that is 0 or not finite"),
    ("elementwise", 3, "accepted is None or"),
    ("elementwise", ({"z": Expected(np.ones((2, 2)), np.ones((2, 2)))}, 1e-6), "values of shape (2, 2)"),
    ("elementwise", ({"z": Expected(ONES, ONES)}, -1), "the tolerance -1"),
    ("verify", None, "accepted is (the largest error, the tolerance"),
    ("verify", (0.0, 1e-6), "accepted is (the largest error, the tolerance"),
    ("verify", ("big", 1e-6, ""), "accepted is (the largest error, the tolerance"),
    ("verify", (0.0, np.nan, ""), "the tolerance nan; accepted is a finite number"),
    ("doubts", "NaN", "accepted is a tuple of sentences"),
    ("doubts", (1,), "accepted is a tuple of sentences"),
    ("flops", True, "returned True; accepted is an int ≥ 0"),
    ("bytes_moved", -1, "returned -1; accepted is an int ≥ 0"),
    ("fma_dtype", "int32", "returned 'int32'; accepted is a floating-point numpy.dtype"),
    ("problem", {"n": 4}, "returned {'n': 4}; accepted is a lab.operators.base.Problem"),
]

ARGUMENTS: dict[str, tuple[object, ...]] = {
    "inputs": (None, 0),
    "reference": (None, INPUTS),
    "elementwise": (None, {}),
    "verify": (None, {}, {}),
    "doubts": (None, INPUTS, {}),
    "problem": ({},),
}


@pytest.mark.parametrize(("method", "value", "words"), WRONG)
def test_a_wrong_result_is_named_with_its_method_and_line(
    monkeypatch: pytest.MonkeyPatch, method: str, value: object, words: str
) -> None:
    def wrong(self: object, *_: object) -> object:
        return value

    monkeypatch.setattr(Axpy, method, wrong)
    with pytest.raises(OperatorFault) as error:
        getattr(Checked(Axpy(), Path(__file__)), method)(*ARGUMENTS.get(method, (None,)))
    line = wrong.__code__.co_firstlineno
    assert str(error.value).startswith(f"{__file__}:{line}: Axpy.{method} returned")
    assert words in str(error.value)


@pytest.mark.parametrize(
    "method", ["inputs", "reference", "verify", "doubts", "elementwise", "flops", "bytes_moved", "fma_dtype"]
)
@pytest.mark.parametrize("raising", [ValueError("two\nlines"), SystemExit(0), SystemExit(), GeneratorExit()])
def test_whatever_it_raises_is_a_fault_with_its_innermost_line(
    monkeypatch: pytest.MonkeyPatch, method: str, raising: BaseException
) -> None:
    def deeper() -> None:
        raise raising

    def wrong(self: object, *_: object) -> None:
        deeper()

    monkeypatch.setattr(Axpy, method, wrong)
    with pytest.raises(OperatorFault) as error:
        getattr(Checked(Axpy(), Path(__file__)), method)(*ARGUMENTS.get(method, (None,)))
    assert str(error.value).startswith(f"{__file__}:{deeper.__code__.co_firstlineno + 1}: Axpy.{method} ")
    assert "\n" not in str(error.value)


def test_a_user_error_and_the_lack_of_memory_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (UserError("n is odd", code="wrong-value", key="problem.n"), MemoryError()):

        def refusing(self: object, values: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(Axpy, "problem", refusing)
        with pytest.raises(type(error)):
            Checked(Axpy(), Path(__file__)).problem({})


def test_what_it_prints_is_not_the_commands_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def flops(self: object, problem: object) -> int:
        print("counting")  # noqa: T201
        return 1

    monkeypatch.setattr(Axpy, "flops", flops)
    assert Checked(Axpy(), Path(__file__)).flops(Axpy().problem({"n": 1, "a": 1})) == 1
    assert capsys.readouterr() == ("", "counting\n")


class Careless(Axpy):
    """An operator that keeps its inputs, and computes in the arrays it is given."""

    kept: Inputs | None = None

    def inputs(self, problem: Any, seed: int) -> Inputs:
        self.kept = self.kept or super().inputs(problem, seed)
        return self.kept

    def reference(self, problem: Any, inputs: Inputs) -> Any:
        found = super().reference(problem, inputs)
        for array in inputs.arrays.values():
            array[...] = 0
        return found

    def verify(self, problem: Any, reference: Any, outputs: Any) -> tuple[float, float, str]:
        found = super().verify(problem, reference, outputs)
        for array in outputs.values():
            array[...] = 0
        return found


def test_what_it_does_to_arrays_reaches_nobody_else() -> None:
    mine = Checked(Careless(), Path(__file__))
    problem = mine.problem({"n": 64, "a": 2.0})
    host_inputs = mine.inputs(problem, 0)
    before = {name: array.copy() for name, array in host_inputs.arrays.items()}
    first = mine.reference(problem, host_inputs)
    for name, array in before.items():
        np.testing.assert_array_equal(host_inputs.arrays[name], array)
    outputs = {name: np.full_like(host_inputs.arrays[name], 3) for name in host_inputs.outputs}
    mine.verify(problem, first, outputs)
    assert all((array == 3).all() for array in outputs.values())
    for array in host_inputs.arrays.values():  # as a kernel does that writes all of its arguments
        array[...] = 7
    again = mine.inputs(problem, 0)
    for name, array in before.items():
        np.testing.assert_array_equal(again.arrays[name], array)
    for name, one in mine.reference(problem, again).items():
        np.testing.assert_array_equal(one.values, first[name].values)
