"""Atomics that meet at few addresses."""

from __future__ import annotations

import numpy as np
import pytest
from advice_support import executed, modelled, module

from lab.advice.rules.atomics import find


def counter(stride: int, space: str = "global"):
    address = "ld.param.u64 %rd1, [out];" if space == "global" else "mov.u64 %rd1, tile;"
    return module(
        f"""
        .shared .align 4 .b8 tile[4096];
        L3  mov.u32 %r1, %tid.x;
        {address}
        mul.wide.u32 %rd2, %r1, {stride};
        add.s64 %rd3, %rd1, %rd2;
        L5  {"" if space == "global" else "st.shared.u32 [%rd3], 0; bar.sync 0;"} mov.u32 %r2, 1;
        L6  red.{space}.add.u32 [%rd3], %r2;
        """
    )


def findings(stride: int, space: str = "global", **work):
    out = np.zeros(4096, np.uint32)
    return list(find(modelled(executed(counter(stride, space), [out, out]), **work)))


@pytest.mark.parametrize("space", ["global", "shared"])
def test_one_counter_for_all_lanes_is_named(space):
    (found,) = findings(0, space)
    assert found.place.source is not None
    assert found.place.source.line == 6
    assert found.cause == f"32 of 32 lanes per request update the same {space} address one after the other"


def test_gain_is_that_of_one_update_per_block():
    (found,) = findings(0, updates=1e8)
    assert found.gain is not None
    assert found.gain > 20


@pytest.mark.parametrize("space", ["global", "shared"])
def test_counters_of_their_own_are_no_finding(space):
    assert findings(4, space) == []


def test_one_update_per_warp_is_named_where_it_takes_the_time():
    code = counter(128)  # a sector for each lane
    out = np.zeros(4096, np.uint32)
    found = list(find(modelled(executed(code, [out, out]), updates=1e8)))
    assert [one.cause for one in found] == ["1 requests update few global addresses one after the other"]
    assert list(find(modelled(executed(code, [out, out]), updates=1e3))) == []
