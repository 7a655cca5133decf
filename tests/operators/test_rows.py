from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from lab.measured.timing import Merit
from lab.operators.base import Expected, Extent, Inputs, Problem
from lab.operators.rows import RowOperator, rows_of
from lab.operators.stored import empty


class NegationProblem(Problem):
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
        return Inputs({}, {"Z": empty(problem.m * problem.ldz, "float32")}, ("Z",))

    def reference(self, problem: NegationProblem, inputs: Inputs) -> Mapping[str, Expected]:
        del inputs
        values = -np.arange(problem.m * problem.n, dtype=np.float64).reshape(problem.m, problem.n)
        values[1] = np.nan
        return {"Z": Expected(values, np.full_like(values, 0.5))}

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
