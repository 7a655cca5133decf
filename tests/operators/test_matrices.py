from __future__ import annotations

import numpy as np
import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.operators.matrices import (
    check_elements,
    check_leading,
    laid_out,
    matrix,
    stray_write,
    tolerance_of_sums,
    worst_element,
)


def test_a_matrix_is_a_view_of_its_buffer() -> None:
    buffer = np.arange(12.0)
    view = matrix(buffer, 3, 2, 5)
    assert view.tolist() == [[0, 5], [1, 6], [2, 7]]
    view[1, 1] = -1
    assert buffer[6] == -1


def test_a_matrix_is_laid_out_as_it_is_read() -> None:
    values = np.arange(6.0).reshape(3, 2)
    buffer = laid_out(values, 4)
    assert buffer.shape == (8,)
    np.testing.assert_array_equal(matrix(buffer, 3, 2, 4), values)
    assert np.isnan(buffer[[3, 7]]).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_write_between_columns_is_found(dtype: type[np.floating]) -> None:
    buffer = np.full(15, np.nan, dtype)
    matrix(buffer, 3, 3, 5)[...] = 1
    assert stray_write("C", buffer, (3, 3, 5)) == ""
    buffer[9] = 0
    assert stray_write("C", buffer, (3, 3, 5)) == "C[4, 1]: written, but C has 3 rows"


def test_a_matrix_without_padding_has_no_stray_write() -> None:
    assert stray_write("C", np.zeros(6), (3, 2, 3)) == ""


def test_the_worst_element_in_words() -> None:
    text = worst_element("C[0, 1]", 2.0, 1.0, 3, 40)
    assert text == "C[0, 1]: got 2.0, expected 1; 3 of 40 elements are wrong"


def test_the_tolerance_is_sixteen_unit_roundoffs() -> None:
    assert tolerance_of_sums("float32") == 16 * 2.0**-24
    assert tolerance_of_sums("float64") == 16 * 2.0**-53


def test_a_short_leading_dimension_is_refused() -> None:
    check_leading("lda", 5, 5)
    with pytest.raises(UserError, check=coded("wrong-value", key="problem.lda", found=4)) as error:
        check_leading("lda", 4, 5)
    assert (error.value.key, error.value.found) == ("problem.lda", 4)


def test_a_matrix_of_too_many_elements_is_refused() -> None:
    check_elements("A", 1, 1, 2**31 - 1)
    with pytest.raises(UserError, check=coded("out-of-range", key="problem")):
        check_elements("A", 1, 2, 2**30)
