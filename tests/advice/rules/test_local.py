"""Arrays in local memory, and spills."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from advice_support import RESOURCES, modelled, module

from lab.advice.evidence import Evidence
from lab.advice.finding import Rule
from lab.advice.rules.local import find
from lab.isa.mix import WarpChain
from lab.isa.model import Function, Instruction, InstructionClass, Module, SourceLocation
from lab.predict.work import Spilled

ARRAY = module(
    """
    .local .align 4 .b8 depot[64];
    L3  mov.u32 %r1, %tid.x;
    L6  st.local.u32 [depot], %r1;
    $loop:
    L8  ld.local.u32 %r2, [depot];
    setp.lt.u32 %p1, %r2, 8;
    @%p1 bra $loop;
    """
)


def test_array_is_named_with_its_bytes_and_the_line_in_the_loop():
    (found,) = find(Evidence(ptx=ARRAY, resources=RESOURCES))
    assert found.rule is Rule.LOCAL_MEMORY
    assert found.cause.startswith("an array of 64 bytes per thread")
    assert found.place.source is not None
    assert found.place.source.line == 8
    assert found.gain is None


def sass(*opcodes: str) -> Module:
    where = [SourceLocation("/kernel.cu", 10 + place) for place in range(len(opcodes))]
    classes = {"LDL": InstructionClass.LD_LOCAL, "STL": InstructionClass.ST_LOCAL}
    made = [
        Instruction(i, i + 1, opcode, (), None, negated=False, cls=classes.get(opcode, InstructionClass.FMA), source=at)
        for i, (opcode, at) in enumerate(zip(opcodes, where, strict=True))
    ]
    return Module("sass", "", "sm_90", (Function("k", True, tuple(made)),))


def test_spills_are_named_with_bytes_and_line():
    used = replace(RESOURCES, spill_store_bytes=40, spill_load_bytes=44)
    evidence = Evidence(ptx=module("mov.u32 %r1, 0;"), sass=sass("FFMA", "STL", "FFMA"), resources=used)
    (found,) = find(evidence)
    assert (
        found.cause == "32 registers per thread do not suffice: 40 bytes are stored and 44 loaded per thread (spills)"
    )
    assert found.place.source == SourceLocation("/kernel.cu", 11)
    assert found.place.sass == 2


def test_gain_removes_requests_and_waits():
    work: dict[str, Any] = {"spilled": Spilled(1e9, 1e9, 0.0, 0.0), "chain": WarpChain(10, 100.0, local_loads=50.0)}
    (found,) = find(modelled(Evidence(ptx=ARRAY), **work))
    assert found.gain is not None
    assert found.gain > 5


def test_registers_alone_are_no_finding():
    assert list(find(Evidence(ptx=module("mov.u32 %r1, 0;"), resources=RESOURCES))) == []


@pytest.mark.parametrize("kind", ["array", "spill"])
def test_an_array_without_accesses_is_no_finding(kind):
    unused = module(".local .align 4 .b8 depot[64];\nmov.u32 %r1, 0;")
    assert list(find(Evidence(ptx=unused, resources=RESOURCES))) == []
