"""Columns of what a compiler made of a kernel."""

from __future__ import annotations

from dataclasses import replace

from narrowing import known
from written_runs import variant

from lab.isa.roles import Role, WarpRole
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


def parted(*roles):
    mix = known(RECORD.ptx)
    counts = replace(mix.counts, by_opcode={"setmaxnreg.inc.sync.aligned.u32": 1})
    return replace(RECORD, ptx=replace(mix, counts=counts, roles=roles), sass=None)


def test_each_role_has_a_column_of_its_registers():
    record = parted(WarpRole(Role.PRODUCER, 40, 1), WarpRole(Role.CONSUMER, 160, 2), WarpRole(Role.CONSUMER, 232, 3))
    assert COLUMNS["producer_registers"].get(record) == 40
    assert COLUMNS["consumer_registers"].get(record) == 232
    assert COLUMNS["registers_by_role"].get(record) == "producer 40, consumer 160 and 232"
    assert COLUMNS["registers_by_role"].shown
    lone = parted(WarpRole(Role.OTHER, 24, 1))
    assert COLUMNS["producer_registers"].get(lone) is COLUMNS["consumer_registers"].get(lone) is None
    assert COLUMNS["registers_by_role"].get(lone) == "other 24"


def test_a_kernel_that_multiplies_without_roles_has_one_number():
    mix = known(RECORD.ptx)
    record = replace(RECORD, ptx=replace(mix, counts=replace(mix.counts, by_class={"mma": 8})))
    assert COLUMNS["consumer_registers"].get(record) == known(RECORD.build).resources.registers
    assert COLUMNS["producer_registers"].get(record) is COLUMNS["registers_by_role"].get(record) is None
    assert COLUMNS["consumer_registers"].get(RECORD) is None  # it has no matrix instruction


def test_what_was_not_built_names_its_folder_and_nothing_more():
    bare = replace(RECORD, build=None, ptx=None, sass=None, prediction=None, measurement=None)
    filled = {name: value for name, column in COLUMNS.items() if (value := column.get(bare)) is not None}
    assert filled == {"arch": "sm_90", "folder": f"variants/{RECORD.variant}"}
