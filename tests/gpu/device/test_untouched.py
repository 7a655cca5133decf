"""Comparing memory bit by bit: the kernels, executed by the emulator, and the class on a driver that is played."""

from pathlib import Path

import numpy as np
import pytest
from fake_pycuda import view

import lab.gpu
from lab.base.errors import MissingToolError
from lab.emulator.api import launch
from lab.toolchain.own import build_own

NOTHING = 2**64 - 1


@pytest.fixture(scope="module")
def ptx():
    source = (Path(lab.gpu.__file__).parent / "device" / "untouched.cu").read_text()
    return build_own(source, "untouched.cu", "sm_90").ptx


def on_device(ptx, entry, one, other, count, start):
    result = np.array([start], np.uint64)
    done = launch(ptx, entry, (2,), (64,), [one, other, np.uint64(count), result])
    assert done.clean
    return int(result[0])


@pytest.mark.parametrize("size", [2, 15, 16, 4099])
@pytest.mark.parametrize("places", [(), (0,), (-1,), (-1, 0), (-2, -1)])
def test_the_first_byte_that_differs(ptx, size, places):
    before = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    got = before.copy()
    got[list(places)] ^= 0x10
    changed = np.flatnonzero(got != before)
    expected = int(changed[0]) if len(changed) else NOTHING
    assert on_device(ptx, "first_difference", got, before, size, NOTHING) == expected


@pytest.mark.parametrize(
    ("dtype", "item"), [("uint8", 1), ("float16", 2), ("float32", 4), ("float64", 8), ("complex128", 16)]
)
def test_equal_elements_are_counted_by_their_bits(ptx, dtype, item):
    before = np.full(1003, np.nan if dtype != "uint8" else 0xA5).astype(dtype)
    assert on_device(ptx, f"count_equal_{item}", before.copy(), before, 1003, 0) == 1003
    got = np.arange(1003).astype(dtype)
    got[got == before] = 0
    got[[3, 1002]] = before[[3, 1002]]
    assert on_device(ptx, f"count_equal_{item}", got, before, 1003, 0) == 2


@pytest.fixture
def untouched(cuda):
    """The class, with kernels that find what they are told."""
    from lab.gpu.device.untouched import Untouched  # noqa: PLC0415 - PyCUDA is played by now

    names = ("first_difference", *(f"count_equal_{item}" for item in (1, 2, 4, 8, 16)))
    cuda.kernels |= dict.fromkeys(names, lambda grid, got, before, count, result: None)
    return Untouched("sm_90")


def test_a_kernel_that_finds_nothing_leaves_the_result(untouched):
    assert untouched.first_difference(256, 512, 64) is None
    assert untouched.has_equal(256, 512, 16, 4) is False
    assert untouched.has_equal(256, 512, 16, 3) is True  # no kernel compares such elements


def test_what_a_kernel_finds_is_returned(untouched, cuda):
    def finds(grid, got, before, count, result):
        view(result, np.uint64, 1)[0] = 12

    cuda.kernels |= {"first_difference": finds, "count_equal_4": finds}
    assert untouched.first_difference(256, 512, 10**9) == 12
    assert untouched.has_equal(256, 512, 16, 4) is True
    assert [grid for _, grid, *_ in cuda.launched] == [(2048, 1), (1, 1)]


def test_without_a_compiler_there_is_none(cuda, monkeypatch):
    from lab.gpu.device import untouched as module  # noqa: PLC0415 - as above

    def missing(*_):
        raise MissingToolError("there is no NVRTC")

    monkeypatch.setattr(module, "compiled", missing)
    assert module.untouched("sm_90") is None
