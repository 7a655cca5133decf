from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from lab.base.errors import UserError
from lab.operators.builtin import operator
from lab.operators.masked_softmax import MaskedSoftmaxProblem
from lab.operators.rows import rows_of
from lab.operators.stored import stored, widened

MASKED = operator("masked_softmax")
MASKS = ["none", "causal", "additive"]


def loaded(**fields: Any) -> tuple[MaskedSoftmaxProblem, Any]:
    given = {"m": 11, "n": 9, "queries": 4, "ldx": 10, "ldm": 12, "ldy": 11, "scale": -0.375, **fields}
    problem = MASKED.problem(given)
    return problem, MASKED.inputs(problem, 3)


@pytest.mark.parametrize("mask", MASKS)
def test_every_element_is_what_the_definition_says(mask: str) -> None:
    problem, inputs = loaded(mask=mask)
    x = widened(rows_of(inputs.arrays["X"], 11, 9, 10))
    got = MASKED.reference(problem, inputs)["Y"].values
    for i in range(11):
        scores = [problem.scale * x[i, j] for j in range(9)]
        if mask == "causal":  # 4 queries, which are the last 4 of 9 positions
            scores = [score if j <= 5 + i % 4 else -math.inf for j, score in enumerate(scores)]
        if mask == "additive":
            added = widened(rows_of(inputs.arrays["M"], 4, 9, 12))[i % 4]
            scores = [score + float(more) for score, more in zip(scores, added, strict=True)]
        total = sum(math.exp(score) for score in scores)
        np.testing.assert_allclose(got[i], [math.exp(score) / total for score in scores], rtol=1e-13)


def test_what_a_causal_mask_hides_is_nan_before_and_zero_after() -> None:
    problem, inputs = loaded(mask="causal")
    hidden = np.isnan(widened(rows_of(inputs.arrays["X"], 11, 9, 10)))
    expected = [9 - 4 + i % 4 + 1 for i in range(11)]
    assert problem.visible.tolist() == (~hidden).sum(axis=1).tolist() == expected
    assert (MASKED.reference(problem, inputs)["Y"].values[hidden] == 0).all()


def test_a_row_that_sees_nothing_is_nan() -> None:
    problem, inputs = loaded(mask="additive")
    rows_of(inputs.arrays["M"], 4, 9, 12)[1] = -np.inf
    expected = MASKED.reference(problem, inputs)["Y"]
    assert np.isnan(expected.values).all(axis=1).tolist() == [i % 4 == 1 for i in range(11)]
    assert (expected.scale > 0).all()


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_arithmetic_in_float32_is_right_and_an_unmasked_or_unscaled_row_is_not(dtype: str, mask: str) -> None:
    problem, inputs = loaded(n=700, ldx=700, ldm=700, ldy=700, dtype=dtype, mask=mask)
    reference = MASKED.reference(problem, inputs)
    x = np.nan_to_num(widened(inputs.arrays["X"])).astype(np.float32).reshape(11, 700)
    added = np.zeros((11, 700), np.float32)
    if mask == "additive":
        added = widened(inputs.arrays["M"]).astype(np.float32).reshape(4, 700)[np.arange(11) % 4]
    added[np.arange(700) >= problem.visible[:, None]] = -np.inf
    for scale, term, right in ((-0.375, added, True), (-0.374, added, False), (-0.375, np.zeros_like(added), False)):
        scores = np.float32(scale) * x + term
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        inputs.arrays["Y"][...] = stored(powers / powers.sum(axis=1, keepdims=True), dtype).reshape(-1)
        error, tolerance, _ = MASKED.verify(problem, reference, inputs.arrays)
        # half of 16 bits hides a difference of 0.001 in the scale, and without a mask there is none to forget
        may_pass = (mask == "none" and not term.any()) or (scale == -0.374 and dtype != "float32")
        if right or not may_pass:
            assert (error <= tolerance) == right


@pytest.mark.parametrize(("mask", "read"), [("none", 11 * 9), ("causal", 6 + 7 + 8), ("additive", 11 * 9 + 4 * 9)])
def test_what_is_read_is_what_rows_may_see(mask: str, read: int) -> None:
    problem, _ = loaded(mask=mask, dtype="float16")
    visible = 2 * (6 + 7 + 8 + 9) + read if mask == "causal" else read
    assert MASKED.bytes_moved(problem) == 2 * (visible + 11 * 9)
    assert MASKED.flops(problem) == (7 if mask == "additive" else 6) * 99


def test_one_matrix_of_queries_unless_there_are_more_rows_than_keys() -> None:
    assert MASKED.problem({"m": 5, "n": 9}).queries == 5
    assert MASKED.problem({"m": 18, "n": 9}).queries == 9


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"ldm": 8}, "ldm"),
        ({"queries": 10}, "queries is 10, but a causal mask needs at most n, 9"),
        ({"scale": math.inf}, "scale"),
        ({"mask": "boolean"}, "mask"),
    ],
)
def test_a_wrong_field_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as caught:
        loaded(**fields)
    assert words in f"{caught.value} {caught.value.key}"
