from __future__ import annotations

from dataclasses import replace

from lab.recorded.predictions import Bound, Prediction

DRAM = Bound("DRAM", 2.0, "", gb_s=900.0)
WAVES = Bound("waves", 1.5, "")
OPERATIONS = Prediction("H200", 1.0, 2, "", 60.0, (DRAM, WAVES))


def test_a_bound_counts_bytes_where_throughput_does() -> None:
    assert (DRAM.rate, WAVES.rate) == (900.0, 1.5)


def test_the_ceiling_is_the_bound_with_the_lowest_rate() -> None:
    assert OPERATIONS.ceiling is WAVES
    assert replace(OPERATIONS, bounds=(DRAM,)).ceiling is DRAM
    assert replace(OPERATIONS, bounds=()).ceiling is None


def test_the_peak_is_in_the_unit_of_throughput() -> None:
    assert OPERATIONS.peak == 60.0
    assert replace(OPERATIONS, peak_gb_s=4800.0).peak == 4800.0
