"""Loops longer than the instruction cache."""

from __future__ import annotations

from dataclasses import replace

import pytest
from advice_support import modelled

from lab.advice.evidence import Evidence
from lab.advice.rules.codesize import find
from lab.isa.model import Function, Instruction, InstructionClass, Module


def loop(length: int) -> Module:
    body = [Instruction(i, i + 1, "FFMA", (), None, negated=False, cls=InstructionClass.FMA) for i in range(length - 1)]
    back = replace(body[0], index=length - 1, line=length, opcode="BRA", cls=InstructionClass.BRANCH, targets=(0,))
    return Module("sass", "", "sm_90", (Function("k", True, (*body, back)),))


def test_loop_beyond_the_cache_is_named_with_its_size():
    (found,) = find(modelled(Evidence(sass=loop(4096)), code=((4096, 1e9),)))
    assert found.cause == "the loop has 64 KiB of code, and the nearest instruction cache holds 32 KiB"
    assert found.gain is not None
    assert found.gain > 1.5


@pytest.mark.parametrize("length", [8, 2048])
def test_loop_within_the_cache_is_no_finding(length):
    assert list(find(Evidence(sass=loop(length)))) == []
