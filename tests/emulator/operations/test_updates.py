import numpy as np
import pytest

from lab.emulator.operations.updates import update_of

U = np.uint32


@pytest.mark.parametrize(
    ("name", "old", "b", "wanted"),
    [
        ("add", U(5), U(2**32 - 2), 3), ("min", U(5), U(2), 2), ("max", U(5), U(2), 5), ("and", U(6), U(3), 2),
        ("or", U(6), U(3), 7), ("xor", U(6), U(3), 5), ("exch", U(6), U(3), 3), ("inc", U(3), U(3), 0),
        ("inc", U(2), U(3), 3), ("dec", U(0), U(3), 3), ("dec", U(9), U(3), 3), ("dec", U(2), U(3), 1),
    ],
)  # fmt: skip
def test_what_memory_holds_afterwards(name, old, b, wanted):
    assert update_of(name, "u32")(np.array([old]), np.array([b]), None).tolist() == [wanted]


def test_a_swap_needs_the_value_that_is_there():
    old = np.array([1, 2], U)
    assert update_of("cas", "b32")(old, np.array([1, 1], U), np.array([9, 9], U)).tolist() == [9, 2]


def test_halves_are_rounded():
    ones = np.array([1.0], np.float16)
    assert update_of("add", "f16")(ones, np.array([2.0**-11], np.float16), None).tolist() == [1.0]
