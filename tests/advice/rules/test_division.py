"""Integer divisions in loops."""

from __future__ import annotations

from dataclasses import replace

import pytest
from advice_support import modelled, module

from lab.advice.evidence import Evidence, LineCounts
from lab.advice.rules.division import find


def loop(opcode: str, registers: str):
    return module(
        f"""
        $loop:
        L4  {opcode} {registers};
        add.s32 %r5, %r5, 1;
        setp.lt.s32 %p1, %r5, 99;
        @%p1 bra $loop;
        """
    )


@pytest.mark.parametrize(
    ("opcode", "registers", "cause"),
    [
        ("div.s32", "%r1, %r2, %r3", "a 32-bit division or remainder per pass of the loop, about 18 instructions each"),
        ("rem.u64", "%rd1, %rd2, %rd3", "a 64-bit division or remainder per pass of the loop, about 80 instructions"),
    ],
)
def test_division_in_a_loop_is_named(opcode, registers, cause):
    (found,) = find(Evidence(ptx=loop(opcode, registers)))
    assert found.cause.startswith(cause)
    assert found.place.source is not None
    assert found.place.source.line == 4


def test_gain_removes_the_share_of_the_division():
    code = loop("div.s32", "%r1, %r2, %r3")
    lines = {instruction.line: LineCounts(1000, 32000) for instruction in code.functions[0].instructions}
    evidence = replace(Evidence(ptx=code, counts=lines), patterns=())
    (found,) = find(modelled(evidence, instructions=1e10))
    # 18 of 22 instructions
    assert found.waste == pytest.approx(18 / 22)
    assert found.gain == pytest.approx(22 / 4, rel=0.01)


def test_division_outside_of_loops_and_of_floats_is_no_finding():
    assert list(find(Evidence(ptx=module("div.s32 %r1, %r2, %r3;")))) == []
    assert list(find(Evidence(ptx=loop("div.rn.f32", "%f1, %f2, %f3")))) == []


def test_rare_division_is_no_finding():
    code = loop("div.s32", "%r1, %r2, %r3")
    lines = {
        instruction.line: LineCounts(1 if "div" in instruction.opcode else 1000, 1)
        for instruction in code.functions[0].instructions
    }
    assert list(find(Evidence(ptx=code, counts=lines))) == []
