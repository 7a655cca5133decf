from __future__ import annotations

import pytest

from lab.library import expected
from lab.library.expected import expected_ms
from lab.library.package import MeasuredSize


def measured(*sizes: tuple[int, int, int]) -> list[MeasuredSize]:
    """2 m n k at 1 GFLOP a millisecond."""
    return [MeasuredSize(m, n, k, 0, 2e-9 * m * n * k) for m, n, k in sizes]


CUBE = measured(*((m, n, k) for m in (512, 2048) for n in (512, 2048) for k in (512, 2048)))


def test_nothing_measured_says_nothing() -> None:
    assert expected_ms([], (1, 2, 3)) is None


def test_a_power_law_between_measured_sizes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected, "_FLAT", 0.0)
    assert expected_ms(CUBE, (1024, 700, 1500)) == pytest.approx(2e-9 * 1024 * 700 * 1500)


def test_a_measured_size_is_expected_nearly_as_it_was_measured() -> None:
    assert expected_ms(CUBE, (512, 512, 2048)) == pytest.approx(2e-9 * 512 * 512 * 2048, rel=0.25)


def test_one_size_stands_for_all_around_it() -> None:
    one = measured((100, 100, 100))
    assert expected_ms(one, (100, 100, 100)) == expected_ms(one, (120, 100, 100)) == pytest.approx(one[0].ms)


def test_sizes_that_4_divides_alike_weigh_more() -> None:
    odd, even = MeasuredSize(101, 64, 64, 0, 2.0), MeasuredSize(96, 64, 64, 0, 1.0)
    assert expected_ms([odd, even], (98, 64, 64)) > expected_ms([odd, even], (100, 64, 64))


def test_a_power_law_of_batches_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected, "_FLAT", 0.0)
    sizes = [(m, n, k, batch) for m in (64, 512) for n in (64, 512) for k in (64, 512) for batch in (2, 32)]
    measured = [MeasuredSize(m, n, k, 0, 2e-9 * m * n * k * batch, None, batch) for m, n, k, batch in sizes]
    monkeypatch.setattr(expected, "_NEAREST", len(sizes))
    assert expected.expected_ms(measured, (128, 256, 100, 8)) == pytest.approx(2e-9 * 128 * 256 * 100 * 8, rel=1e-6)
