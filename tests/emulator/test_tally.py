"""Counting instructions and traffic."""

import numpy as np
import pytest
from small_ptx import kernel

from lab.emulator.lanes import Lanes
from lab.emulator.program import Program
from lab.emulator.results import LineCount, MemoryCount
from lab.emulator.tally import Counters, summary
from lab.hardware.memory import CHUNK_BYTES, Copy
from lab.isa.ptx.module import read_ptx

PROGRAM = Program(read_ptx(kernel("ld.global.u32 %r0, [%rd0];\n@%p0 bra L;\nmov.u32 %r0, 1;\nL:\n")), "k")
ALL, LANE = Lanes(64), np.arange(64, dtype=np.int64)


def line(counters, opcode):
    return next(line for line in counters.lines() if line.opcode.startswith(opcode))


def test_visits_count_warps_and_threads():
    counters = Counters(PROGRAM)
    counters.visit(0, ALL)
    counters.visit(0, Lanes(64, np.array([0, 1, 40])))
    assert (line(counters, "ld").warps, line(counters, "ld").threads) == (4, 67)
    assert not [line for line in counters.lines() if line.opcode == "mov.u32"]  # never visited


def test_a_guarded_instruction_counts_the_threads_of_its_guard():
    counters = Counters(PROGRAM)
    counters.visit(0, ALL)
    counters.guarded[1] += 5
    assert (line(counters, "bra").warps, line(counters, "bra").threads) == (2, 5)


@pytest.mark.parametrize(
    ("key", "addresses", "lanes", "wanted"),
    [
        ("global.load", 4 * LANE, ALL, MemoryCount(2, 0, 8, 256, 0)),
        ("global.load", 4 * LANE + 16, ALL, MemoryCount(2, 0, 10, 256, 0)),
        ("global.store", 0 * LANE, ALL, MemoryCount(2, 0, 2, 256, 0)),
        ("shared.load", 4 * LANE, ALL, MemoryCount(2, 2, 0, 256, 2)),
        ("shared.load", 128 * LANE, ALL, MemoryCount(2, 64, 0, 256, 2)),
        ("shared.store", np.array([0, 256]), Lanes(64, np.array([1, 2])), MemoryCount(1, 2, 0, 8, 1)),
        ("shared.store", np.array([0, 256]), Lanes(64, np.array([1, 40])), MemoryCount(2, 2, 0, 8, 2)),
    ],
)
def test_traffic(key, addresses, lanes, wanted):
    counters = Counters(PROGRAM)
    counters.visit(0, ALL)
    for start in (0, 1280, 0):  # patterns that differ by whole lines cost the same
        counters.memory(0, key, addresses + start, 4, lanes)
    assert line(counters, "ld").memory == {key: wanted + wanted + wanted}


def test_a_pattern_of_other_threads_is_another_pattern():
    counters = Counters(PROGRAM)
    counters.visit(0, ALL)
    for chosen in ([0, 1], [0, 40], [0, 1]):
        counters.memory(0, "global.load", np.array([0, 4]), 4, Lanes(64, np.array(chosen)))
    assert line(counters, "ld").memory["global.load"] == MemoryCount(4, 0, 4, 24, 0)


def test_copies_count_on_both_sides():
    counters = Counters(PROGRAM)
    counters.visit(0, ALL)
    on, fetched = np.ones(64, bool), LANE < 32
    counters.copy(0, Copy(16 * LANE, 16 * LANE + 4096, 16, on, fetched), ALL)
    counters.bulk_copy(0, MemoryCount(1, 8, 0, 1024, 8), MemoryCount(1, 0, 9, 204, 0))
    found = line(counters, "ld").memory
    assert (found["shared.copy"].requests, found["shared.copy"].bytes_used) == (3, 2048)
    assert (found["global.copy"].requests, found["global.copy"].bytes_used) == (2, 16 * 32 + 204)


