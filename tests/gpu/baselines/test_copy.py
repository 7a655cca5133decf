"""The plain copy: its choice of a form, on a driver that is played, and its code, emulated."""

from __future__ import annotations

import numpy as np
import pytest
from fake_pycuda import view

from lab.emulator.api import launch
from lab.gpu.device.backend import BaselineMissingError
from lab.operators.base import Inputs
from lab.toolchain.own import build_own

FORMS = ("plain", "streaming")


@pytest.fixture
def copies(cuda):
    """The module; `cuda.kernels["copy"]` copies."""
    from lab.gpu.baselines import copy as module  # noqa: PLC0415 - PyCUDA is played by now

    def copied(grid, size, origin, target):
        view(target, np.uint8, size)[:] = view(origin, np.uint8, size)

    cuda.kernels["copy"] = copied
    return module


def loaded(cuda, n=1000):
    arrays = {"A": np.arange(n, dtype=np.float32), "B": np.full(n, np.nan, np.float32)}
    memory = {name: cuda.to_device(array) for name, array in arrays.items()}
    return Inputs({}, arrays, ("B",)), {name: int(at) for name, at in memory.items()}, memory


@pytest.mark.parametrize(("times", "best"), [((1.0, 2.0), "plain"), ((2.0, 1.0), "streaming")])
def test_the_faster_form_is_taken(copies, cuda, times, best):
    inputs, pointers, _memory = loaded(cuda)
    taken = iter(times)
    baseline = copies.copy_baseline(inputs, pointers, cuda.Stream(), "sm_90", lambda launch: next(taken))
    unroll = copies.FORMS[best][0]
    assert baseline.library == f"{best} copy of 4000 bytes, {unroll} vectors of 16 bytes a thread"
    assert (baseline.computes, ".entry copy(" in baseline.ptx) == (False, True)
    cuda.launched.clear()
    baseline.launch()
    ((name, grid, block, _, codes, values),) = cuda.launched
    assert (name, grid, block, codes) == ("copy", (1, 1, 1), (256, 1, 1), "qPP")
    assert values == (4000, pointers["A"], pointers["B"])


def test_a_copy_that_is_wrong_is_left_out(copies, cuda):
    inputs, pointers, _memory = loaded(cuda)
    cuda.kernels["copy"] = lambda grid, *values: None
    with pytest.raises(BaselineMissingError, match="its output differs from its input"):
        copies.copy_baseline(inputs, pointers, cuda.Stream(), "sm_90", lambda launch: 1.0)


@pytest.mark.parametrize(
    "arrays",
    [
        {"A": np.zeros(3), "C": np.zeros(3), "B": np.zeros(3)},
        {"A": np.zeros(4), "B": np.zeros(3)},
        {"B": np.zeros(3)},
    ],
)
def test_an_operator_of_another_form_has_no_copy(copies, cuda, arrays):
    with pytest.raises(BaselineMissingError, match="one input and one output of one size"):
        copies.copy_baseline(Inputs({}, arrays, ("B",)), {}, cuda.Stream(), "sm_90", lambda launch: 1.0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1, 16, 4096 + 24, 4 * 4096 + 17])
def test_every_byte_is_copied_and_none_beyond(copies, form, size):
    unroll, load, store = copies.FORMS[form]
    ptx = build_own(copies.source(unroll, load, store), "copy.cu", "sm_90").ptx
    origin = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    target = np.zeros(size + 64, np.uint8)
    done = launch(ptx, "copy", copies.blocks(size, unroll), 256, (np.int64(size), origin, target))
    assert not done.findings
    assert (target[:size] == origin).all()
    assert not target[size:].any()
