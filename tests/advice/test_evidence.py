"""Counts, places and gains of the evidence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from advice_support import executed, modelled, module

from lab.advice.evidence import Evidence, Need, of_variant, threads, warps_of_block
from lab.isa.model import SourceLocation
from lab.recorded.run_records import EmulationRecord, ExecutedLines, LaunchRecord

TWO = module(
    """
    L3  mov.u32 %r1, %tid.x;
    ld.param.u64 %rd1, [out];
    mul.wide.u32 %rd2, %r1, 8;
    add.s64 %rd3, %rd1, %rd2;
    L4  st.global.u32 [%rd3], %r1;
    st.global.u32 [%rd3+4], %r1;
    L5  st.global.u32 [%rd3], %r1;
    """
)


@pytest.fixture(scope="module")
def evidence():
    out = np.zeros(64, np.uint32)
    return executed(TWO, [out, out])


def test_accesses_of_a_source_line_are_counted_together(evidence):
    first, second = evidence.accesses("global.store")
    assert (first.count.requests, first.count.sectors) == (2, 16)
    assert (second.count.requests, second.count.sectors) == (1, 8)
    assert evidence.total("global.store").sectors == 24
    assert first.pattern is not None
    assert first.pattern.lanes[:2] == (0, 8)


def test_place_of_what_the_compiler_put_in_is_that_of_the_instruction_before():
    code = module("L7 mov.u32 %r1, 0;\nadd.s32 %r2, %r1, 1;")
    first, second, *_ = code.functions[0].instructions
    bare = replace(second, source=None)
    function = replace(code.functions[0], instructions=(first, bare))
    place = Evidence(ptx=replace(code, functions=(function,))).place(bare)
    assert place.source == SourceLocation("kernel.cu", 7)
    assert place.text == "add.s32 %r2, %r1, 1"


def test_gain_is_a_ratio_of_predicted_times(evidence):
    assert evidence.gain(lambda work: work) is None
    known = modelled(evidence, wavefronts=1e10)
    assert known.gain(lambda work: work) == 1
    assert known.gain(lambda work: replace(work, wavefronts=5e9)) == pytest.approx(2, rel=0.01)
    assert known.bound == "shared memory"


def test_missing_parts_are_named(evidence):
    assert evidence.lacks((Need.PTX, Need.COUNTS)) is None
    assert evidence.lacks((Need.PTX, Need.SASS, Need.GPU)) is Need.SASS


def test_other_kernels_of_the_module_are_left_out(evidence):
    assert [function.name for function in evidence.ptx_functions] == ["k"]
    assert Evidence(ptx=TWO, entries=frozenset({"other"})).ptx_functions == ()


def test_block_sizes():
    launch = LaunchRecord((4, 1, 1), (33, 2, 1), 0)
    assert threads(launch) == 66
    assert warps_of_block(launch) == 3


def test_record_without_an_execution_has_no_counts(make):
    record = replace(make("no_gpu").records()[0], emulation=None)
    found = of_variant(record, None, None)
    assert found.counts is None
    assert found.patterns is None
    assert found.work is None
    assert found.launch == record.launch


def test_addresses_of_older_records_are_not_known(make):
    record = make("no_gpu").records()[0]
    line = ExecutedLines((7,), "fma", 4, 128, {})
    for patterns in (None, ()):
        done = EmulationRecord({}, (), lines=(line,), patterns=patterns)
        assert of_variant(replace(record, emulation=done), None, None).patterns == patterns
