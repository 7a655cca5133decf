"""A few inputs of `benchmarks/fuzz_ptx.py`, among them those that once ended in a traceback."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lab.base.errors import LabError

FOUND = (
    "mbarrier.try_wait.parity.shared.b64 %p1, [tile+8];",
    "cp.async.wait_group 9223372036854775807;",
    "mov.b64 {%r2, %r3}, %rd1, %rd2;",
    "bar.red.popc.u32 %rd1, 0, %p1;",
    "ld.global.f32 %f1;",
    "ld.global.f32 %f1, [%rd1+9223372036854775808];",
    "div.s32 %r2, !%p1, %r0;",
    "st.shared.v4.b32 [%p1], {%r1, %r2, %r3, %r4};",
    "mov.b128 %q0, {%rd1, %rd2};",
)


@pytest.fixture(scope="module")
def fuzz_ptx(benchmark_script):
    return benchmark_script("fuzz_ptx")


@pytest.mark.parametrize("statement", FOUND)
def test_what_was_found_is_read_or_refused_with_its_line(fuzz_ptx, statement):
    text = f"{fuzz_ptx._HEAD}{statement}{fuzz_ptx._TAIL}"
    try:
        fuzz_ptx.read_and_launch(text.encode(), Path())
    except LabError as error:
        assert "line 25" in str(error)  # noqa: PT017  some are executed


def test_inputs_are_the_same_for_the_same_seed(fuzz_ptx):
    made = [fuzz_ptx.mutated_ptx(random.Random(f"0 {i}")) for i in range(20)]  # noqa: S311  no secret
    assert made == [fuzz_ptx.mutated_ptx(random.Random(f"0 {i}")) for i in range(20)]  # noqa: S311
    assert len(set(made)) == 20
