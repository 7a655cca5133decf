from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.measured.timing import Merit
from lab.operators import rows
from lab.operators.base import Expected, Extent, Inputs
from lab.operators.boxes import Index
from lab.operators.indexed import IndexedInputs
from lab.operators.rows import RowOperator, RowProblem, rows_of
from lab.operators.stored import empty


class NegationProblem(RowProblem):
    m: Extent
    n: Extent
    ldz: Extent


@dataclass(frozen=True)
class Negation(RowOperator[NegationProblem]):
    name = "negation"
    merit = Merit.BANDWIDTH
    problem_type = NegationProblem
    output, leading = "Z", "ldz"

    def inputs(self, problem: NegationProblem, seed: int) -> Inputs:
        del seed
        return self.inputs_of(problem, {"Z": empty(problem.m * problem.ldz, "float32")})

    def expected_rows(self, problem: NegationProblem, inputs: IndexedInputs, chosen: Index) -> Expected:
        del inputs
        values = -(chosen[:, None] * problem.n + np.arange(problem.n, dtype=np.float64))
        values[chosen == 1] = np.nan
        return Expected(values, np.full_like(values, 0.5))

    def flops(self, problem: NegationProblem) -> int:
        return problem.m * problem.n

    def bytes_moved(self, problem: NegationProblem) -> int:
        return 4 * problem.m * problem.n


OPERATOR = Negation()
PROBLEM = OPERATOR.problem({"m": 3, "n": 4, "ldz": 6})


def answer() -> tuple[Mapping[str, Expected], Inputs]:
    inputs = OPERATOR.inputs(PROBLEM, 0)
    expected = OPERATOR.reference(PROBLEM, inputs)
    rows_of(inputs.arrays["Z"], 3, 4, 6)[...] = expected["Z"].values
    return expected, inputs


def test_an_error_is_counted_in_bounds() -> None:
    expected, inputs = answer()
    inputs.arrays["Z"][2] += 0.25
    assert OPERATOR.verify(PROBLEM, expected, inputs.arrays) == (0.5, 1.0, "")
    inputs.arrays["Z"][2] += 0.5
    error, tolerance, worst = OPERATOR.verify(PROBLEM, expected, inputs.arrays)
    assert (error, tolerance, worst) == (1.5, 1.0, "Z[0, 2]: got -1.25, expected -2; 1 of 12 elements are wrong")


@pytest.mark.parametrize(("place", "value"), [(0, np.nan), (6, 1.0)])
def test_nan_is_where_the_reference_has_it_and_nowhere_else(place: int, value: float) -> None:
    expected, inputs = answer()
    inputs.arrays["Z"][place] = value
    assert OPERATOR.verify(PROBLEM, expected, inputs.arrays)[0] == np.inf


def test_padding_must_be_untouched() -> None:
    expected, inputs = answer()
    inputs.arrays["Z"][11] = 0.0
    assert OPERATOR.verify(PROBLEM, expected, inputs.arrays)[2] == "Z[1, 5]: written, but Z has 4 columns"


def test_element_by_element_padding_and_rows_without_numbers_are_nan() -> None:
    expected, _ = answer()
    laid, tolerance = OPERATOR.elementwise(PROBLEM, expected)
    scale = laid["Z"].scale
    assert tolerance == 1.0
    assert np.isnan(np.asarray(scale).reshape(3, 6)).sum(axis=1).tolist() == [2, 6, 2]


def test_large_problems_are_computed_in_chunks_of_whole_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = OPERATOR.problem({"m": 7, "n": 4, "ldz": 4})
    monkeypatch.setattr(rows, "_CHUNK", 9)
    chunked = OPERATOR.reference(problem, OPERATOR.inputs(problem, 0))["Z"]
    values = -np.arange(28.0).reshape(7, 4)
    values[1] = np.nan
    np.testing.assert_array_equal(chunked.values, values)
    np.testing.assert_array_equal(chunked.scale, np.full((7, 4), 0.5))


def test_numbers_are_a_kernels_scalars_and_rows_fit_their_stride() -> None:
    assert PROBLEM.numbers == {"m": 3, "n": 4, "ldz": 6}
    with pytest.raises(UserError, check=coded("wrong-value", key="problem.ldz", found=3)):
        OPERATOR.problem({"m": 3, "n": 4, "ldz": 3})
