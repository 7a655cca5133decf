"""Double precision that no data asks for."""

from __future__ import annotations

from typing import Any

from advice_support import modelled, module

from lab.advice.evidence import Evidence
from lab.advice.rules.precision import find
from lab.isa.model import InstructionClass as C

PROMOTED = """
    L3  ld.global.f32 %f1, [%rd1];
    L5  cvt.f64.f32 %d1, %f1;
    mul.f64 %d2, %d1, 0d3FE0000000000000;
    cvt.rn.f32.f64 %f2, %d2;
    L6  st.global.f32 [%rd2], %f2;
    """


def test_promoted_floats_are_named_with_their_line():
    (found,) = find(Evidence(ptx=module(PROMOTED)))
    assert found.place.source is not None
    assert found.place.source.line == 5
    assert found.cause == "1 float64 instruction, though inputs and outputs are float32"


def test_gain_removes_doubles_and_conversions():
    work: dict[str, Any] = {"double": 1.0, "by_class": {C.FLOAT: 1e9, C.CONVERT: 2e9}}
    (found,) = find(modelled(Evidence(ptx=module(PROMOTED)), **work))
    assert found.gain is not None
    assert found.gain > 2


def test_doubles_in_memory_are_meant():
    assert list(find(Evidence(ptx=module(PROMOTED + "ld.global.f64 %d3, [%rd3];")))) == []


def test_floats_alone_are_no_finding():
    assert list(find(Evidence(ptx=module("mul.f32 %f2, %f1, 0f3F000000;")))) == []
