"""Neighbouring elements that are loaded one by one."""

from __future__ import annotations

import pytest
from advice_support import module

from lab.advice.evidence import Evidence
from lab.advice.rules.vectors import find


def loads(*offsets: int, opcode: str = "ld.global.f32"):
    lines = "\n".join(f"{opcode} %f{i}, [%rd1+{offset}];" for i, offset in enumerate(offsets))
    return module(f"L4 mov.u64 %rd1, 0;\n{lines}")


@pytest.mark.parametrize(
    ("offsets", "lanes"), [((0, 4, 8, 12), 4), ((8, 0, 4), 2), ((0, 4, 64, 68), 2)], ids=["four", "three", "two pairs"]
)
def test_run_of_scalar_loads_is_named_with_the_width_that_replaces_it(offsets, lanes):
    (found,) = find(Evidence(ptx=loads(*offsets)))
    assert found.remedy.startswith(f"one load of {4 * lanes} bytes")
    assert found.place.source is not None
    assert found.place.source.line == 4


@pytest.mark.parametrize("offsets", [(0,), (0, 64, 128)])
def test_loads_apart_are_no_finding(offsets):
    assert list(find(Evidence(ptx=loads(*offsets)))) == []


def test_wide_loads_are_no_finding():
    code = module("ld.global.v2.f32 {%f1, %f2}, [%rd1];\nld.global.v2.f32 {%f3, %f4}, [%rd1+8];")
    assert list(find(Evidence(ptx=code))) == []
