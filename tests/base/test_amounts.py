"""Figures in as many digits as their error allows."""

from __future__ import annotations

import pytest

from lab.base.amounts import digits_of, scale_of, significant, time_text


@pytest.mark.parametrize(("error", "digits"), [(0.0, 4), (1e-6, 4), (0.003, 4), (0.02, 3), (0.25, 2), (2.0, 2)])
def test_an_error_leaves_so_many_digits(error, digits):
    assert digits_of(error) == digits


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (3179.99, 2, "3200"),
        (3.17999, 2, "3.2"),
        (9.96, 2, "10"),
        (0.0996, 2, "0.10"),
        (0.01213, 3, "0.0121"),
        (0.0, 2, "0"),
        (-42.851, 4, "-42.85"),
        (float("inf"), 2, "inf"),
    ],
)
def test_significant_digits(value, digits, text):
    assert significant(value, digits) == text


@pytest.mark.parametrize(
    ("unit", "values", "scaled"),
    [
        ("GB/s", [3179.99, 12.0], (1e-3, "TB/s")),
        ("GB/s", [435.9], (1.0, "GB/s")),
        ("GB/s", [0.06], (1e3, "MB/s")),
        ("TFLOP/s", [0.5, 0.25], (1e3, "GFLOP/s")),
        ("TFLOP/s", [1000.0], (1e-3, "PFLOP/s")),
        ("ms", [0.000012], (1e6, "ns")),
        ("ms", [1500.0], (1e-3, "s")),
        ("Mkeys/s", [1e9], (1.0, "Mkeys/s")),
        ("GB/s", [], (1.0, "GB/s")),
    ],
)
def test_the_prefix_fits_the_largest_figure(unit, values, scaled):
    factor, name = scale_of(unit, values)
    assert (pytest.approx(factor), name) == scaled


def test_a_time_has_its_unit():
    assert time_text(0.01234, 2) == "12 µs"
