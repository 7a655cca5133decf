from __future__ import annotations

import pytest

from lab.base.errors import UserError
from lab.operators.builtin import operator
from lab.operators.factors import imaginary_default


def test_only_complex_elements_have_imaginary_factors():
    assert imaginary_default({"dtype": "complex64"}) == 0.0
    assert imaginary_default({"dtype": "float16"}) is None


@pytest.mark.parametrize(("name", "size"), [("gemm", {"m": 1, "n": 1, "k": 1}), ("contraction", {"einsum": ",->"})])
def test_an_imaginary_part_of_a_real_factor_is_refused(name, size):
    with pytest.raises(UserError) as caught:
        operator(name).problem({**size, "dtype": "float64", "alpha_imag": 1.0})
    assert (caught.value.key, caught.value.accepted) == ("problem.alpha_imag", "no value with dtype float64")
    assert operator(name).problem({**size, "dtype": "complex64", "alpha_imag": 1.0})["alpha_imag"] == 1.0
