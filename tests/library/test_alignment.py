"""Which dimensions decide how wide copies can be."""

from __future__ import annotations

import numpy as np
import pytest

from lab.library.alignment import Alignment

SIZES = np.array([[8, 12, 16], [4, 8, 3], [1, 2, 4]])


@pytest.mark.parametrize(
    ("dtype", "vector"), [("float32", 4), ("bfloat16", 8), ("float64", 2), ("complex64", 2), ("complex128", 1)]
)
def test_a_vector_has_sixteen_bytes(dtype: str, vector: int) -> None:
    assert Alignment.of(dtype, "tt").vector == vector


@pytest.mark.parametrize(
    ("layout", "decides"),
    [("nn", (True, False, True)), ("nt", (True, True, False)), ("tn", (True, False, True)), ("tt", (True, True, True))],
)
def test_dimensions_that_columns_have_decide(layout: str, decides: tuple[bool, bool, bool]) -> None:
    assert Alignment.of("float32", layout).decides == decides


def test_what_decides_nothing_counts_as_divided() -> None:
    assert Alignment.of("bfloat16", "nn").divided(SIZES).tolist() == [
        [True] * 3,
        [False, True, False],
        [False, True, False],
    ]
    assert Alignment().divided(SIZES).tolist() == [[True] * 3, [True, True, False], [False, False, True]]
