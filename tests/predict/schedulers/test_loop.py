"""Analysis of the main loop, on hand-written listings with scheduling bits and on a golden listing."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from lab.isa.mix import kernel_mix
from lab.isa.model import Function
from lab.isa.sass.control import Control
from lab.isa.sass.module import read_sass
from lab.predict.schedulers.loop import MainLoop, Slot, Traffic, Unit, main_loop, passes, sectors

GOLDEN = Path(__file__).parents[2] / "isa" / "golden"
BITS = Control(1, yields=False, write_barrier=None, read_barrier=None, waits=(), reuse=(False,) * 4)


def function(*lines: str) -> Function:
    code = "\n".join(f"/*{16 * number:04x}*/ {line} ;" for number, line in enumerate(lines))
    return read_sass(f"\t.target\tsm_90\n\t.section\t.text.k\n{code}").functions[0]


def machine_code(count: int, reuse: dict[int, int] | None = None) -> bytes:
    """Instructions that raise no barrier and wait for none; `reuse` holds operand slots to keep, by instruction."""
    words = [7 << 5 | 7 << 8 | 1 | (reuse or {}).get(number, 0) << 17 for number in range(count)]
    return b"".join(struct.pack("<QQ", 0, bits << 41) for bits in words)


def loop_of(*lines: str, reuse: dict[int, int] | None = None) -> MainLoop:
    code = function(*lines)
    return main_loop(code, machine_code(len(lines), reuse), kernel_mix("sass", code))


def units(slots: tuple[Slot, ...]) -> list[Unit]:
    return [slot.unit for slot in slots]


def slot(unit: Unit, width: int = 4, *, store: bool = False) -> Slot:
    return Slot(unit, width, store, (0, 0), (0, 0), 0, 0, BITS)


def test_a_kernel_without_loops_is_its_own_main_loop() -> None:
    listing_loop = loop_of("LDS R4, [R2]", "FFMA R0, R4, R5, R0", "EXIT")
    assert units(listing_loop.hot) == [Unit.SHARED, Unit.NONE, Unit.NONE]
    assert (listing_loop.before, listing_loop.after, listing_loop.nested, listing_loop.fma) == ((), (), False, 1)


def test_a_loop_that_fetches_its_own_data_stands_alone() -> None:
    listing_loop = loop_of(
        "MOV R1, R2", "MOV R3, R2", "LDG.E R4, [R2]", "FFMA R0, R4, R5, R0", "@P0 BRA 0x20", "@P1 BRA 0x10", "EXIT"
    )
    assert units(listing_loop.hot) == [Unit.GLOBAL, Unit.NONE, Unit.BRANCH]
    assert not listing_loop.nested
    assert listing_loop.path(8) == listing_loop.hot


def test_the_loop_around_one_that_only_multiplies_belongs_to_it() -> None:
    listing_loop = loop_of(
        "MOV R9, R2", "LDG.E R4, [R2]", "LDS R5, [R3]", "FFMA R0, R4, R5, R0", "@P0 BRA 0x20", "BAR.SYNC 0x0",
        "@P1 BRA 0x10", "EXIT",
    )  # fmt: skip
    assert units(listing_loop.before) == [Unit.GLOBAL]
    assert units(listing_loop.hot) == [Unit.SHARED, Unit.NONE, Unit.BRANCH]
    assert units(listing_loop.after) == [Unit.BARRIER, Unit.BRANCH]
    assert listing_loop.path(3) == (*listing_loop.before, *listing_loop.hot * 3, *listing_loop.after)
    assert listing_loop.path(0.2) == (*listing_loop.before, *listing_loop.hot, *listing_loop.after)
    assert listing_loop.path(None) == listing_loop.hot


def test_the_golden_tile() -> None:
    code = read_sass((GOLDEN / "sm_90_tile.lst").read_text()).functions[0]
    listing_loop = main_loop(code, machine_code(len(code.instructions)), kernel_mix("sass", code))
    assert (listing_loop.nested, listing_loop.fma) == (True, 4)
    assert units(listing_loop.hot).count(Unit.SHARED) == 8
    assert units(listing_loop.before).count(Unit.GLOBAL) == 1
    assert units(listing_loop.after)[0] is Unit.BARRIER


def test_registers_of_a_bank_are_counted_once() -> None:
    (slot, *_) = loop_of("FFMA R0, R4, R4, R7", "EXIT").hot
    assert slot.reads == slot.reads_alone == (1, 1)
    (slot, *_) = loop_of("FFMA R0, R4, R6, R8", "EXIT").hot
    assert slot.reads == (3, 0)


def test_the_operand_cache_holds_a_register_for_the_next_instruction_in_its_slot() -> None:
    first, second, third, _ = loop_of(
        "FFMA R0, R4, R6, R9", "FFMA R1, R4, R8, R11", "FFMA R2, R4, R8, R11", "EXIT", reuse={0: 0b001}
    ).hot
    assert first.control.reuse[0]
    assert (second.reads, second.reads_alone) == ((1, 1), (2, 1))
    assert third.reads == (2, 1)  # the second instruction keeps nothing
    moved = loop_of("FFMA R0, R4, R6, R9", "FFMA R1, R8, R4, R11", "EXIT", reuse={0: 0b001}).hot[1]
    assert moved.reads == (2, 1)  # another slot


@pytest.mark.parametrize(
    ("line", "unit", "left"),
    [
        ("DEPBAR.LE SB0, 0x1", Unit.WAIT, 1),
        ("DEPBAR.LE SB0, R1", Unit.WAIT, 0),
        ("LDGSTS.E.128 [R4], [R2]", Unit.COPY, 0),
        ("LDGDEPBAR", Unit.COMMIT, 0),
        ("HMMA.16816.F32 R0, R4, R6, R0", Unit.TENSOR, 0),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R3", Unit.PHASE, 0),
        ("DFMA R0, R2, R4, R0", Unit.DOUBLE, 0),
        ("IMAD R0, R2, R4, R0", Unit.INTEGER, 0),
        ("MUFU.RCP R0, R1", Unit.NONE, 0),
    ],
)
def test_units(line: str, unit: Unit, left: int) -> None:
    (slot, *_) = loop_of(line, "EXIT").hot
    assert (slot.unit, slot.left) == (unit, left)


def test_what_one_warp_issues_is_marked() -> None:
    slots = loop_of("@P0 BRA 0x30", "UTMALDG.2D [UR8], [UR4]", "MOV R1, R2", "FFMA R0, R4, R5, R0", "EXIT").hot
    assert [slot.once for slot in slots] == [False, True, True, False, False]


def test_code_of_another_function_is_refused() -> None:
    code = function("FFMA R0, R4, R5, R0", "EXIT")
    with pytest.raises(ValueError, match="no instruction at byte 16 of 16"):
        main_loop(code, machine_code(1), kernel_mix("sass", code))


@pytest.mark.parametrize(
    ("width", "counted", "of_bytes", "expected"),
    [
        (4, 0.0, 0.0, 1.0),  # nothing counted: the bytes decide
        (16, 0.0, 0.0, 4.0),
        (16, 3.0, 16.0, 3.0),  # the PTX has it as wide
        (16, 1.0, 4.0, 4.0),  # four accesses without conflicts, merged
        (16, 17.0, 4.0, 17.0),  # a many-way conflict costs no more when merged
        (4, 3.0, 16.0, 3.0),
    ],
)
def test_passes_of_shared_memory(width: int, counted: float, of_bytes: float, expected: float) -> None:
    load, store = slot(Unit.SHARED, width), slot(Unit.SHARED, width, store=True)
    assert passes(load, Traffic(load_wavefronts=counted, load_bytes=of_bytes)) == expected
    assert passes(store, Traffic(store_wavefronts=counted, store_bytes=of_bytes)) == expected


def test_passes_of_global_memory_follow_the_sectors() -> None:
    assert passes(slot(Unit.GLOBAL), Traffic(sectors=32.0)) == 16.0
    assert passes(slot(Unit.COPY, 16), Traffic()) == 4.0
    assert passes(slot(Unit.COPY, 16), Traffic(copy_wavefronts=7.0)) == 7.0
    assert passes(slot(Unit.NONE), Traffic(sectors=32.0)) == 0.0


def test_sectors_are_those_of_global_memory_alone() -> None:
    counted = Traffic(sectors=5.0, bulk_sectors=512.0, bulk_wavefronts=128.0)
    assert [sectors(slot(unit), counted) for unit in (Unit.GLOBAL, Unit.COPY, Unit.BULK, Unit.SHARED)] == [5, 5, 512, 0]
    assert passes(slot(Unit.BULK), counted) == 128.0


def test_the_operand_cache_of_a_loop_is_that_of_the_instruction_before_it() -> None:
    lines = ("FFMA R9, R4, R6, R9", "FFMA R0, R4, R8, R11", "@P0 BRA 0x10", "EXIT")
    first, _ = loop_of(*lines, reuse={0: 0b001}).hot
    assert (first.reads, first.reads_alone) == ((1, 1), (2, 1))
    assert loop_of(*lines).hot[0].reads == (2, 1)


def test_behind_the_hot_loop_its_last_instruction_fills_the_operand_cache() -> None:
    lines = (
        "MOV R9, R2", "LDG.E R4, [R2]", "LDS R5, [R3]", "FFMA R0, R4, R5, R0", "@P0 BRA 0x20", "FFMA R1, R0, R6, R9",
        "@P1 BRA 0x10", "EXIT",
    )  # fmt: skip
    listing_loop = loop_of(*lines, reuse={3: 0b100})
    assert [one.reads for one in listing_loop.after] == [(2, 1), (0, 0)]  # the branch stands between


def test_a_loop_of_one_instruction_within_another() -> None:
    listing_loop = loop_of("NOP", "MOV R3, R2", "@P0 BRA 0x20", "@P1 BRA 0x10", "EXIT")
    assert units(listing_loop.before) == [Unit.INTEGER]
    assert units(listing_loop.hot) == [Unit.BRANCH]
    assert units(listing_loop.after) == [Unit.BRANCH]
    assert (listing_loop.nested, listing_loop.fma) == (True, 0)


def test_what_reads_no_bank_and_counts_no_fma() -> None:
    load, add, half, store, _ = loop_of(
        "LDS.64 R4, [R2]", "FADD R0, R4, R6", "HFMA2 R0, R4, R6, R8", "STS.128 [R4], R8", "EXIT"
    ).hot
    assert (load.reads, load.reads_alone, load.width, load.store, load.fma) == ((0, 0), (0, 0), 8, False, 0)
    assert (add.reads, add.fma) == ((2, 0), 0)
    assert (half.reads, half.fma) == ((3, 0), 2)
    assert (store.reads, store.width, store.store, store.left) == ((0, 0), 16, True, 0)


def test_a_name_that_only_begins_like_a_register_is_none() -> None:
    slot = loop_of("FFMA R0, RZ, c[0x0][0x170], -R5", "EXIT").hot[0]
    assert slot.reads == (0, 1)


def test_a_wait_that_names_nothing() -> None:
    slots = loop_of("DEPBAR", "DEPBAR.LE SB0, 0x3", "EXIT").hot
    assert [(one.unit, one.left) for one in slots[:2]] == [(Unit.NONE, 0), (Unit.WAIT, 3)]


def test_a_branch_to_a_wait_that_spins_is_no_branch_and_what_spins_is_left_out() -> None:
    wait, again = "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R3", "@!P0 BRA 0x50"
    listing_loop = loop_of(wait, again, "FFMA R0, R4, R5, R0", "@P1 BRA 0x0", "EXIT", wait, again, "BRA 0x20")
    assert units(listing_loop.hot) == [Unit.PHASE, Unit.NONE, Unit.NONE, Unit.BRANCH]


def test_passes_of_wide_accesses() -> None:
    assert passes(slot(Unit.GLOBAL, 16), Traffic(sectors=2.0)) == 4.0
    assert passes(slot(Unit.SHARED, 16), Traffic(load_wavefronts=2.0, load_bytes=8.0)) == 4.0
    assert passes(slot(Unit.SHARED, 8), Traffic(load_wavefronts=1.5, load_bytes=4.0)) == 2.0
    assert passes(slot(Unit.SHARED, 16), Traffic(load_wavefronts=1.0, load_bytes=8.0)) == 2.0
    assert sectors(slot(Unit.NONE), Traffic(sectors=5.0)) == 0.0
    nothing = Traffic()
    assert [passes(slot(unit), nothing) for unit in (Unit.BULK, Unit.NONE, Unit.BARRIER)] == [0.0] * 3
    assert sectors(slot(Unit.BULK), nothing) == sectors(slot(Unit.GLOBAL), nothing) == 0.0
    assert passes(slot(Unit.COPY, 4), nothing) == passes(slot(Unit.GLOBAL, 4), nothing) == 1.0
