from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.gpu.timing import cache
from lab.gpu.timing.cache import Flush


@pytest.mark.parametrize(
    ("flush", "shortest_ms", "cold"),
    [
        (Flush.AUTO, 0.05, True),
        (Flush.AUTO, 0.0499, False),
        (Flush.ON, 0.001, True),
        (Flush.OFF, 100.0, False),
    ],
)
def test_short_kernels_are_warm_unless_a_file_says_otherwise(flush, shortest_ms, cold):
    assert cache.is_cold(flush, shortest_ms) is cold


def test_the_limit_can_be_moved():
    assert cache.is_cold(Flush.AUTO, 0.2, short_us=200.0)
    assert not cache.is_cold(Flush.AUTO, 0.2, short_us=201.0)


def test_a_files_words_and_a_records_words_agree():
    for cold in (True, False):
        flush = Flush.of(cache.state(cold=cold))
        assert all(cache.is_cold(flush, ms) is cold for ms in (1e-4, 1e4))
        assert flush.empties is cold
    assert Flush.of("auto") is Flush.AUTO
    with pytest.raises(KeyError):
        Flush.of("lukewarm")


@pytest.mark.parametrize(("pilot_ms", "batch"), [(0.01, 20), (0.0, 32), (0.15, 2), (0.2, 1), (5.0, 1)])
def test_a_batch_takes_about_as_long_as_it_should(pilot_ms, batch):
    assert cache.batch_size(pilot_ms, 0.2, 32) == batch


@given(st.integers(1, 256), st.floats(0, 10))
def test_the_head_start_covers_the_queueing_of_the_batch_and_one_more(batch, enqueue_ms):
    lead_ms = cache.head_start_ms(batch, enqueue_ms)
    assert lead_ms >= (batch + 1) * enqueue_ms
    assert lead_ms >= cache.LEAST_HEAD_START_MS
