from __future__ import annotations

import numpy as np
import pytest
from library_support import small_library
from mistakes import coded

from lab.base.errors import UserError
from lab.emulator.api import launch
from lab.emulator.results import Buffer
from lab.library.calls import sized_form
from lab.library.combine import ENTRY, THREADS, combine_ptx, product_form


def combined(dtype, size, scalars, on_gpu):
    """Execute the PTX; W and C are NaN wherever they must not be read."""
    (rows, columns, leading), (alpha, beta) = size, scalars
    rng = np.random.default_rng(3)
    w = np.full(rows * columns, np.nan, dtype)
    c = np.full((leading, columns), np.nan, dtype, order="F")
    if alpha != 0:
        w[:] = rng.standard_normal(w.size)
    if beta != 0:
        c[:rows] = rng.standard_normal((rows, columns))
    expected = np.zeros((rows, columns))
    if alpha != 0:
        expected += float(alpha) * w.reshape(rows, columns, order="F")
    if beta != 0:
        expected += float(beta) * c[:rows]
    flat = c.reshape(-1, order="F").copy()
    places = [np.array([value], dtype) if there else 0 for value, there in zip(scalars, on_gpu, strict=True)]
    values = [np.dtype(dtype).type(np.nan if there else v) for v, there in zip(scalars, on_gpu, strict=True)]
    done = launch(
        combine_ptx(dtype), ENTRY, -(-w.size // THREADS), THREADS,
        [rows, w.size, leading, places[0], values[0], w, places[1], values[1], Buffer(flat, output=False)],
    )  # fmt: skip
    assert done.clean
    return flat.reshape(leading, columns, order="F"), expected


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("size", "scalars", "on_gpu"),
    [
        ((1, 1, 1), (1.5, 0.0), (True, True)),
        ((37, 29, 41), (1.5, 0.0), (True, True)),
        ((37, 29, 41), (-0.5, 2.0), (True, True)),
        ((257, 1, 257), (0.0, 2.0), (True, False)),
        ((5, 61, 8), (0.0, 0.0), (False, True)),
        ((16, 16, 16), (0.0, -0.0), (True, True)),
    ],
)
def test_c_is_alpha_w_plus_beta_c(dtype, size, scalars, on_gpu):
    found, expected = combined(dtype, size, scalars, on_gpu)
    rows = size[0]
    np.testing.assert_allclose(found[:rows], expected, rtol=4 * np.finfo(dtype).eps, atol=4 * np.finfo(dtype).eps)
    assert np.isnan(found[rows:]).all()  # padding is not touched


def test_other_types_are_refused():
    with pytest.raises(UserError, check=coded("unsupported", found="float16")) as caught:
        combine_ptx("float16")
    assert caught.value.found == "float16"


def test_the_product_has_no_gaps_and_is_one_for_all_members():
    form = sized_form(5, 3, 7, (8, 9, 11), small_library())
    made = product_form(form)
    assert made.point == (5, 3, 7, 8, 9, 5)
    assert made.spans == (*form.spans[:2], 4 * 15)
    assert made.steps[2] == 0
