"""Barriers that order nothing."""

from __future__ import annotations

from advice_support import modelled, module

from lab.advice.evidence import Evidence
from lab.advice.rules.barriers import find
from lab.isa.mix import WarpChain
from lab.recorded.run_records import LaunchRecord

TWICE = module("L3 st.shared.u32 [%r1], %r2;\nL4 bar.sync 0;\nadd.s32 %r1, %r1, 4;\nL6 bar.sync 0;")
APART = module("L3 st.shared.u32 [%r1], %r2;\nL4 bar.sync 0;\nld.shared.u32 %r3, [%r1];\nL6 bar.sync 0;")


def test_second_barrier_without_an_access_between_is_named():
    (found,) = find(Evidence(ptx=TWICE))
    assert found.place.source is not None
    assert found.place.source.line == 6
    assert found.remedy == "remove it"
    assert found.waste == 0.5


def test_barriers_around_an_access_are_no_finding():
    assert list(find(Evidence(ptx=APART))) == []


def test_block_of_one_warp_needs_no_barrier():
    (found,) = find(Evidence(ptx=APART, launch=LaunchRecord((9, 1, 1), (32, 1, 1), 0)))
    assert "__syncwarp()" in found.remedy


def test_gain_removes_the_share_of_the_barriers():
    (found,) = find(modelled(Evidence(ptx=TWICE), chain=WarpChain(10, 1.0, barriers=1e4)))
    assert found.gain is not None
    assert 1.9 < found.gain < 2.1
