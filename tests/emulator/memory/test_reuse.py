"""Reuse of data within a block: sectors read again, by reuse distance."""

from __future__ import annotations

import numpy as np
import pytest

from lab.emulator.api import launch
from lab.emulator.memory import reuse
from lab.emulator.memory.memory import SEGMENT_SHIFT, Region
from lab.emulator.memory.reuse import AccessTrace, TraceFull

BUFFER = Region("buffer", "global", 16 << SEGMENT_SHIFT, 1 << 20)
LANES = np.arange(32, dtype=np.int64)


def noted(*steps: tuple[str, np.ndarray, int]) -> AccessTrace:
    """A trace of one warp, whose every step is (verb, (32,) addresses, bytes of an access)."""
    trace = AccessTrace()
    for verb, addresses, width in steps:
        trace.note(verb, BUFFER, addresses, width=width, warps=LANES * 0, blocks=LANES * 0)
    return trace


def test_nothing_is_counted_of_nothing():
    assert AccessTrace().counted() is None


def test_floats_at_a_stride_read_their_sectors_again():
    # nine floats of each lane one after the other: 1152 bytes are 36 sectors and nine lines, asked for nine times
    reuse = noted(*(("load", 36 * LANES + 4 * k, 4) for k in range(9))).counted()
    assert reuse.read == 36
    assert reuse.used == 1152
    assert reuse.held == 9
    assert reuse.sectors - sum(reuse.again) == 36
    # at the distance of the nine lines: in the class of up to sixteen
    assert reuse.again[:4] == (0, 0, 0, 0)
    assert reuse.again[4] == sum(reuse.again)


