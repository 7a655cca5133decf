"""Sizes whose data fills blocks as that of the real problem does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.warp import LINE_BYTES
from lab.runs.sample_sizes import aligned_as, congruent, filled, others, smaller_sizes


def test_sizes_that_are_smaller_on_the_cpu_are_found():
    real = {"n": 4096, "rows": 99, "same": 4, "alpha": 2.0, "causal": True, "missing": 7}
    assert smaller_sizes({"n": 40, "rows": 99, "same": 4, "alpha": 1.0, "causal": False}, real) == {"n": (40, 4096)}
    assert smaller_sizes({"n": 0}, {"n": 8}) == {}


@pytest.mark.parametrize(
    ("real", "small", "factor", "expected"),
    [
        (1023, 35, 1, 63),  # leaves 63 by 64, as 1023 does
        (1023, 35, 4, 255),
        (32000, 21, 2, 64),
        (200_000, 75, 2, 320),
        (4096, 256, 1, 256),  # it does so already
        (224, 70, 2, 224),  # hardly larger
    ],
)
def test_a_sample_leaves_the_remainder_of_the_real_size(real, small, factor, expected):
    assert congruent(real, small, factor) == expected


@given(st.integers(1, 1 << 24), st.integers(1, 1 << 12), st.sampled_from([1, 2, 4]))
def test_samples_are_as_full_as_the_real_problem(real, small, factor):
    small = min(real, small)
    size = congruent(real, small, factor)
    assert small <= size <= real
    if size != real:
        assert size < small + 2 * factor * small
        period = 1 << (factor * small - 1).bit_length()
        assert (real - size) % period == 0
        assert period >= factor * small


@pytest.mark.parametrize(
    ("real", "small", "factor", "expected"),
    [
        (4096, 272, 1, 512),
        (4097, 272, 1, 512),
        (4096, 256, 1, 256),
        (4096, 80, 4, 512),
        (300, 272, 1, 272),
        (512, 272, 1, 512),
    ],
)
def test_filled_sizes_are_powers_of_two_that_the_real_one_holds(real, small, factor, expected):
    assert filled(real, small, factor) == expected


@pytest.mark.parametrize(
    ("real", "least", "expected"),
    [
        (688, 256, 272),  # 16 times an odd number
        (8864, 512, 544),
        (1001, 256, 257),
        (1001, 257, 257),
        (4096, 256, 256),  # rows begin with lines, whatever their type
        (640, 300, 384),
        (64, 1, 64),
    ],
)
def test_rows_of_samples_begin_as_those_of_the_real_problem(real, least, expected):
    assert aligned_as(real, least) == expected


@given(st.integers(1, 1 << 20), st.integers(1, 1 << 12))
def test_a_leading_dimension_has_the_same_power_of_two_up_to_a_line(real, least):
    found = aligned_as(real, least)
    assert least <= found < least + 2 * LINE_BYTES
    assert min(real & -real, LINE_BYTES) == min(found & -found, LINE_BYTES)


def test_other_sizes_are_such_that_kernels_bear():
    assert others(256, 4096) == (128, 64, 512, 1024)
    assert others(240, 4080) == (120, 60, 112, 48, 480, 960)  # steps of 16 go through 112 and 48
    assert others(128, 300) == (64, 32, 44, 256)
    assert others(1, 3) == (2,)
