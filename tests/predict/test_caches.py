"""Block reuse served by L1 and L2."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from lab.emulator.results import ReuseCount
from lab.predict.caches import Residence, fetched, missed

# 100 sectors, 60 of them read again: 40 at most four lines later, 20 at nine to sixteen
COUNTED = ReuseCount(
    sectors=100, lines=25, again=(0, 0, 40, 0, 20), held=64, read=40, used=1280, stored=8, written=8, filled=256
)
L2 = 50 << 20


def test_a_cache_serves_the_distances_that_it_holds():
    assert missed(COUNTED, 16, 1) == 0
    assert missed(COUNTED, 8, 1) == 20
    assert missed(COUNTED, 12, 1) == 10
    assert missed(COUNTED, 2, 1) == 60


def test_passes_over_the_blocks_data_grow_with_it_and_neighbours_do_not():
    row = ReuseCount(sectors=100, lines=25, again=(30, 0, 0, 0, 20), held=16, read=50, used=1600)
    assert missed(row, 64, 4) == 0
    assert missed(row, 32, 4) == 20
    assert missed(row, 32, 1) == 0


def test_tables_are_read_again_at_the_same_distance_however_much_a_block_does():
    # 32 sectors of a table of eight lines, read again at distances up to 16, beside 8 sectors of other data
    counted = ReuseCount(
        sectors=140, lines=40, again=(0, 0, 0, 0, 100), held=10, read=40, table_first=32, table_again=(0, 0, 0, 0, 100)
    )
    assert missed(counted, 32, 248) == 0
    assert missed(replace(counted, table_first=0, table_again=()), 32, 248) == 100
    served = fetched(counted, Residence(32, 132, 248, L2), 1400)
    # of the table, a block of 248 times the work reads a 248th as often for the first time
    assert served.likely == pytest.approx(10 * (8 + 32 / 248))
    assert served.again == 0


def test_what_l1_misses_is_scaled_to_the_launch():
    found = fetched(COUNTED, Residence(16, 132, 1, L2), 1000)
    assert (found.likely, found.least, found.lines) == (400, 400, 250)
    assert found.most == pytest.approx(10 * (40 + 20))
    assert (found.lonely, found.unused, found.again) == (0, 0, 0)
    assert found.passes == 250  # one a line, in records that lack them
    assert fetched(replace(COUNTED, passes=7), Residence(16, 132, 1, L2), 1000).passes == 70


def blocks_that_read(mib: float, lines: int) -> float:
    return mib * (1 << 20) / lines / 128


def test_rows_beyond_l2_come_from_dram_again():
    # L1 misses 20 sectors, at a distance of 16 lines; all blocks read 100 MiB in it: half of them
    found = fetched(replace(COUNTED, written=0), Residence(8, blocks_that_read(100, 16), 1, L2), 100)
    assert found.again == pytest.approx(10)


def test_stores_take_lines_of_l2():
    # for each 100 sectors that are read, 100 are written: L2 holds a quarter
    found = fetched(replace(COUNTED, written=100), Residence(8, blocks_that_read(100, 16), 1, L2), 100)
    assert found.again == pytest.approx(15)


def test_l2_holds_neighbours_of_rows_that_it_does_not_hold():
    # the blocks' 64 lines make 100 MiB, but 16 of them no more than 25
    found = fetched(COUNTED, Residence(8, blocks_that_read(100, 64), 1, L2), 100)
    assert found.again == 0


def test_no_pass_is_longer_than_what_a_block_reads():
    # 17 lines lie in the class of up to 32
    row = ReuseCount(sectors=100, lines=25, again=(0, 0, 0, 0, 0, 20), held=17, read=80, used=2560)
    assert missed(row, 68, 4) == 0


def test_rows_read_at_random_leave_l2_before_they_are_read_again():
    # 5 reads of each of 40 MiB, and as many bytes written, past 50 MiB
    table, reads = 40 << 20, 5 * (40 << 20) // 32
    counted = ReuseCount(sectors=1000, lines=250, read=1000, used=32000, written=1000, scattered=((table, 1000, 1),))
    again = fetched(counted, Residence(16, 132, 1, L2), reads).again
    lasting = next(t for t in range(10_000) if t / 1e4 * 200 + 40 * (1 - math.exp(-5 * t / 1e4)) >= 50) / 1e4
    expected = 5 * math.exp(-5 * lasting) - (1 - math.exp(-5))
    assert again * 32 == pytest.approx(table * expected, rel=1e-2)
    # without the stores, all of the table stays
    assert fetched(replace(counted, written=0), Residence(16, 132, 1, L2), reads).again == 0


def test_no_loads_no_figure():
    assert fetched(ReuseCount(stored=4), Residence(16, 132, 1, L2), 0) is None
