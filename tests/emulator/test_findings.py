"""Collecting faults."""

import numpy as np
import pytest
from small_ptx import kernel

from lab.emulator import findings as findings_module
from lab.emulator.api import launch
from lab.emulator.batch import make_batch
from lab.emulator.findings import BatchFindings, Findings, OtherSide, source_name
from lab.emulator.program import Program
from lab.isa.ptx.module import read_ptx

PROGRAM = Program(read_ptx(kernel("mov.u32 %r0, 1;\nadd.u32 %r0, %r0, 1;")), "k")
BATCH = make_batch((3, 1, 1), (8, 4, 1), 1, 2)


def test_a_fault_is_told_once_a_line_with_its_first_threads():
    findings = Findings(PROGRAM)
    batch = BatchFindings(findings, BATCH)
    batch.add("out-of-bounds", 1, "first", np.array([41, 3]), address=64)
    batch.add("out-of-bounds", 1, "second", np.array([0, 1, 2]))
    batch.add("misaligned", 1, "third", np.array([0]))
    first, other = findings.all()
    assert (first.kind, first.detail, first.count, first.address) == ("out-of-bounds", "first", 5, 64)
    assert (first.block, first.thread) == ((2, 0, 0), (1, 1, 0))
    assert first.warp == 0
    assert first.text == "add.u32 %r0, %r0, 1"
    assert first.line == PROGRAM.code[1][1].line
    assert other.kind == "misaligned"


def test_the_other_side_of_a_race():
    findings = Findings(PROGRAM)
    batch = BatchFindings(findings, BATCH)
    batch.add("shared-race", 1, "race", np.array([0]), other_side=OtherSide("write", 0, 9))
    batch.add("shared-race", 0, "race", np.array([0]), other_side=OtherSide("read", -1, 9))
    elsewhere, same = (finding.other for finding in findings.all())
    assert elsewhere is not None
    assert same is not None
    assert (elsewhere.kind, elsewhere.line, elsewhere.thread) == ("write", PROGRAM.code[0][1].line, (1, 1, 0))
    assert same.line == PROGRAM.code[0][1].line  # of the instruction itself


def test_faults_without_an_instruction_are_told_apart_by_their_detail():
    findings = Findings(PROGRAM)
    findings.add("never-written", None, "args[0]", count=3)
    findings.add("never-written", None, "args[1]", count=4)
    findings.add("never-written", None, "args[0]", count=5)
    assert [(finding.detail, finding.count, finding.line) for finding in findings.all()] == [
        ("args[0]", 8, 0),
        ("args[1]", 4, 0),
    ]
    assert findings.all()[0].thread is None


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("_ZZ1kPjE4tile", "tile"),
        ("_ZZ11test_kernelPiS_iE7s_carry", "s_carry"),
        ("_ZZ1kE1s__1", "s"),
        ("tile", "tile"),
        ("_ZN2ns4smemE", "smem"),
        ("_ZN2ns4smemILi3EEE", "_ZN2ns4smemILi3EEE"),
    ],
)
def test_names_of_variables_as_in_the_source(name, short):
    assert source_name(name) == short


def test_elements():
    shared = ".shared .align 4 .b8 _ZZ1kPjE4tile[64]; .extern .shared .align 16 .b8 rest[];"
    found = Findings(Program(read_ptx(kernel("mov.u32 %r0, _ZZ1kPjE4tile; mov.u32 %r1, rest;", module=shared)), "k"))
    assert found.element("shared", "shared memory", 20, 4) == "tile[5] of tile[16], elements of 4 bytes"
    assert found.element("shared", "shared memory", 72, 2) == "rest[4] of dynamic rest[], elements of 2 bytes"
    assert found.element("global", "args[1] (y)", 20, 4) == "args[1] (y)[5], elements of 4 bytes"
    assert not found.element("local", "local memory", 0, 4)


@pytest.mark.parametrize("access", ["ld.global.u32 %r2, [%rd3];", "st.global.u32 [%rd3], 7;"])
def test_a_loop_that_has_left_its_array_is_stopped(monkeypatch, access):
    """Its trip count is 2^32 + 1, as where a 32-bit bound was taken for a 64-bit one."""
    monkeypatch.setattr(findings_module, "MOST_REPEATS", 50)
    body = f"""ld.param.u64 %rd1, [out]; mov.u64 %rd2, 0;
        L: shl.b64 %rd3, %rd2, 2; add.u64 %rd3, %rd3, %rd1; {access}
        add.u64 %rd2, %rd2, 1; setp.lt.u64 %p1, %rd2, 4294967297; @%p1 bra L;"""
    emulation = launch(kernel(body, ["out"]), "k", 1, 32, [np.zeros(32, np.uint32)], max_steps=100_000)
    (finding,) = emulation.findings
    assert (finding.kind, finding.count) == ("out-of-bounds", 51 * 32)
    assert emulation.steps < 1000
    assert "was at fault more than" in emulation.notes[-1]