def test_summaries_add_what_is_within():
    lines = [
        LineCount(3, "add.u32", "integer", 2, 60, {}),
        LineCount(4, "ld.global.u32", "ld.global", 2, 64, {"global.load": MemoryCount(2)}),
        LineCount(9, "add.u32", "integer", 1, 1, {}),
    ]
    assert summary(lines).threads_by_class == {"integer": 61, "ld.global": 64}
    inside = summary(lines, lambda number: number < 9)
    assert (inside.warps, inside.threads_by_opcode["add.u32"], inside.memory["global.load"].requests) == (4, 60, 2)


def test_a_wide_copy_costs_what_the_sources_of_all_its_lanes_decide():
    """Lanes that read nothing still decide how pieces of 16 bytes are moved: another source is another pattern."""
    on, nobody = np.ones(64, bool), np.zeros(64, bool)

    def wavefronts(*strides):
        counters = Counters(PROGRAM)
        counters.visit(0, ALL)
        for stride in strides:
            counters.copy(0, Copy(16 * LANE, stride * LANE, 16, on, nobody), ALL)
        return line(counters, "ld").memory["shared.copy"].wavefronts

    assert wavefronts(16) != wavefronts(144)
    assert wavefronts(16, 144) == wavefronts(16) + wavefronts(144)


def test_what_was_counted_elsewhere_is_added():
    counters = Counters(PROGRAM)
    counters.add_visits(0, 3, 70)
    counters.visit(0, ALL)
    for count in (MemoryCount(1, 2, 3, 4, 5, 6), MemoryCount(10, 20, 30, 40, 50, 60)):
        counters.add_traffic(0, "global.atomic", count)
    counters.add_chunks(0, np.array([4, 5]))
    counters.add_chunks(0, np.array([5, 9]))
    found = line(counters, "ld")
    assert (found.warps, found.threads) == (5, 134)
    assert found.memory == {"global.atomic": MemoryCount(11, 22, 33, 44, 55, 66, 3)}
    counters.add_visits(1, 1, 32)
    assert line(counters, "mov.u32").warps == 1


def test_atomics_count_the_chunks_that_they_touch():
    counters = Counters(PROGRAM)
    counters.visit(0, ALL)
    for start in (0, 0, CHUNK_BYTES // 2):
        counters.memory(0, "global.atomic", start + CHUNK_BYTES * (LANE // 32), 4, ALL)
    assert line(counters, "ld").memory["global.atomic"].chunks == 2
    counters.memory(0, "global.atomic", LANE[:0], 4, Lanes(64, LANE[:0]))
    assert line(counters, "ld").memory["global.atomic"].requests == 6


def test_boxes_of_tensors_are_counted_by_their_address():
    counters = Counters(PROGRAM)
    shared, fetched = MemoryCount(1, 8, 0, 1024, 8), MemoryCount(1, 0, 9, 204, 0)
    for tensor, read in ((4096, fetched), (4096, fetched), (8192, fetched), (None, fetched), (64, MemoryCount())):
        counters.bulk_copy(0, shared, read, tensor=tensor)
    assert dict(counters.fetched) == {4096: 2048, 8192: 1024}


def test_copies_of_some_lanes_cost_the_same_wherever_the_others_point():
    def traffic(*others):
        counters = Counters(PROGRAM)
        counters.visit(0, ALL)
        for other in others:
            on = LANE % 2 == 0
            targets, sources = np.where(on, 4 * LANE, other), np.where(on, 4 * LANE + 4096, other)
            counters.copy(0, Copy(targets, sources, 4, on, on & (LANE < 40)), ALL)
        return line(counters, "ld").memory

    assert traffic(0) == traffic(123456) == traffic(4)
    assert traffic(0, 4)["shared.copy"] == traffic(0)["shared.copy"] + traffic(4)["shared.copy"]
    assert traffic(0)["global.copy"].requests == 2
    assert traffic(0)["shared.copy"].bytes_used == 4 * 32
    assert traffic(0)["global.copy"].bytes_used == 4 * 20
