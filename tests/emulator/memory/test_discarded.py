"""Idioms that are formally races and harm nobody are notes; their neighbours are races."""

import re
from functools import cache

import compiling
import numpy as np
import pytest

from lab.emulator.api import launch
from lab.emulator.memory.discarded import NOBODY, DiscardedReads, HeldRace
from lab.emulator.memory.memory import Region
from lab.emulator.memory.races import Conflict
from lab.isa.ptx.module import read_ptx

SOURCE = """
#define K(NAME) extern "C" __global__ void NAME(TYPE* x)
#define T threadIdx.x
#define TYPE float
#define LOAD(AT) float v; asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(x + AT)); v *= 2
// noted
K(spare_warps_in_place) { LOAD(T % 64); if (T < 64) x[T] = v; }
K(spare_lanes_in_place) { LOAD(T / 2); if (T % 2 == 0) x[T / 2] = v; }
K(warps_that_round_differently) { float s = x[T % 4] + 1e-7f * (T / 32 % 3); __syncthreads(); x[64 + T % 4] = s; }
K(lanes_that_round_differently) { x[64 + T % 4] = x[T % 4] + 1e-7f * (T / 4 % 2); }
K(one_value) { x[64] = 3; }
// racy
K(neighbours_in_place) { LOAD((T + 1) % 64); if (T < 64) x[T] = v; }
K(spare_warps_that_store_later) { LOAD(T % 64); if (T < 64) x[T] = v; else x[128 + T] = v; }
K(spare_warps_that_decide) { LOAD(T % 64); if (T < 64) x[T] = v; else if (v > 9) x[128 + T] = 1; }
K(different_values) { x[64 + T % 4] = x[T % 4] + T; }
#undef TYPE
#define TYPE int
K(different_integers) { x[64 + T % 4] = 1000 + T / 4; }
K(guarded_maximum) { if (x[64] < (int)T) atomicMax(x + 64, T); }
K(guarded_swap) {
    int old = x[64], seen; if (old >= (int)T) return;
    do { seen = old; old = atomicCAS(x + 64, seen, max(seen, (int)T)); } while (seen != old);
}
// noted
K(swap_after_a_plain_read) {
    int old = x[64], seen; do { seen = old; old = atomicCAS(x + 64, seen, max(seen, (int)T)); } while (seen != old);
}
K(swap_after_a_plain_read_each_round) {
    int old; do { old = x[64]; } while (atomicCAS(x + 64, old, old + 1) != old);
}
K(push) { int old; do { old = x[64]; x[128 + T] = old; } while (atomicCAS(x + 64, old, (int)T) != old); }
"""
_, *_PARTS = re.split("// (noted|racy)", SOURCE)
NAMES = {
    name: kind
    for kind, part in zip(_PARTS[::2], _PARTS[1::2], strict=True)
    for name in re.findall(r"\nK\((\w+)\)", part)
}
INTEGERS = SOURCE[SOURCE.index("#define TYPE int") :]


@cache
def module():
    return read_ptx(compiling.compile_text(SOURCE))


@pytest.mark.parametrize("schedule", [None, 1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_idioms_that_harm_nobody_are_notes(name, schedule):
    x = np.arange(1, 257, dtype=np.int32 if f"K({name})" in INTEGERS else np.float32)
    emulation = launch(module(), name, 1, 128, [x], schedule=schedule)
    assert bool(emulation.findings) == (NAMES[name] == "racy"), emulation.findings
    assert {finding.kind for finding in emulation.findings} <= {"global-race"}
    assert NAMES[name] == "racy" or emulation.notes


def race(position, threads, **options):
    conflict = Conflict("global-race", np.arange(len(threads)), unordered=True, **options)
    memory = Region("x", "global", 0, 16)
    return HeldRace(position, memory, np.array(threads), np.zeros(len(threads), int), conflict, 4, NOBODY, frozenset())


def test_a_race_is_held_back_until_a_reader_uses_the_value():
    reads = DiscardedReads({1: frozenset({5}), 2: None}.get, 64, 64)
    assert reads.by_reader(race(1, [3, 4]))
    assert reads.by_reader(race(2, [3])) is False  # it may matter otherwise
    assert reads.execute(5, np.array([7])) == []
    assert reads.execute(6, np.array([3])) == []
    (found,) = reads.execute(5, np.array([4]))
    assert (found.position, reads.held) == (1, [])
    others = {"other_thread": np.array([64 + 10]), "other_instruction": np.array([1]), "other_kind": "read"}
    assert reads.by_writer(race(9, [0], **others))
    others["other_thread"] = np.array([64 + 7])  # it has used what it read
    assert reads.by_writer(race(9, [0], **others)) is False
    others["other_thread"] = np.array([10])  # a thread of another batch
    assert reads.by_writer(race(9, [0], **others)) is False
    assert reads.by_writer(race(9, [0])) is False  # it does not say who read
    for thread in (64 + 64, 63):
        others["other_thread"] = np.array([thread])
        assert reads.by_writer(race(9, [0], **others)) is False
    others = {"other_thread": np.array([64, 64 + 63]), "other_instruction": np.array([1, 1]), "other_kind": "read"}
    assert reads.by_writer(race(9, [0, 1], **others))
    assert reads.held[-1].readers.tolist() == [0, 63]
    others["other_instruction"] = np.array([1, 2])
    assert reads.by_writer(race(9, [0, 1], **others)) is False


def test_many_races_of_one_instruction_are_held_together():
    reads = DiscardedReads({1: frozenset({5})}.get, 64, 0)
    for thread in range(40):
        assert reads.by_reader(race(1, [thread]))
    assert len(reads.held) == 4
    (found,) = reads.execute(5, np.array([33]))
    assert found.readers.tolist() == [*range(3, 40)]
    assert [one.readers.tolist() for one in reads.held] == [[0], [1], [2]]
