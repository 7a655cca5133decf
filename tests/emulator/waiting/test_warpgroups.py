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


@pytest.mark.parametrize(
    ("directives", "threads", "most", "registers"),
    [  # what ptxas 13.0 says of kernels with these directives whose first warpgroup gives registers up
        ({"maxntid": (256, 1, 1), "minnctapersm": (1,)}, 256, 232, 232),
        ({"reqntid": (256, 1, 1), "minnctapersm": (1,)}, 256, 200, 200),
        ({"maxntid": (384, 1, 1), "minnctapersm": (1,)}, 384, 232, 168),
        ({"maxntid": (512, 1, 1), "minnctapersm": (1,)}, 512, 160, 128),
        ({"maxntid": (256, 1, 1), "minnctapersm": (2,)}, 256, 200, 128),
        ({"maxntid": (256, 1, 1), "minnctapersm": (2,)}, 256, 104, 104),
        ({"maxnreg": (168,)}, 384, 232, 168),
        ({"maxnreg": (168,), "maxntid": (384, 1, 1)}, 384, 160, 160),
        ({"maxnreg": (128,), "maxntid": (256, 1, 1), "minnctapersm": (1,)}, 256, 232, 128),
        ({"maxntid": (256, 1, 1)}, 256, 232, None),
        ({"reqntid": (256, 1, 1)}, 256, 232, None),
        ({"minnctapersm": (1,)}, 256, 232, None),
        ({}, 128, 232, None),
    ],
)
def test_registers_at_the_start(directives, threads, most, registers):
    assert registers_at_start(directives, threads, most) == registers


def limited(less, more, threads=384, directives=".minnctapersm 1"):
    """The first warpgroup gives registers up, the others take more."""
    text = f"""{HEADER}.visible .entry k() .maxntid {threads}, 1, 1 {directives}
    {{ .reg .pred %p<2>; .reg .b32 %r<4>; mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 128; @%p0 bra GIVES;
    setmaxnreg.inc.sync.aligned.u32 {more}; bra DONE;
    GIVES: setmaxnreg.dec.sync.aligned.u32 {less};
    DONE: ret; }}
    """
    return launch(text, "k", 2, threads, [])


@pytest.mark.parametrize("threads", [256, 384])
@pytest.mark.parametrize("directives", [".minnctapersm 1", "", ".maxnreg 168"])
def test_a_producer_gives_what_consumers_take(threads, directives):
    assert limited(40, 232, threads, directives).clean


@pytest.mark.parametrize(
    ("less", "more", "why"),
    [
        (40, 240, "ask for 66560 registers in all, and it has 64512"),
        ("40; setmaxnreg.dec.sync.aligned.u32 56", 232, "56 registers are more than the 40"),
        (40, "232; setmaxnreg.inc.sync.aligned.u32 96", "96 registers are fewer than the 232"),
    ],
)
def test_limits_that_cannot_be(less, more, why):
    findings = limited(less, more).findings
    assert {finding.kind for finding in findings} == {"wgmma-misuse"}
    assert any(why in finding.detail for finding in findings), findings


def test_three_warps_are_no_warpgroup():
    findings = limited(40, 232, 352).findings
    assert any("96 of a warpgroup's 128 threads are here" in finding.detail for finding in findings)
