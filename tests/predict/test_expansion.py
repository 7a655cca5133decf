"""Expansion of emulated PTX instructions into SASS by ptxas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.emulator.results import ExecutedCounts
from lab.isa.mix import Counts, LoopMix
from lab.isa.model import InstructionClass
from lab.predict.expansion import expansion, expansions, hot_passes
from lab.recorded.run_records import EmulatedStep, LaunchRecord


def test_an_instruction_that_ptxas_expands_counts_as_what_it_becomes(make):
    record = make("no_gpu").records()[0]
    ptx = replace(record.ptx, loops=(), counts=Counts(10, {"ld.global": 2, "integer": 8}, {}, 0, 8))
    assert expansion(ptx, replace(ptx, counts=Counts(40, {"ld.global": 2, "integer": 38}, {}, 0, 8))) == 4
    unrolled = Counts(20, {"ld.global": 4, "integer": 16}, {}, 0, 16)
    assert expansion(ptx, replace(ptx, counts=unrolled)) == 1
    assert expansion(ptx, replace(ptx, counts=Counts(12, {"ld.global": 2, "integer": 10}, {}, 0, 8))) == 1.2
    assert expansion(ptx, None) == 1


LOOPED = Counts(10, {"st.shared": 1, "integer": 9}, {}, 0, 0)


def looping(mix, whole, hot):
    """A mix of one loop."""
    loop = LoopMix("loop", 1, None, True, hot, 1, 2, ((1, 2),), None)
    return replace(mix, counts=whole, loops=(loop,))


def test_what_ptxas_makes_of_a_loop_is_not_what_it_makes_of_the_rest(make):
    record = make("no_gpu").records()[0]
    ptx = looping(record.ptx, Counts(30, {"st.shared": 1, "integer": 29}, {}, 0, 0), LOOPED)
    sass = looping(
        record.ptx,
        Counts(70, {"st.shared": 1, "integer": 69}, {}, 0, 0),
        Counts(20, {"st.shared": 1, "integer": 19}, {}, 0, 0),
    )
    found = expansions(ptx, sass, 1.0)
    assert (found.inside, found.outside) == (2.0, 2.5)
    found = expansions(ptx, sass, 1.0, InstructionClass.INTEGER)
    assert (found.inside, found.outside) == pytest.approx((19 / 9, 2.5))


def test_a_loop_that_ptxas_unrolls_further_than_it_runs_executes_its_remainder(make):
    record = make("no_gpu").records()[0]
    ptx = looping(record.ptx, Counts(30, {"st.shared": 1, "integer": 29}, {}, 0, 0), LOOPED)
    unrolled = Counts(20, {"st.shared": 4, "integer": 16}, {}, 0, 0)
    sass = looping(record.ptx, Counts(40, {"st.shared": 4, "integer": 36}, {}, 0, 0), unrolled)
    assert expansions(ptx, sass, 4.0).inside == 0.5
    assert expansions(ptx, sass, 3.9).inside == 1.0
    assert expansions(ptx, sass, 3.9).outside == 1.0
    assert expansions(ptx, replace(sass, loops=()), 3.9).outside == 1.0


def test_loads_that_ptxas_merges_count_as_it_issues_them(make):
    record = make("no_gpu").records()[0]
    ptx = replace(record.ptx, loops=(), counts=Counts(48, {"fma": 16, "ld.shared": 32}, {}, 128, 0))
    sass = replace(ptx, counts=Counts(80, {"fma": 32, "ld.shared": 16, "integer": 32}, {}, 256, 0))
    # SASS is unrolled twice: 80 / 2 instructions where the PTX has 48, and 8 loads instead of 32
    assert expansion(ptx, sass) == pytest.approx(40 / 48)
    assert expansion(ptx, sass, InstructionClass.LD_SHARED) == pytest.approx(8 / 32)
    assert expansion(ptx, sass, InstructionClass.CONVERT) == 1


def executed(warps):
    return ExecutedCounts(warps, 32 * warps, {}, {}, {}, {}, {})


def test_passes_through_the_hot_loop_are_those_of_each_time_that_a_warp_comes_to_it(make):
    record = make("no_gpu").records()[0]
    geometry = LaunchRecord((2, 1, 1), (64, 1, 1), 0)
    ptx = looping(record.ptx, Counts(30, {}, {}, 0, 0), LOOPED)
    small = EmulatedStep("k", geometry, executed(500), hot_loop=executed(400))
    assert hot_passes(ptx, small, executed(400)) == 10.0  # of 4 warps, 10 instructions each
    inner = replace(ptx.loops[0], depth=2, parent="outer")
    outer = replace(inner, label="outer", depth=1, parent=None, hot=False, counts=replace(LOOPED, instructions=15))
    nested = replace(ptx, loops=(outer, inner))
    assert hot_passes(nested, small, executed(500)) == 2.0  # which pass through the outer loop 5 times
    assert hot_passes(replace(ptx, loops=()), small, executed(0)) == 0.0
    assert hot_passes(None, small, executed(0)) == 0.0


def test_a_hot_loop_that_ptxas_unrolled_completely_is_compared_with_the_code_outside_of_loops(make):
    record = make("no_gpu").records()[0]
    ptx = looping(record.ptx, Counts(100, {"fma": 25, "integer": 75}, {}, 0, 0), Counts(50, {"fma": 25}, {}, 0, 0))
    fill = Counts(40, {"st.shared": 4, "integer": 36}, {}, 0, 0)
    sass = looping(record.ptx, Counts(340, {"fma": 100, "st.shared": 4, "integer": 236}, {}, 0, 0), fill)
    assert expansion(ptx, sass.with_hot("", unrolled=True)) == pytest.approx((300 / 100) / (50 / 25))
