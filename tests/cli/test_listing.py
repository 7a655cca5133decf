"""Listings and instruction mixes that `lab inspect` prints."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from lab.cli import listing
from lab.cli.inspect import InspectedListing, Inspection
from lab.cli.listing import print_inspection
from lab.isa.mix import module_mix
from lab.isa.ptx.module import read_ptx
from lab.toolchain.base import Resources

HEADER = ".version 8.0\n.target sm_90a\n"


def printed(text, *, full=True, **terminal):
    file = io.StringIO()
    console = Console(file=file, width=80, **terminal)
    ptx = InspectedListing("ptx", text, module_mix(read_ptx(text)))
    print_inspection(console, Inspection("k.ptx", None, (ptx,)), full=full)
    return file.getvalue()


def loops(count, kernel="k"):
    body = "".join(f"L{number}: add.u32 %r1, %r1, 1;\n@%p1 bra L{number};\n" for number in range(count))
    return f".entry {kernel}() {{\n.reg .b32 %r1; .reg .pred %p1;\n{body}ret;\n}}\n"


def test_an_inspection_names_the_roles_of_warps():
    text = """.version 8.0\n.target sm_90a\n.entry k() { .reg .pred %p; @%p bra C;
        setmaxnreg.dec.sync.aligned.u32 40; cp.async.ca.shared.global [%r1], [%rd1], 16; ret;
        C: wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {}, %rd2, %rd3, 1, 1, 1, 0, 0; ret; }"""
    lines = printed(text, full=False).splitlines()
    assert "producer: 40 registers from line 4 on" in lines
    assert "consumer: the registers of the launch from line 5 on" in lines


def test_the_hot_loop_is_marked_and_the_mix_aligned():
    assert printed(HEADER + loops(1)).splitlines() == [
        "── k.ptx ──",
        "kernel                             hot loop",
        "k       2 instructions: 1 branch, 1 integer",
        "── PTX ──",
        "     1   .version 8.0",
        "     2   .target sm_90a",
        "     3   .entry k() {",
        "     4   .reg .b32 %r1; .reg .pred %p1;",
        "     5 ▌ L0: add.u32 %r1, %r1, 1;",
        "     6 ▌ @%p1 bra L0;",
        "     7   ret;",
        "     8   }",
        "",
        "── PTX of k ──",
        "loops",
        "                                                        FMA  fma/(fma +  live",
        "loop            depth  instructions  fma : ld.shared  share  ld.shared)  regs",
        "▌ L0                1             2            0 : 0   0.0%",
        "  whole kernel      0             3            0 : 0   0.0%",
        "instructions by class",
        "class    hot loop  kernel",
        "branch          1       2",
        "integer         1       1",
    ]


def test_only_the_hot_loop():
    lines = printed(HEADER + loops(2), full=False).splitlines()
    assert [line for line in lines if line[:6].strip().isdecimal()] == [
        "     5 ▌ L0: add.u32 %r1, %r1, 1;",
        "     6 ▌ @%p1 bra L0;",
    ]


def test_a_terminal_sees_the_hot_loop_in_colour():
    text = printed(HEADER + loops(1), force_terminal=True, color_system="standard")
    assert "\x1b[1;33m     5 ▌ L0: add.u32 %r1, %r1, 1;\n     6 ▌ @%p1 bra L0;\n\x1b[0m" in text
    assert "\x1b[" not in printed(HEADER + loops(1), force_terminal=True, color_system=None).split("PTX of k")[1]


@pytest.mark.parametrize(
    "text",
    [HEADER + loops(1000), HEADER + "".join(loops(1, f"k{number}") for number in range(400))],
    ids=["loops", "kernels"],
)
def test_many_loops_and_kernels_are_printed_at_once(text):
    """In seconds for 10^5 loops or 50,000 kernels; a table of rich's for each took minutes."""
    listing = InspectedListing("ptx", text, module_mix(read_ptx(text)))
    file = io.StringIO()
    console = Console(file=file, width=80)
    begun = time.process_time()
    print_inspection(console, Inspection("k.ptx", None, (listing,)), full=True)
    assert time.process_time() - begun < 0.3
    written = file.getvalue()
    assert written.count("▌ L0 ") == len(listing.kernels)
    assert written.count("whole kernel") == len(listing.kernels)


def test_registers_spills_and_shared_memory_are_in_the_summary():
    text = HEADER + loops(1)
    ptx = InspectedListing("ptx", text, module_mix(read_ptx(text)))
    used = Resources(40, 8, 16, 24, 512, 0, 0)
    file = io.StringIO()
    shown = Inspection("k.cu", None, (ptx,), "", {"k": used}, {"k": "ns::k<float>"}, ("a note",))
    print_inspection(Console(file=file, width=80), shown, full=False)
    lines = file.getvalue().splitlines()
    assert lines[1] == "a note"
    assert lines[2].split() == ["kernel", "registers", "spills", "shared", "hot", "loop"]
    assert lines[3].split()[:6] == ["ns::k<float>", "40", "24", "B", "512", "B"]
    assert lines[-1].startswith("--full")


def test_a_kernel_without_loops_is_shown_whole():
    lines = printed(HEADER + loops(0) + loops(1, "other"), full=False).splitlines()
    assert [line.split()[-1] for line in lines if line[:6].strip().isdecimal()] == ["ret;", "1;", "L0;"]


SASS_LINES = (
    "        /*00b0*/              @!P0 LDC.64 R2, c[0x0][0x218] ;           // |   9   |   1    |",
    "        /*00e0*/                   LDG.E.128.CONSTANT R2, desc[UR6][R2.64+0x10] ;    // |   9   |   1    |",
    "  .L_x_2:                                                                  // +.......+........+",
)


def test_sass_is_narrowed_to_a_terminal_and_loses_its_live_registers_where_these_do_not_fit():
    assert [listing._narrowed(line, 200) for line in SASS_LINES] == list(SASS_LINES)
    narrowed = [listing._narrowed(line, 71) for line in SASS_LINES]
    assert narrowed[0] == "/*00b0*/  @!P0 LDC.64 R2, c[0x0][0x218] ;         // |   9   |   1    |"
    assert narrowed[1] == "/*00e0*/       LDG.E.128.CONSTANT R2, desc[UR6][R2.64+0x10] ;"
    assert narrowed[2].split() == [".L_x_2:", "//", "+.......+........+"]
    assert len(narrowed[2]) == 71


def test_the_summary_names_as_many_classes_as_fit():
    text = HEADER + loops(1)
    inspection = Inspection("k.ptx", None, (InspectedListing("ptx", text, module_mix(read_ptx(text))),))
    widest, narrow = (listing._summary(inspection, width) for width in (1000, 40))
    assert narrow.count(",") < widest.count(",")
    assert narrow.split()[0] == widest.split()[0] == "kernel"
