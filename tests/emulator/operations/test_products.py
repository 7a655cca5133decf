"""Sums of tensor cores against a model of one sum in exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from lab.emulator.floats import exact_arithmetic
from lab.emulator.operations.products import RULES, multiply_add, rule_of

ONES = {"f16": ("f32", "f16", "f16", "f32"), "tf32": ("f32", "tf32", "tf32", "f32")}


def one(a, b, c, types=ONES["f16"], unit="mma"):
    """The product of a row and a column."""
    a, b = np.array([[a]], np.float64), np.array([b], np.float64)[..., None]
    with exact_arithmetic():
        return float(multiply_add(a, b, np.array([[[c]]], np.float64), types, unit)[0, 0, 0])


def exponent(x):
    return int(np.frexp(float(x))[1]) - 1


def modelled(a, b, c, precision):
    """One block: addends cut to multiples of a power of two, their sum cut to 24 bits."""
    products = [(Fraction(x) * Fraction(y), exponent(x) + exponent(y)) for x, y in zip(a, b, strict=True) if x * y]
    addends = [*products, *([(Fraction(c), exponent(c))] if c else [])]
    if not addends:
        return 0.0
    unit = Fraction(2) ** (max(e for _, e in addends) - precision)
    total = sum((int(x / unit) for x, _ in addends), start=0) * unit
    if not total:
        return 0.0
    last = Fraction(2) ** (exponent(total) - 23)
    return float(int(total / last) * last)


@pytest.mark.parametrize("seed", range(20))
def test_a_block_is_aligned_cut_and_summed(seed):
    random = np.random.default_rng(seed)
    a, b = (np.float16(random.normal(size=16) * 2.0 ** random.integers(-6, 6, 16)).astype(float) for _ in range(2))
    c = float(np.float32(random.normal() * 2.0 ** random.integers(-12, 12)))
    assert one(a, b, c) == modelled(a, b, c, RULES["mma", "f16"].kept)


def test_blocks_follow_one_another():
    block = RULES["mma", "tf32"].block
    a, b = np.full(2 * block, 1 + 2.0**-10), np.full(2 * block, 1 + 2.0**-9)
    first = one(a[:block], b[:block], 0.0, ONES["tf32"])
    assert one(a, b, 0.0, ONES["tf32"]) == one(a[block:], b[block:], first, ONES["tf32"])


def test_bits_that_fall_off_are_lost_one_by_one():
    precision = RULES["mma", "f16"].kept
    below = 2.0 ** -((precision + 1) // 2) * 0.5
    assert one([below] * 4, [below] * 4, 1.0) == 1.0  # together they would count
    assert one([0.5] * 4, [0.5] * 4, 1.0) == 2.0


def test_a_sum_in_half_precision_is_rounded_to_nearest():
    types = ("f16", "f16", "f16", "f16")
    assert one([1.0], [1 + 2.0**-10], 2.0**-11, types) == 1 + 2.0**-9  # a tie goes to even
    assert one([1.0], [1.0], 2.0**-11, types) == 1.0
    assert np.isinf(one([60000.0], [2.0], 0.0, types))


def test_doubles_are_chained():
    random = np.random.default_rng(3)
    a, b, c = random.normal(size=4), random.normal(size=4), random.normal()
    exact = c
    for x, y in zip(a, b, strict=True):
        exact = float(Fraction(x) * Fraction(y) + Fraction(exact))
    assert one(a, b, c, ("f64",) * 4) == exact


def test_what_is_not_finite():
    assert one([np.inf, 1.0], [1.0, 1.0], 0.0) == np.inf
    assert one([-np.inf, 1.0], [np.inf, 1.0], 0.0) == -np.inf
    assert one([1.0, 1.0], [1.0, 1.0], -np.inf) == -np.inf
    assert np.isnan(one([np.inf, np.inf], [1.0, -1.0], 0.0))
    assert np.isnan(one([np.inf, 1.0], [0.0, 1.0], 0.0))
    assert np.isnan(one([1.0, 1.0], [1.0, 1.0], np.nan))


def test_every_float_has_a_rule():
    for unit in ("mma", "wgmma"):
        for t in ("f16", "bf16", "tf32", "e4m3", "e5m2"):
            assert rule_of(unit, t).block in (4, 8, 16, 32)
    assert rule_of("wgmma", "e4m3") == rule_of("wgmma", "e5m2")


def test_many_tiles_are_cut_into_pieces():
    random = np.random.default_rng(4)
    a, b = random.integers(-4, 5, (70, 16, 16)).astype(float), random.integers(-4, 5, (70, 16, 256)).astype(float)
    c = random.integers(-9, 10, (70, 16, 256)).astype(float)
    np.testing.assert_array_equal(multiply_add(a, b, c, ONES["f16"], "wgmma"), a @ b + c)


@pytest.fixture(scope="module")
def measured(benchmark_script, root):
    script = benchmark_script("tensor_cores")
    return script, np.load(root / "tests" / "emulator" / "operations" / "h200_tensor_cores.npz")


def test_every_bit_is_that_of_an_h200(measured):
    """Inputs of every kind, special values and subnormal ones too; wgmma at random descriptors."""
    script, saved = measured
    assert "H200" in str(saved["gpu"])
    cases = [case for case in script.cases() if case.name in saved]
    assert len(cases) == len(saved.files) - 1
    for case in cases:
        wanted = saved[case.name]
        np.testing.assert_array_equal(script.emulate(case, len(wanted)), wanted, err_msg=case.name)