def test_a_sector_beside_the_ones_that_were_read_was_not_read_before():
    reuse = noted(("load", 4 * LANES // 16 * 0, 4), ("load", 0 * LANES + 32, 4), ("load", 0 * LANES, 4)).counted()
    assert (reuse.sectors, reuse.read, reuse.again) == (3, 2, (1,))


def test_blocks_have_distances_of_their_own():
    trace = AccessTrace()
    for block in (0, 1):
        ones = np.full(32, block, np.int64)
        trace.note("load", BUFFER, 4 * LANES, width=4, warps=ones, blocks=ones)
    reuse = trace.counted()
    assert (reuse.sectors, reuse.read, reuse.again) == (8, 4, ())


def test_a_warp_issues_the_loads_of_a_basic_block_before_the_next_warp_does():
    trace = AccessTrace()
    lanes = np.arange(64, dtype=np.int64)
    for k in range(2):
        trace.note("load", BUFFER, 128 * lanes + 4 * k, width=4, warps=lanes // 32, blocks=lanes * 0)
    trace.begin()
    trace.note("load", BUFFER, 128 * lanes, width=4, warps=lanes // 32, blocks=lanes * 0)
    reuse = trace.counted()
    # 32 lines of the warp in between, then those of both
    assert reuse.again == (0, 0, 0, 0, 0, 64, 64)


def test_random_words_leave_most_of_their_sectors_unused():
    reuse = noted(("load", 4096 * LANES, 4)).counted()
    assert (reuse.lonely, reuse.lonely_used, reuse.used) == (32, 128, 128)
    assert reuse.lonely_share == 1


def test_stores_of_one_sector_in_a_line_are_counted_apart():
    counts = noted(("store", 4 * LANES, 4), ("store", 4096 + 32 * LANES, 4), ("store", 8192 + 128 * LANES, 4)).counted()
    assert (counts.stored, counts.stored_alone) == (4 + 32 + 32, 32)


def test_the_edges_of_a_stream_do_not_make_its_buffer_random():
    stream = Region("stream", "global", 17 << SEGMENT_SHIFT, 3 << 20)
    trace = noted(("load", 4096 * LANES, 4))
    trace.note("load", stream, 12 + 4 * LANES, width=4, warps=LANES * 0, blocks=LANES * 0)
    assert trace.counted().lonely_share == 0.25


def test_sectors_whose_neighbours_are_read_too_are_not_lonely():
    every = noted(("load", 16 * LANES, 4), ("load", 4096 + 64 * LANES, 4)).counted()
    assert (every.read, every.lonely) == (16 + 32, 32)


def test_rows_at_random_places_all_over_a_buffer_are_scattered():
    rows = np.random.default_rng(0).permutation(BUFFER.size // 512)[:16]
    steps = [("load", 512 * row + 16 * LANES, 16) for row in rows]
    assert noted(*steps).counted().scattered == ((BUFFER.size, 16 * 16, 1),)
    updated = [("atomic", addresses, width) for _, addresses, width in steps]
    assert noted(*updated).counted().scattered == ((BUFFER.size, 16 * 16, 2),)
    at_a_stride = [("load", BUFFER.size // 16 * row + 16 * LANES, 16) for row in range(16)]
    in_a_part = [("load", 512 * (row % 256) + 16 * LANES, 16) for row in rows]
    assert noted(*at_a_stride).counted().scattered == noted(*in_a_part).counted().scattered == ()


def test_later_stores_fill_the_sectors_of_earlier_ones():
    reuse = noted(*(("store", 8 * LANES + 4 * k, 4) for k in range(2))).counted()
    assert (reuse.stored, reuse.written, reuse.filled) == (16, 8, 256)


def test_wide_accesses_use_all_their_bytes():
    reuse = noted(("load", 16 * LANES, 16), ("load", 512 + 4 * LANES, 4)).counted()
    assert (reuse.used, reuse.read, reuse.lines) == (640, 20, 5)


def test_a_request_passes_the_banks_of_l1_as_often_as_the_busiest_has_words():
    even, shifted, column = (
        noted(("load", addresses, 4)).counted() for addresses in (4 * LANES, 64 + 4 * LANES, 128 * LANES)
    )
    assert (even.passes, even.lines) == (1, 1)
    assert (shifted.passes, shifted.lines) == (1, 2)
    assert (column.passes, column.lines) == (32, 32)
    wide, same = (noted(("load", addresses, 16)).counted() for addresses in (16 * LANES, 0 * LANES))
    assert (wide.passes, same.passes) == (4, 1)
    assert noted(("load", LANES, 1), ("load", 4 * LANES, 4)).counted().passes == 2
    assert noted(("store", 4 * LANES, 4)).counted().passes == 0


def test_a_trace_ends(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reuse, "MOST_LANES", 40)
    trace = noted(("load", 4 * LANES, 4))
    with pytest.raises(TraceFull):
        trace.note("load", BUFFER, 4 * LANES, width=4, warps=LANES * 0, blocks=LANES * 0)
    assert trace.counted().again == (4,)


PTX = """\
.version 8.0
.target sm_90
.address_size 64
.visible .entry twice(.param .u64 to, .param .u64 from)
{
    .reg .u64 %rd<6>;
    .reg .u32 %r<4>;
    .reg .f32 %f<4>;
    ld.param.u64 %rd1, [to];
    ld.param.u64 %rd2, [from];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd4, %rd2, %rd3;
    add.u64 %rd5, %rd1, %rd3;
    ld.global.f32 %f1, [%rd4];
    ld.global.f32 %f2, [%rd4];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%rd5], %f3;
    ret;
}
"""


@pytest.mark.parametrize("engine", ["interpreted", "compiled"])
def test_both_engines_count_the_same_and_leave_the_buffers_as_they_are(engine):
    given, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    done = launch(PTX, "twice", 1, 64, [out, given], engine=engine, trace=True)
    np.testing.assert_array_equal(out, 2 * given)
    assert done.engine == engine
    assert (done.reuse.sectors, done.reuse.read, sum(done.reuse.again)) == (16, 8, 8)
    assert (done.reuse.stored, done.reuse.filled) == (8, 256)


def test_nobody_asked():
    assert launch(PTX, "twice", 1, 64, [np.zeros(64, np.float32)] * 2).reuse is None


def test_a_kernel_without_loops_is_traced_however_long_it_is():
    """All of it is one basic block, whose work is more than the trace may cost."""
    ptx = PTX.replace("    ld.global.f32 %f2, [%rd4];\n", "    ld.global.f32 %f2, [%rd4];\n" * 2000)
    done = launch(ptx, "twice", 1, 64, [np.zeros(64, np.float32), np.arange(64, dtype=np.float32)], trace=True)
    assert done.reuse.read == 8
    assert sum(done.reuse.again) > 1000


def test_tables_are_counted_apart():
    table = Region("table", "global", 32 << SEGMENT_SHIFT, 1 << 10)
    trace = AccessTrace(["table"])
    for region in (BUFFER, table, table, BUFFER):
        trace.note("load", region, 4 * LANES, width=4, warps=LANES * 0, blocks=LANES * 0)
        trace.begin()
    counted = trace.counted()
    assert (counted.sectors, sum(counted.again)) == (16, 8)
    assert (counted.table_first, sum(counted.table_again)) == (4, 4)
