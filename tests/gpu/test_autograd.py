from __future__ import annotations

import sys

import pytest
from compiling import ptx_of

from lab.base.errors import UserError
from lab.gpu.autograd import LONGEST, instance, softmax
from lab.gpu.device.backend import BaselineMissingError
from lab.stages.emulate import EmulationTask, emulate


@pytest.mark.parametrize("name", ["softmax", "softmax_backward"])
@pytest.mark.parametrize(("rows", "columns", "dtype"), [(1, 1, "float32"), (9, 777, "bfloat16"), (5, 2500, "float16")])
def test_the_kernel_for_a_tensor_computes_its_rows(name, rows, columns, dtype):
    made = instance(name, rows, columns, dtype)
    assert made.unmet() is None
    done = emulate(EmulationTask(made.launches, name, made.problem, 0, {}), ptx_of(made.source))
    assert done.fault == ""
    assert done.verification.passed


@pytest.mark.parametrize("name", ["softmax", "softmax_backward"])
def test_there_is_a_kernel_for_every_length_up_to_the_longest(name):
    for columns in (*range(1, 300), *range(300, LONGEST, 997), LONGEST):
        assert instance(name, 4, columns, "float32").unmet() is None


@pytest.mark.parametrize(
    ("columns", "dtype", "words"),
    [(LONGEST + 1, "float32", "too long"), (4, "float64", "this element type is not supported")],
)
def test_what_has_no_kernel_is_refused(columns, dtype, words):
    with pytest.raises(UserError, match=words):
        instance("softmax", 2, columns, dtype)


def test_without_pytorch_the_reason_is_given(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BaselineMissingError, match="torch cannot be imported here"):
        softmax(object())
