"""The helpers that turn NumPy functions into operations."""

import numpy as np

from lab.emulator.operations.base import ALU, assign, from_ufunc, operation


def test_a_ufunc_writes_its_first_argument():
    out = np.zeros(3, np.uint32)
    from_ufunc(np.add)(out, np.array([1, 2, 2**32 - 1], np.uint32), np.array([1], np.uint32))
    assert out.tolist() == [2, 3, 0]
    from_ufunc(np.invert)(out, np.array([0, 1, 2], np.uint32))
    assert out.tolist() == [2**32 - 1, 2**32 - 2, 2**32 - 3]


def test_assign_broadcasts_and_may_write_over_a_source():
    x = np.array([1.0, 2.0, 4.0])
    assign(lambda a, b: a[::-1] + b)(x, x, np.array([10.0]))
    assert x.tolist() == [14.0, 12.0, 11.0]


def test_operation_enters_every_family(monkeypatch):
    monkeypatch.delitem(ALU, "first", raising=False)
    monkeypatch.delitem(ALU, "second", raising=False)

    @operation("first", "second")
    def build(op, n):
        return (op, n)

    assert ALU.pop("first") is ALU.pop("second") is build


def test_a_function_that_does_not_say_how_many_operands_it_has_takes_two():
    def sum_of(a, b, out):
        out[...] = a + b

    out = np.zeros(2)
    from_ufunc(sum_of)(out, np.array([1.0, 2.0]), np.array([5.0]))
    assert out.tolist() == [6, 7]
