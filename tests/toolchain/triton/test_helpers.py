"""Needs Triton, no GPU: what the device functions compute is seen by executing their PTX."""

from __future__ import annotations

import numpy as np
import pytest

from lab.emulator.api import launch
from lab.isa.ptx.module import read_ptx
from lab.toolchain.triton.compiler import find_triton
from lab.toolchain.triton.source import TritonSource

TEXT = """import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from flag_gems.utils import triton_lang_extension as tle

@triton.jit
def f(a, b, larger, smaller, first, i, j, floor):
    at = tl.arange(0, 32) + tle.program_id(0)
    x, y = tl.load(a + at), tl.load(b + at)
    tl.store(larger + at, triton_helpers.maximum(x, y))
    tl.store(smaller + at, triton_helpers.minimum(x, y))
    value, place = triton_helpers.max_with_index(x, at.to(tl.int32), 0)
    tl.store(first, place)
    p, q = tl.load(i + at), tl.load(j + at)
    tl.store(floor + at, triton_helpers.div_floor_integer(p, q) + 100 * triton_helpers.remainder_integer(p, q))
"""


def test_nan_is_the_larger_and_the_smaller_and_division_rounds_down():
    triton = find_triton() or pytest.skip("Triton is not on this machine")
    kinds = ("*fp32", "*fp32", "*fp32", "*fp32", "*i32", "*i32", "*i32", "*i32")
    names = ("a", "b", "larger", "smaller", "first", "i", "j", "floor")
    build = triton.compile(TritonSource(TEXT, "k.py", "f", tuple(zip(names, kinds, strict=True))).request("sm_90"))
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 32)).astype(np.float32)
    a[[3, 7]], b[[5, 7]] = np.nan, np.nan
    i = random.integers(-50, 50, 32).astype(np.int32)
    j = (random.integers(1, 9, 32) * random.choice([-1, 1], 32)).astype(np.int32)
    larger, smaller = np.zeros((2, 32), np.float32)
    first, floor = np.zeros(1, np.int32), np.zeros(32, np.int32)
    hidden = [np.zeros(1, np.uint64)] * build.launch.hidden_pointers
    threads, shared = build.launch.threads, build.launch.dynamic_shared_bytes
    assert threads is not None
    assert shared is not None
    done = launch(
        read_ptx(build.ptx), "f", 1, threads, [a, b, larger, smaller, first, i, j, floor, *hidden],
        dynamic_shared_bytes=shared,
    )  # fmt: skip
    assert done.clean
    np.testing.assert_array_equal(larger, np.maximum(a, b))
    np.testing.assert_array_equal(smaller, np.minimum(a, b))
    assert first[0] == 3  # the first NaN
    np.testing.assert_array_equal(floor, i // j + 100 * (i % j))
