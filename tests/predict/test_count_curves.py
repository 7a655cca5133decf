from __future__ import annotations

import math

import pytest

from lab.emulator.results import ExecutedCounts
from lab.predict.count_curves import CountsBySize, fitted, follows_blocks, is_open, resized_counts
from lab.recorded.run_records import EmulatedStep, LaunchRecord

FORMS = {
    "constant": lambda n: 700,
    "linear": lambda n: 12 * n,
    "fixed part": lambda n: 900 + 3 * n,
    "halo": lambda n: 3 * n - 40,
    "search": lambda n: 50 + 7 * math.log2(n),
    "n log n": lambda n: 5 * n * math.log2(n) + 2 * n,
    "quadratic": lambda n: n**2,
    "rows": lambda n: 90 * n + n**2,
    "once and squared": lambda n: 5000 + n**2,
    "cubic": lambda n: n**3,
}


def points(form, *sizes):
    return {size / sizes[0]: form(size) / form(sizes[0]) for size in sizes}


@pytest.mark.parametrize("name", FORMS)
def test_three_sizes_tell_a_form_of_two_terms(name):
    form = FORMS[name]
    curve = fitted(points(form, 64, 32, 128))
    assert curve.at(64) == pytest.approx(form(4096) / form(64), rel=0.02)


def test_three_terms_take_four_sizes():
    def triangle(n):
        return 20_000 + 30 * n + n**2 // 2

    assert fitted(points(triangle, 64, 32, 128)) is None
    assert fitted(points(triangle, 64, 32, 128, 16)).at(64) == pytest.approx(triangle(4096) / triangle(64), rel=0.01)


def test_counts_that_follow_the_data_have_no_curve():
    assert fitted({1.0: 1.0, 0.5: 0.49, 2.0: 1.93, 0.25: 0.27}) is None
    assert fitted({1.0: 1.0, 0.5: 0.5}) is None
    assert fitted({1.0: 1.0, 0.5: 0.0, 2.0: 2.0}) is None
    assert fitted({1.0: 1.0, 0.5: 0.75, 2.0: 0.5}) is None  # what falls does not go on so


def launched(looped, hot, outside=10, blocks=1):
    executed = ExecutedCounts(0, looped + outside, {}, {}, {}, {}, {})
    loops = {"hot": hot}
    launch = LaunchRecord((blocks, 1, 1), (32, 1, 1), 0)
    inside = ExecutedCounts(0, looped, {}, {}, {}, {}, {})
    return (EmulatedStep("k", launch, executed, looped=inside, hot_label="hot", loops=loops),)


@pytest.fixture
def counted():
    """Return a factory of counts by size: `form(m, n)` in the hot loop, beside a loop of 500."""

    def made(form, *both):
        sizes = [{}, {"m": 32}, {"m": 128}, {"n": 32}, {"n": 128}, *both]
        of, *resized = (
            resized_counts(size, launched(500 + (hot := form(size.get("m", 64), size.get("n", 64))), hot))
            for size in sizes
        )
        return CountsBySize({"m": 64, "n": 64}, of, resized)

    return made


HALVED = {"m": 32, "n": 32}
SMALL, REAL = {"m": 1.0, "n": 1.0}, {"m": 16.0, "n": 64.0}


def test_sizes_multiply_each_other_or_add_up(counted):
    def area(m, n):
        return (100 + m) * (7 + n)

    def beside(m, n):
        return 3 * m + 5 * n

    for form, both in ((area, ()), (area, (HALVED,)), (beside, (HALVED,))):
        found = counted(form, *both).factor("hot", SMALL, REAL, "hot")
        assert found == pytest.approx(form(1024, 4096) / form(64, 64))
    assert counted(lambda m, n: m * n + 40 * m, HALVED).factor("hot", SMALL, REAL, "hot") == pytest.approx(
        (1024 * 4096 + 40 * 1024) / (64 * 64 + 40 * 64)
    )
    assert counted(lambda m, n: 99 + math.gcd(m, n), HALVED).factor("hot", SMALL, REAL, "hot") is None


def test_the_rest_grows_by_itself(counted):
    found = counted(lambda m, n: m * n)
    assert found.factor("hot", SMALL, REAL, "hot") == pytest.approx(16 * 64)
    assert found.factor("around", SMALL, REAL, "hot") == found.factor("outside", SMALL, REAL, "hot") == 1
    assert found.factor("hot", SMALL, REAL, "gone") == 1  # no such loop, at no size
    half = {"m": 0.5, "n": 1.0}
    assert found.factor("hot", half, REAL, "hot") == pytest.approx(32 * 64)


def test_what_starts_beyond_the_counted_size_is_not_known(counted):
    assert counted(lambda m, n: max(0, m - 64)).factor("hot", SMALL, REAL, "hot") is None


def test_sizes_are_tried_until_curves_say_it():
    def known(form, *sizes):
        return [resized_counts({"m": size}, launched(form(size), form(size))) for size in sizes]

    steps, problem = launched(64, 64), {"m": 64}
    assert is_open("m", problem, steps, known(int, 32))
    assert not is_open("m", problem, steps, known(int, 32, 128))
    assert is_open("m", problem, steps, known(lambda size: size + size % 31, 32, 128))
    assert not is_open("m", problem, steps, known(lambda size: size + size % 31, 32, 128, 16))


def test_a_grid_may_have_a_block_that_is_filled_in_part():
    assert follows_blocks(100.0, 103.0)
    assert not follows_blocks(1.0, 64.0)
