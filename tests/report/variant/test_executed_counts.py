"""Emulation results in the report, on kernels with counts worked out by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from narrowing import as_, known

from lab.emulator.results import LineCount, MemoryCount
from lab.report.charts import rows as chartdata
from lab.report.variant.executed_counts import (
    difference,
    executed_by_class,
    executed_loops,
    hot_by_execution,
    line_notes,
    mix_tables,
    threads_of,
)
from lab.stages.emulate import alike
from lab.store.database import Store
from lab.store.figures import response_of

WARPS = 2


@pytest.fixture(scope="session")
def records(planted):
    with Store(planted) as store:
        return {record.kernel: record for record in store.records()}


def ptx_of(planted, record):
    return (planted / "variants" / record.variant / "kernel.ptx").read_text().splitlines()


def test_lines_that_were_executed_alike_are_put_together():
    traffic = {"shared.load": MemoryCount(2, 8, 0, 256, 2)}
    lines = [
        LineCount(5, "add.s32", "integer", 2, 64, {}),
        LineCount(6, "ld.shared.f32", "ld.shared", 2, 64, traffic),
        LineCount(7, "sub.s32", "integer", 2, 64, {}),
        LineCount(8, "sub.s32", "integer", 2, 63, {}),
        LineCount(9, "ld.shared.f32", "ld.shared", 2, 64, dict(traffic)),
        LineCount(10, "ld.shared.f32", "ld.shared", 2, 64, {}),
    ]
    assert [group.lines for group in alike(lines)] == [(5, 7), (6, 9), (8,), (10,)]


def test_the_lines_of_a_record_add_up_to_its_counts(records):
    for record in records.values():
        emulation = record.emulation
        assert sum(group.warps * len(group.lines) for group in emulation.lines) == emulation.executed.warps
        by_class = Counter[str]()
        for group in emulation.lines:
            by_class[group.cls] += group.threads * len(group.lines)
        assert by_class == emulation.executed.threads_by_class


def test_the_hot_loop_by_execution_is_the_one_that_runs(records):
    record = records["two_loops"]
    static, most = record.ptx.hot_loop, hot_by_execution(record)
    assert static.counts.fma > 0
    assert most.label != static.label
    assert most.counts.by_class["ld.local"] == most.counts.by_class["st.local"]
    assert f"The loop that executes most is {most.label}" in difference(record)
    assert static.label in difference(record)
    tables = [table["title"] for table in mix_tables(record)]
    assert tables == [f"Hot loop {static.label}", f"Hot loop by execution {most.label}", "Whole kernel"]


def test_lines_are_not_looked_at_where_the_hot_loop_surely_is_the_hot_one(records):
    """Half of all instructions are in a loop without loops within: no line could say another."""
    record = records["two_loops"]
    emulation, static = record.emulation, record.ptx.hot_loop

    def with_share(warps, loops):
        counted = replace(emulation, hot_loop=replace(emulation.hot_loop, warps=warps))
        return replace(record, emulation=counted, ptx=replace(record.ptx, loops=loops))

    half = -(-emulation.executed.warps // 2)
    deeper = tuple(loop if loop == static else replace(loop, depth=static.depth + 1) for loop in record.ptx.loops)
    assert difference(with_share(half, record.ptx.loops)) == ""
    assert difference(with_share(half - 1, record.ptx.loops))
    assert difference(with_share(half, deeper))  # what it counts may be of a loop within it


def test_a_loop_counts_what_is_executed_outside_the_loops_within(records):
    record = records["two_loops"]
    inner = known(hot_by_execution(record))
    around = replace(inner, label="around", depth=1, hot=False, lines=((1, 10_000),))
    nested = replace(record, ptx=replace(record.ptx, loops=(around, replace(inner, depth=2, hot=True))))
    own, total = executed_loops(nested), record.emulation.executed.warps
    assert own["around"] + own[inner.label] == total
    assert own[inner.label] == executed_loops(record)[inner.label]
    assert known(hot_by_execution(nested)).label == max(own, key=lambda label: own[label])


def test_the_tables_set_the_text_beside_what_a_thread_executed(records):
    record = records["two_loops"]
    (loop,) = (table for table in mix_tables(record) if "by execution" in table["title"])
    rows = {cls: rest for cls, *rest in as_(list, loop["rows"])}
    static, share, executed, executed_share = rows["st.local"]
    trips = 2 // hot_by_execution(record).counts.by_class["st.local"]
    assert executed == 2 == static * trips
    assert share == pytest.approx(static / loop["static"], abs=1e-5)
    assert executed_share == pytest.approx(executed / loop["executed"], abs=1e-4)
    for table in mix_tables(record):
        for column in (2, 4):
            assert (
                sum(row[column] for row in as_(list, table["rows"])) == pytest.approx(1, abs=1e-3)
                or not table["executed"]
            )


def test_the_executed_mix_stands_among_the_slices(planted, records):
    shown = tuple(records.values())
    with Store(planted) as store:
        slices = chartdata.mix_slices(store.run(), shown, response_of(shown))
    assert {part.mix for part in slices} == {"ptx", "executed", "sass"}
    record = records["clean"]
    mine = {part.cls: part for part in slices if part.variant == record.variant and part.mix == "executed"}
    by_class = executed_by_class(record, hot=False)
    assert mine["barrier"].count == 1.0 == by_class["barrier"] / threads_of(record.emulation)
    assert mine["st.global"].count == 63 / 64  # one thread stands beyond m
    assert sum(part.share for part in mine.values()) / 1 == pytest.approx(1)
    packed = chartdata.pack_slices(slices)
    for piece, (variant, cls, mix, hot, count, share) in zip(slices, as_(list, packed["parts"]), strict=True):
        assert packed["variants"][variant] == (piece.name, piece.variant)
        assert (packed["classes"][cls], packed["mixes"][mix], bool(hot)) == (piece.cls, piece.mix, piece.hot)
        assert (count, share) == (pytest.approx(piece.count, rel=1e-4), pytest.approx(piece.share, abs=1e-5))


def test_another_entry_point_has_no_executed_mix_beside_the_launched_one(records):
    record = records["two_entries"]
    assert (record.ptx.name, record.emulation.launches[0].entry) == ("even", "odd")
    assert executed_by_class(record, hot=False) is None
    assert mix_tables(record) == []
    assert executed_loops(record) == {}
    assert "executed odd" in difference(record)


def test_the_listing_says_which_access_conflicts(records, planted):
    record = records["conflicts"]
    text = ptx_of(planted, record)
    notes = {line: note for note in line_notes(record) for line in as_(tuple, note["lines"])}
    shared = {line: note for line, note in notes.items() if ".shared" in text[line - 1]}
    assert len(shared) == 2
    assert all(note["per"] == "8w" and note["conflict"] for note in shared.values())
    assert all("8.00 wavefronts each, 1.00 without bank conflicts" in note["about"] for note in shared.values())
    assert not any(note["conflict"] for line, note in notes.items() if line not in shared)
    stored = next(note for line, note in notes.items() if "st.global" in text[line - 1])
    assert stored["per"] == "4s"
    assert not any(note["conflict"] for note in line_notes(records["clean"]))


def test_executions_are_those_of_a_warp(records, planted):
    record = records["two_loops"]
    text = ptx_of(planted, record)
    notes = {line: note for note in line_notes(record) for line in as_(tuple, note["lines"])}
    loop = hot_by_execution(record)
    trips = 2 // loop.counts.by_class["st.local"]
    inside = [line for first, last in loop.lines for line in range(first, last + 1) if line in notes]
    assert {notes[line]["each"] for line in inside} == {str(trips)}
    ends = next(line for line, words in enumerate(text, 1) if words.strip() == "ret;")
    assert notes[ends]["each"] == "1"


def test_short_names_keep_their_parameters_in_the_heading():
    names = ["a=1 b=true", "a=2 b=false", "cublas"]
    assert chartdata.row_names(names) == (["1 · true", "2 · false", "cublas"], "a · b")
    assert chartdata.row_names(["a=1", "b=1"]) == (["a=1", "b=1"], "")
    assert chartdata.row_names(["v0", "v1"]) == (["v0", "v1"], "")
    mapped = ["mapping=cyclic(width=4, items=(8, 2)) b=1", "mapping=[3, 2] | [4] => [i0, t0, i1] b=2"]
    short = ["cyclic(width=4, items=(8, 2)) · 1", "[3, 2] | [4] => [i0, t0, i1] · 2"]
    assert chartdata.row_names(mapped) == (short, "mapping · b")
