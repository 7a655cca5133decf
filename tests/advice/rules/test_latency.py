"""Loops that wait for each load, and grids with too few bytes on their way."""

from __future__ import annotations

from typing import Any

from advice_support import modelled, module

from lab.advice.evidence import Evidence
from lab.advice.rules.latency import find_bytes, find_loops
from lab.isa.mix import WarpChain

LOOP = module(
    """
    L2  ld.param.u64 %rd1, [in];
    $loop:
    L4  ld.global.f32 %f1, [%rd1];
    add.s64 %rd1, %rd1, 128;
    setp.lt.u64 %p1, %rd1, 999;
    @%p1 bra $loop;
    """
)
STRAIGHT = module("ld.param.u64 %rd1, [in];\nL4 ld.global.f32 %f1, [%rd1];")
WAITING: dict[str, Any] = {
    "chain": WarpChain(100, 100.0, global_loads=100.0),
    "load_requests": 1e9,
    "load_bytes": 1.28e11,
}


def test_loop_with_a_load_per_pass_is_named():
    (found,) = find_loops(modelled(Evidence(ptx=LOOP), **WAITING))
    assert found.place.source is not None
    assert found.place.source.line == 4
    assert "unroll by 4" in found.remedy
    assert found.gain is not None
    assert 3 < found.gain <= 4


def test_loop_with_four_loads_per_pass_is_no_finding():
    assert list(find_loops(modelled(Evidence(ptx=LOOP), **WAITING, loads_together=4.0))) == []


def test_loop_bound_by_something_else_is_no_finding():
    assert list(find_loops(modelled(Evidence(ptx=LOOP), **WAITING, wavefronts=1e12))) == []
    assert list(find_loops(modelled(Evidence(ptx=STRAIGHT), **WAITING))) == []


def test_bytes_on_their_way_are_compared_with_those_that_dram_needs():
    (found,) = find_bytes(modelled(Evidence(ptx=STRAIGHT), 4, **WAITING))
    # 4 blocks of 8 warps with a request of 128 bytes each
    assert found.cause.startswith("4,096 bytes per SM are on their way at once, 14,331 fill")
    assert list(find_bytes(modelled(Evidence(ptx=STRAIGHT), 4, **WAITING, loads_together=4.0))) == []
    assert list(find_bytes(modelled(Evidence(ptx=LOOP), 4, **WAITING))) == []
