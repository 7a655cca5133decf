"""Limits of registers and small rules of warpgroups; whole kernels are in operations/test_wgmma.py."""

import pytest
from small_ptx import HEADER

from lab.emulator.api import launch
from lab.emulator.waiting.warpgroups import refused_count, registers_at_start


@pytest.mark.parametrize(
    ("count", "refused"), [(24, False), (256, False), (232, False), (16, True), (264, True), (30, True)]
)
def test_counts_of_registers(count, refused):
    assert bool(refused_count(count)) == refused


def test_registers_at_the_start():
    assert registers_at_start({"maxnreg": (168, 1, 1)}, 384) == 168
    assert registers_at_start({"maxntid": (384, 1, 1)}, 384) == 168
    assert registers_at_start({"reqntid": (128, 1, 1), "minnctapersm": (4,)}, 128) == 128
    assert registers_at_start({"reqntid": (128, 1, 1)}, 128) == 256
    assert registers_at_start({}, 128) is None


def limited(less, more, threads=384):
    """The first warpgroup gives registers up, the others take more."""
    text = f"""{HEADER}.visible .entry k() .maxntid {threads}, 1, 1
    {{ .reg .pred %p<2>; .reg .b32 %r<4>; mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 128; @%p0 bra GIVES;
    setmaxnreg.inc.sync.aligned.u32 {more}; bra DONE;
    GIVES: setmaxnreg.dec.sync.aligned.u32 {less};
    DONE: ret; }}
    """
    return launch(text, "k", 2, threads, [])


def test_a_producer_gives_what_consumers_take():
    assert limited(40, 232).clean


@pytest.mark.parametrize(
    ("less", "more", "why"),
    [
        (40, 240, "ask for 66560 registers in all, and it has 64512"),
        (176, 232, "176 registers are more than the 168"),
        (40, 96, "96 registers are fewer than the 168"),
    ],
)
def test_limits_that_cannot_be(less, more, why):
    findings = limited(less, more).findings
    assert {finding.kind for finding in findings} == {"wgmma-misuse"}
    assert any(why in finding.detail for finding in findings), findings


def test_three_warps_are_no_warpgroup():
    findings = limited(40, 232, 352).findings
    assert any("96 of a warpgroup's 128 threads are here" in finding.detail for finding in findings)
