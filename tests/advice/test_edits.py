"""Mechanical changes of a CUDA source for performance findings."""

from __future__ import annotations

import pytest

from lab.advice.edits import EditContext, SourceEdit, edits
from lab.advice.finding import CodePlace, PerformanceFinding, Rule
from lab.emulator.results import AccessPattern
from lab.isa.model import SourceLocation

SOURCE = """__constant__ float table[256];
struct Pair { float x, y; };
struct Odd { float x, y, z; };
__global__ void __launch_bounds__(256, MIN(4, 2)) k(float* out, const float* in, const Pair* p, const Odd* o, int n)
{
    __shared__ float tile[32][32];
    double unused = 2.0;
    for (int i = 0; i < n; ++i) {
#if FULL
        #pragma unroll
#else
        #pragma unroll 8
#endif
        for (int j = 0; j < 64; ++j) out[j] += in[4 * j] * 0.5 + in[4 * j + 1] * 1e-3 + 2.f + table[j] + 7;
    }
    __syncthreads();
    out[1] = p[n].x + o[n].z; __syncthreads(); out[2] = 1;
    while (n--) { if (n) for (int j = 0; j < n; ++j) out[j] = table[n]; }
}
"""
LOOP, BARRIER, TWO, WHILE = 14, 16, 17, 18


def made(rule: Rule, line: int, context: EditContext | None = None) -> list[SourceEdit]:
    place = CodePlace(SourceLocation("k.cu", line))
    return list(edits(context or EditContext(SOURCE, "k"), PerformanceFinding(rule, place, "", "", 0.5)))


def changed(edit: SourceEdit) -> list[str]:
    """Return the lines of the edited source that the source does not have."""
    before = SOURCE.splitlines()
    return [line.strip() for line in edit.text.splitlines() if line not in before]


def test_a_loop_that_has_a_pragma_gets_another_factor_and_one_without_gets_one():
    (edit,) = made(Rule.LATENCY, LOOP)
    assert changed(edit) == ["#pragma unroll 4", "#pragma unroll 4"]
    (edit,) = made(Rule.LATENCY, 7 + 1)
    assert changed(edit) == ["#pragma unroll 4"]
    assert edit.text.splitlines()[7:9] == ["    #pragma unroll 4", SOURCE.splitlines()[7]]


def test_a_pragma_stands_on_a_line_of_its_own_before_a_loop_within_a_line():
    (edit,) = made(Rule.LATENCY, WHILE)
    assert "{ if (n) \n#pragma unroll 4\nfor (int j" in edit.text


def test_code_that_is_too_long_is_unrolled_less_where_it_is_unrolled_as_a_whole():
    (edit,) = made(Rule.CODE_SIZE, LOOP)
    assert changed(edit) == ["#pragma unroll 4"]
    assert "#pragma unroll 8" in edit.text
    assert made(Rule.CODE_SIZE, WHILE) == []


def test_spills_are_answered_by_launch_bounds_without_their_second_argument():
    bounds, inner, outer = made(Rule.LOCAL_MEMORY, LOOP)
    assert "__launch_bounds__(256) k(float* out" in bounds.text
    assert inner.text.count("#pragma unroll\n") == 2
    assert outer.text.splitlines()[7] == "    #pragma unroll"


def test_launch_bounds_ask_for_one_more_block():
    (edit,) = made(Rule.OCCUPANCY, 0, EditContext(SOURCE, "k", (), 128, 3))
    assert "__launch_bounds__(128, 4) k(float* out" in edit.text
    plain = SOURCE.replace("__launch_bounds__(256, MIN(4, 2)) ", "")
    (edit,) = made(Rule.OCCUPANCY, 0, EditContext(plain, "k", (), 128, 3))
    assert "__global__ void __launch_bounds__(128, 4) k(float* out" in edit.text


def test_a_pointer_that_is_indexed_on_the_line_is_promised_to_be_aligned():
    titles = [edit.title for edit in made(Rule.NARROW_LOADS, LOOP)]
    assert [title.split()[2] for title in titles] == ["out", "in"]
    edit = made(Rule.NARROW_LOADS, LOOP)[1]
    assert changed(edit) == ["in = static_cast<const float*>(__builtin_assume_aligned(in, 16));"]


def test_a_structure_is_aligned_to_its_size_where_that_is_a_wide_load():
    pair = made(Rule.UNCOALESCED, TWO)[0]
    assert changed(pair) == ["struct __align__(8) Pair { float x, y; };"]
    assert not any("Odd" in edit.title for edit in made(Rule.UNCOALESCED, TWO))


def test_literals_of_double_become_floats_on_the_line_or_everywhere():
    on_line, everywhere = made(Rule.DOUBLE_PRECISION, LOOP)
    assert "0.5f + in[4 * j + 1] * 1e-3f + 2.f + table[j] + 7;" in on_line.text
    assert "double unused = 2.0;" in on_line.text
    assert "double unused = 2.0f;" in everywhere.text


@pytest.mark.parametrize(("line", "after"), [(BARRIER, ""), (TWO, "    out[1] = p[n].x + o[n].z; out[2] = 1;")])
def test_a_barrier_is_removed_or_becomes_one_of_the_warp(line, after):
    removed, warp = made(Rule.REDUNDANT_BARRIER, line)
    assert removed.text.count("__syncthreads") == SOURCE.count("__syncthreads") - 1
    assert len(removed.text) < len(SOURCE)
    assert after in removed.text
    assert warp.text.count("__syncwarp();") == 1
    assert len(warp.text.splitlines()) == len(SOURCE.splitlines())


def test_arrays_are_padded_the_smallest_pad_first():
    column = AccessPattern(1, "shared.load", 4, tuple(128 * lane for lane in range(32)), 1, 32, 1)
    (edit,) = made(Rule.BANK_CONFLICT, 6, EditContext(SOURCE, "k", (column,)))
    assert edit.title == "pad tile by 1 element per row"
    assert changed(edit) == ["__shared__ float tile[32][32 + 1];"]


@pytest.mark.parametrize("rule", [Rule.TAIL_WAVE, Rule.CONTENDED_ATOMIC, Rule.DIVISION, Rule.DIVERGENT_CONSTANT])
def test_other_rules_have_no_mechanical_change(rule):
    assert made(rule, LOOP) == []


@pytest.mark.parametrize("rule", Rule)
def test_a_source_without_the_kernel_is_left_alone(rule):
    assert made(rule, 1, EditContext("int x;\n", "k", (), 32, 1)) == []
