"""Addresses of lanes, and what their requests cost."""

from __future__ import annotations

import numpy as np
import pytest

from lab.emulator.api import launch
from lab.emulator.memory.samples import MOST_NOTED, AccessSamples, costs

LANES = np.arange(32, dtype=np.int64)
ALL = np.ones((1, 32), np.bool_)


@pytest.mark.parametrize(
    ("key", "addresses", "width", "cost", "ideal"),
    [
        ("shared.load", 128 * LANES, 4, 32, 1),
        ("shared.load", 132 * LANES, 4, 1, 1),
        ("global.load", 128 * LANES, 4, 32, 4),
        ("global.load", 4 * LANES + 4, 4, 5, 4),
        ("global.load", 0 * LANES, 4, 1, 1),
        ("const.load", 4 * LANES, 4, 32, 1),
        ("const.load", 0 * LANES, 4, 1, 1),
    ],
)
def test_costs_of_a_request(key, addresses, width, cost, ideal):
    found = costs(key, addresses[None], width, ALL)
    assert [int(one[0]) for one in found] == [cost, ideal]


def test_costliest_request_is_kept():
    samples = AccessSamples()
    for step in (4, 64, 8):
        samples.note(7, "shared.load", step * LANES, 4, LANES)
    (pattern,) = samples.patterns(lambda position: 100 + position)
    assert pattern.line == 107
    assert pattern.lanes == tuple((64 * LANES).tolist())
    assert (pattern.requests, pattern.cost, pattern.ideal) == (3, 1 + 16 + 2, 3)


def test_lanes_that_take_no_part_have_no_address():
    samples = AccessSamples()
    threads = np.array([33, 35])
    samples.note(0, "shared.load", np.array([0, 128]), 4, threads)
    (pattern,) = samples.patterns(lambda position: position)
    assert pattern.lanes[1] == 0
    assert pattern.lanes[3] == 128
    assert pattern.lanes.count(-1) == 30


def test_first_executions_alone_are_looked_at():
    samples = AccessSamples()
    for _ in range(MOST_NOTED + 5):
        samples.note(0, "global.load", 4 * LANES, 4, LANES)
    assert samples.patterns(int)[0].requests == MOST_NOTED


PTX = """
.version 8.0
.target sm_90
.address_size 64
.const .align 4 .b8 table[128];
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<5>;
    .shared .align 4 .b8 tile[4096];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd1, %r1, 128;
    mov.u64 %rd2, tile;
    add.s64 %rd3, %rd2, %rd1;
    st.shared.u32 [%rd3], %r1;
    mul.wide.u32 %rd1, %r1, 4;
    mov.u64 %rd2, table;
    add.s64 %rd3, %rd2, %rd1;
    ld.const.u32 %r2, [%rd3];
    ld.param.u64 %rd4, [out];
    add.s64 %rd3, %rd4, %rd1;
    st.global.u32 [%rd3], %r2;
    ret;
}
"""


def test_a_traced_launch_has_patterns_of_shared_global_and_constant_memory():
    out = np.zeros(32, np.uint32)
    found = launch(PTX, "k", 1, 32, [out], trace=True).patterns
    assert {one.key: (one.cost, one.ideal) for one in found} == {
        "shared.store": (32, 1),
        "const.load": (32, 1),
        "global.store": (4, 4),
    }
    assert launch(PTX, "k", 1, 32, [out]).patterns == ()
