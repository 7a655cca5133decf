"""Arrays that are made when they are read."""

import numpy as np
import pytest

from lab.operators.indexed import PAGE, ConstantArray, PagedArray, WholeArray, gather


def squares(size, asked=None):
    def page(number):
        if asked is not None:
            asked.append(number)
        return (np.arange(number * PAGE, (number + 1) * PAGE) ** 2 % 1009).astype(np.int64)

    return PagedArray(np.dtype(np.int64), size, page)


@pytest.mark.parametrize("span", [(0, 1), (0, PAGE), (PAGE - 1, PAGE + 1), (5, 3 * PAGE + 2), (7, 7)])
def test_spans_across_pages(span):
    start, stop = span
    np.testing.assert_array_equal(squares(10 * PAGE).read(start, stop), np.arange(start, stop) ** 2 % 1009)


def test_a_page_is_made_once():
    asked: list[int] = []
    array = squares(1 << 40, asked)
    assert array.read(5, 7).tolist() == [25, 36]
    assert array.read(6, 8).tolist() == [36, 49]
    assert asked == [0]


def test_elements_in_any_order():
    at = np.array([PAGE + 3, 2, (1 << 30) + 1, 2])
    np.testing.assert_array_equal(gather(squares(1 << 40), at), at**2 % 1009)
    assert len(gather(squares(10), np.zeros(0, np.int64))) == 0


def test_an_array_that_is_there():
    held = np.arange(7.0)
    whole = WholeArray(held)
    assert (whole.size, whole.dtype) == (7, held.dtype)
    assert whole.read(2, 4).tolist() == [2, 3]


@pytest.mark.parametrize("element", [np.float32(0), np.float32(np.nan), np.uint16(0x3F80), np.float32(-0.0)])
def test_an_array_of_equal_elements(element):
    array = ConstantArray(np.array([element]), (1 << 40) + 3)
    assert (array.size, array.dtype) == ((1 << 40) + 3, element.dtype)
    held = array.read(1 << 40, array.size)
    assert held.tobytes() == element.tobytes() * 3
    assert len(array.read(5, 5)) == 0
    assert gather(array, np.array([array.size - 1, 2])).tobytes() == element.tobytes() * 2
