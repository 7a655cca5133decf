"""Bank conflicts by line, degree and remedy."""

from __future__ import annotations

import numpy as np
import pytest
from advice_support import executed, modelled, module

from lab.advice.finding import Rule
from lab.advice.rules.banks import find


def tile(stride: int):
    """A kernel whose lanes load words of shared memory a stride apart, in source line 7."""
    return module(
        f"""
        .shared .align 16 .b8 tile[8192];
        L5  mov.u32 %r1, %tid.x;
        mov.u32 %r2, tile;
        shl.b32 %r3, %r1, 2;
        add.u32 %r3, %r2, %r3;
        st.shared.u32 [%r3], %r1;
        bar.sync 0;
        L7  mul.lo.u32 %r4, %r1, {stride};
        and.b32 %r4, %r4, 0;
        mul.lo.u32 %r5, %r1, {stride};
        add.u32 %r5, %r2, %r5;
        st.shared.u32 [%r5], %r1;
        ld.shared.u32 %r6, [%r5];
        ld.param.u64 %rd1, [out];
        mul.wide.u32 %rd2, %r1, 4;
        add.s64 %rd3, %rd1, %rd2;
        L9  st.global.u32 [%rd3], %r6;
        """
    )


def findings(stride: int, **work):
    out = np.zeros(32, np.uint32)
    evidence = executed(tile(stride), [out, out])
    return list(find(modelled(evidence, **work) if work else evidence))


def test_column_of_a_tile_conflicts_and_a_pitch_removes_it():
    load = next(finding for finding in findings(128) if "load" in finding.cause)
    assert load.rule is Rule.BANK_CONFLICT
    assert load.place.source is not None
    assert load.place.source.line == 7
    assert load.cause.startswith("32-way, lanes 128 bytes apart: 31 of 32 wavefronts")
    assert "132 bytes between the rows that meet instead of 128 (pad by 4 bytes)" in load.remedy
    assert "XOR swizzle" in load.remedy


@pytest.mark.parametrize("stride", [4, 132])
def test_lanes_in_different_banks_are_no_finding(stride):
    assert findings(stride) == []


def test_gain_is_that_of_the_wavefronts_of_the_line():
    first, second = findings(128, wavefronts=1e9)
    # each of load and store has 31 of the 65 wavefronts, and shared memory takes all of the time
    assert first.gain == pytest.approx(65 / 34, rel=1e-2)
    assert second.gain == pytest.approx(first.gain)
    assert [finding.gain for finding in findings(128)] == [None, None]
