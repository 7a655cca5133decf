"""Lists of arguments and answers, by name."""

from __future__ import annotations

import numpy as np
import pytest

from lab.api.kernel_tuner.named_arguments import SmallerProblem, named_arguments
from lab.api.mapping import ArraysByCase
from lab.base.errors import UserError
from lab.isa.cuda.kernels import read_kernels

(KERNEL,) = read_kernels("__global__ void add(float *c, const float *a, float *scratch, int n) {}")
A, ZEROS, N = np.arange(1, 9, dtype=np.float32), np.zeros(8, np.float32), np.int32(8)
GIVEN = [ZEROS, A, A, N]


def named(given=GIVEN, answer=None, smaller=None, kernel=KERNEL, taken=()):
    return named_arguments(given, answer, 1e-6, kernel=kernel, smaller=smaller, reserved=taken)


def test_without_an_answer_whatever_may_be_written_is_an_output():
    named_arguments = named()
    assert list(named_arguments.arguments) == ["c", "a", "scratch", "n"]
    assert named_arguments.arguments["c"] == "inout float32[8] zeros"
    assert named_arguments.arguments["a"][0] == "float32[8]"
    assert named_arguments.arguments["scratch"][0] == "inout float32[8]"
    assert (named_arguments.arguments["n"], named_arguments.problem) == ("int32", {"n": 8})
    assert named_arguments.reference == {}


def test_with_an_answer_the_rest_is_not_compared():
    named_arguments = named(answer=[A + 1, None, None, None])
    assert set(named_arguments.reference) == {"c", "scratch"}
    assert (named_arguments.reference["c"] == A + 1).all()
    assert named_arguments.tolerance["c"] == {"relative": 1e-5, "absolute": 1e-6}
    assert named_arguments.tolerance["scratch"]["absolute"] == float("inf")


def test_a_kernel_that_cannot_be_read_has_numbered_arguments():
    named_arguments = named(kernel=None, taken=["argument_3"])
    assert list(named_arguments.arguments) == ["argument_0", "argument_1", "argument_2", "argument_3_"]


def test_a_smaller_problem():
    smaller = SmallerProblem({}, [ZEROS[:3], A[:3], A[:3], np.int32(3)], [A[:3], None, None, None])
    named_arguments = named(answer=[A, None, None, None], smaller=smaller)
    text, arrays = named_arguments.arguments["c"]
    assert text == "inout float32[c_size0]"
    assert isinstance(arrays, ArraysByCase)
    assert named_arguments.problem == {"c_size0": 8, "a_size0": 8, "scratch_size0": 8, "n": 8}
    assert named_arguments.emulate == {"c_size0": 3, "a_size0": 3, "scratch_size0": 3, "n": 3}
    assert (named_arguments.reference["c"].emulated == A[:3]).all()


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"given": []}, "arguments"),
        ({"given": A}, "arguments"),
        ({"given": [A, 3]}, "arguments[1]"),
        ({"answer": [A]}, "answer"),
        ({"answer": [A[1:], None, None, None]}, "answer[0]"),
        ({"answer": [None, None, None, A]}, "answer[3]"),
        ({"answer": [None] * 4}, "answer"),
        ({"smaller": SmallerProblem({}, GIVEN[:2], None)}, "emulate.arguments"),
        ({"smaller": SmallerProblem({}, [A, A, A, np.int64(3)], None)}, "emulate.arguments[3]"),
        ({"smaller": SmallerProblem({}, GIVEN, [A, None, None, None])}, "answer"),
        ({"smaller": SmallerProblem({}, [1, 2, 3, 4], None)}, "emulate.arguments[0]"),
    ],
)
def test_what_is_wrong_is_named(changed, key):
    with pytest.raises(UserError) as caught:
        named(**changed)
    assert caught.value.key == key
