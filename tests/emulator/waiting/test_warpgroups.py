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


def limited(less, more, threads=384, directives=".minnctapersm 1", **options):
    """The first warpgroup gives registers up, the others take more."""
    text = f"""{HEADER}.visible .entry k() .maxntid {threads}, 1, 1 {directives}
    {{ .reg .pred %p<2>; .reg .b32 %r<4>; mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 128; @%p0 bra GIVES;
    setmaxnreg.inc.sync.aligned.u32 {more}; bra DONE;
    GIVES: setmaxnreg.dec.sync.aligned.u32 {less};
    DONE: ret; }}
    """
    return launch(text, "k", 2, threads, [], **options)


@pytest.mark.parametrize("threads", [256, 384])
@pytest.mark.parametrize("directives", [".minnctapersm 1", "", ".maxnreg 168"])
def test_a_producer_gives_what_consumers_take(threads, directives):
    assert limited(40, 232, threads, directives).clean


@pytest.mark.parametrize("seed", range(8))
def test_warps_that_wait_for_registers_resume_together(seed):
    assert limited(40, 232, schedule=seed).findings == ()


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


def exchanged(gives, takes, *, registers=168):
    """Launch warpgroups that release and acquire registers (setmaxnreg), with the given code in between."""
    text = f"""{HEADER}.visible .entry k() .maxntid 384, 1, 1 .maxnreg {registers}
    {{ .reg .pred %p<2>; .reg .b32 %r<4>; mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 128; @%p0 bra GIVES;
    {takes} bra DONE;
    GIVES: {gives}
    DONE: ret; }}
    """
    return launch(text, "k", 2, 384, [])


GIVE, TAKE = "setmaxnreg.dec.sync.aligned.u32 40;", "setmaxnreg.inc.sync.aligned.u32 232;"
BACK = "setmaxnreg.dec.sync.aligned.u32 168;"


@pytest.mark.parametrize(
    ("gives", "takes"),
    [
        (GIVE, f"{TAKE} bar.sync 1, 256;"),
        (f"{GIVE} barrier.sync 0;", f"barrier.sync 0; {TAKE}"),
        (f"{GIVE} barrier.sync 0;", f"{TAKE} barrier.sync 0;"),
        (
            f"{GIVE} barrier.sync 0; barrier.sync 0; setmaxnreg.inc.sync.aligned.u32 168;",
            f"{TAKE} barrier.sync 0; {BACK} barrier.sync 0;",
        ),
        ("ret;", "setmaxnreg.inc.sync.aligned.u32 168;"),
    ],
)
def test_registers_that_come_free_are_taken(gives, takes):
    found = exchanged(gives, takes)
    assert found.clean, found.findings


@pytest.mark.parametrize(
    ("gives", "takes"),
    [
        (f"barrier.sync 0; {GIVE}", f"{TAKE} barrier.sync 0;"),  # there is enough in the end, but nobody comes so far
        ("ret;", TAKE),
        (
            f"{GIVE} barrier.sync 0; setmaxnreg.inc.sync.aligned.u32 168; barrier.sync 0;",
            f"{TAKE} barrier.sync 0; barrier.sync 0; {BACK}",
        ),
    ],
)
def test_who_waits_for_registers_that_nobody_gives_up_waits_forever(gives, takes):
    found = exchanged(gives, takes).findings
    assert {finding.kind for finding in found} == {"wgmma-misuse"}
    assert all("it has 64512: they wait forever" in finding.detail for finding in found), found


def test_a_poll_for_one_who_waits_for_registers_ends():
    """The releasing warpgroup polls a flag set only after the other one has acquired its registers."""
    polls = "A: ld.volatile.shared.u32 %r1, [flag]; setp.eq.u32 %p1, %r1, 0; @%p1 bra A;"
    sets = "mov.u32 %r2, 1; st.volatile.shared.u32 [flag], %r2;"
    shared = ".shared .align 4 .b32 flag; mov.u32 %r3, 0; st.volatile.shared.u32 [flag], %r3; barrier.sync 0;"
    text = f"""{HEADER}.visible .entry k() .maxntid 256, 1, 1 .maxnreg 168
    {{ .reg .pred %p<2>; .reg .b32 %r<4>; {shared} mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 128; @%p0 bra GIVES;
    {TAKE} {sets} bra DONE;
    GIVES: {polls} {GIVE}
    DONE: ret; }}
    """
    found = [finding for finding in launch(text, "k", 1, 256, []).findings if finding.kind == "wgmma-misuse"]
    assert found
    assert all("they wait forever" in finding.detail for finding in found)
    clean = text.replace(f"GIVES: {polls} {GIVE}", f"GIVES: {GIVE} {polls}")
    for schedule in (None, 1, 2, 3):
        assert launch(clean, "k", 1, 256, [], schedule=schedule).findings == ()


def test_a_guard_decides_who_takes_registers():
    found = exchanged(GIVE, "setp.lt.u32 %p1, %r0, 256; @%p1 setmaxnreg.inc.sync.aligned.u32 240;", registers=160)
    assert found.clean, found.findings
