"""Loads from constant memory with an index that differs from lane to lane."""

from __future__ import annotations

import numpy as np
from advice_support import executed, modelled, module

from lab.advice.rules.constants import find

PASSES = 1e8
"""Passes of the whole launch, which take longer than everything else."""


def table(stride: int):
    return module(
        f"""
        L3  mov.u32 %r1, %tid.x;
        mul.wide.u32 %rd2, %r1, {stride};
        mov.u64 %rd3, palette;
        add.s64 %rd4, %rd3, %rd2;
        L6  ld.const.u32 %r2, [%rd4];
        ld.param.u64 %rd1, [out];
        mul.wide.u32 %rd5, %r1, 4;
        add.s64 %rd6, %rd1, %rd5;
        st.global.u32 [%rd6], %r2;
        """,
        before=".const .align 4 .b8 palette[128];",
    )


def findings(stride: int):
    out = np.zeros(32, np.uint32)
    return list(find(modelled(executed(table(stride), [out, out]), constant_passes=PASSES)))


def test_different_words_are_named_with_their_number():
    (found,) = findings(4)
    assert found.place.source is not None
    assert found.place.source.line == 6
    assert found.cause == "32 different words per request, each served in a pass of its own"
    assert found.gain is not None
    assert found.gain > 1.5


def test_one_word_for_all_lanes_is_no_finding():
    assert findings(0) == []


def test_without_passes_in_the_record_no_gain_is_predicted():
    out = np.zeros(32, np.uint32)
    (found,) = find(modelled(executed(table(4), [out, out])))
    assert found.gain is None
