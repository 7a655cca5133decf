"""Columns of what a compiler made of a kernel."""

from __future__ import annotations

from dataclasses import replace

from written_runs import variant

from lab.report.registry.code import CODE

COLUMNS = {column.name: column for column in CODE}
RECORD, _ = variant("tiled", {"unroll": 1}, "unroll=1", 64, 4, 9, 0.8, measured=True)


def test_the_hot_loop_is_named_and_counted():
    assert RECORD.sass is not None
    hot = RECORD.sass.loops[0]
    assert COLUMNS["sass_hot_loop"].get(RECORD) == hot.label
    assert COLUMNS["sass_instructions"].get(RECORD) == hot.counts.instructions
    assert COLUMNS["sass_live_registers"].get(RECORD) == hot.live_registers
    assert COLUMNS["ptx_fma"].get(RECORD) == 64


def test_a_kernel_without_a_loop_is_counted_whole():
    assert RECORD.sass is not None
    flat = replace(RECORD, sass=replace(RECORD.sass, loops=(), live_registers=17))
    assert COLUMNS["sass_hot_loop"].get(flat) == "body"
    assert COLUMNS["sass_instructions"].get(flat) == RECORD.sass.counts.instructions
    assert COLUMNS["sass_live_registers"].get(flat) == 17


def test_what_was_not_built_names_its_folder_and_nothing_more():
    bare = replace(RECORD, build=None, ptx=None, sass=None, prediction=None, measurement=None)
    filled = {name: value for name, column in COLUMNS.items() if (value := column.get(bare)) is not None}
    assert filled == {"arch": "sm_90", "folder": f"variants/{RECORD.variant}"}
