"""Arithmetic of counts."""

from dataclasses import replace

import pytest

from lab.emulator.results import Access, Emulation, ExecutedCounts, Finding, LineCount, MemoryCount, ReuseCount
from lab.isa.model import SourceLocation


def test_memory_counts_add_up():
    total = MemoryCount(2, 8, 0, 256, 4) + MemoryCount(1, 1, 3, 64, 1)
    assert total == MemoryCount(3, 9, 3, 320, 5)
    assert (total.bank_conflicts, total.bytes_moved, total.sectors_per_request) == (4, 96, 1.0)
    assert MemoryCount().sectors_per_request == 0


def counts(warps, threads, key, cls="fma"):
    return ExecutedCounts(
        warps, threads, {cls: warps}, {cls: threads}, {"op": warps}, {"op": threads}, {key: MemoryCount(1)}
    )


def test_executed_counts_add_up_key_by_key():
    total = counts(1, 32, "global.load") + counts(2, 10, "shared.load", "integer") + counts(1, 1, "global.load")
    assert (total.warps, total.threads) == (4, 43)
    assert total.threads_by_class == {"fma": 33, "integer": 10}
    assert total.warps_by_opcode == {"op": 4}
    assert {key: count.requests for key, count in total.memory.items()} == {"global.load": 2, "shared.load": 1}


@pytest.mark.parametrize(("warps", "threads", "lanes"), [(2, 48, 24.0), (0, 0, 0.0)])
def test_active_lanes(warps, threads, lanes):
    assert LineCount(1, "add", "integer", warps, threads, {}).active_lanes == lanes
    assert counts(warps, threads, "global.load").active_lanes == lanes


def test_an_emulation_with_a_finding_is_not_clean():
    finding = Finding("trap", 1, "trap", None, None, None, None, "trap was executed")
    assert Emulation("k", None, (), (), (), 1).clean
    assert not Emulation("k", None, (), (), (finding,), 1).clean


def test_the_summary_of_a_finding_names_the_line_of_the_source_the_element_and_the_other_side():
    bare = Finding("trap", 7, "trap", None, None, None, None, "trap was executed")
    assert bare.summary == "trap at PTX line 7: trap was executed"
    here, there = SourceLocation("/k.cu", 12), SourceLocation("k.cu", 9)
    race = Finding("shared-race", 40, "ld.shared", here, None, None, 8, "a read and a write")
    assert race.summary == "shared-race at k.cu:12 (PTX line 40): a read and a write"
    other = Access("write", 31, (1, 0, 0), there)
    told = replace(race, variable="tile[2] of tile[64], elements of 4 bytes", other=other)
    assert told.summary == f"{race.summary}, tile[2]; the write is at k.cu:9"
    in_global = replace(told, variable="C[5], elements of 4 bytes")
    assert in_global.summary == f"{race.summary}, C[5]; the write is at k.cu:9"
    assert replace(race, other=replace(other, line=40)).summary == race.summary  # the same instruction is said already
    called = replace(told, calls=(SourceLocation("/k.cu", 70), SourceLocation("/k.cu", 90)))
    assert called.summary.startswith("shared-race at k.cu:12, called at k.cu:70, called at k.cu:90 (PTX line 40)")


def test_counts_begin_with_nothing():
    count = MemoryCount(2, 8, 4, 256, 4, 3, 7)
    assert MemoryCount() + count == count + MemoryCount() == count
    assert (count + MemoryCount(chunks=9)).chunks == 9
    assert {getattr(ReuseCount(), name) for name in ReuseCount.__dataclass_fields__} == {0, ()}
    empty = Emulation("k", None, (), (), (), 1)
    assert (empty.finished, empty.fetched_by_map, empty.stored, empty.wraps, empty.notes) == (0, (), (), (), ())
