"""Buffers with guards, on device memory that is played."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from fake_pycuda import view

from lab.gpu.device.backend import RefusedError
from lab.operators.base import Inputs
from lab.templates.launches import Workspace


def inputs(n=6, dtype=np.float32):
    return Inputs({"n": n}, {"x": np.arange(n, dtype=dtype), "y": np.full(n, np.nan, dtype)}, ("y",))


@pytest.fixture
def buffers(cuda):
    from lab.gpu.device.buffers import DeviceBuffers  # noqa: PLC0415 - PyCUDA is played by now

    return DeviceBuffers(cuda.Stream())


def compared(cuda, on_device):
    """Buffers that the device compares, or the host."""
    from lab.gpu.device.buffers import DeviceBuffers  # noqa: PLC0415 - as above
    from lab.gpu.device.untouched import untouched  # noqa: PLC0415 - as above

    if on_device:
        cuda.kernels |= {"first_difference": first_difference}
        cuda.kernels |= {f"count_equal_{item}": partial(count_equal, item=item) for item in (1, 2, 4, 8, 16)}
    return DeviceBuffers(cuda.Stream(), lambda: untouched("sm_90"))


def first_difference(grid, got, before, size, result):
    differs = np.flatnonzero(view(got, np.uint8, size) != view(before, np.uint8, size))
    view(result, np.uint64, 1)[:] = min([*differs.tolist(), int(view(result, np.uint64, 1)[0])])


def count_equal(grid, got, before, elements, result, item):
    shape = (elements, item)
    equal = view(got, np.uint8, elements * item).reshape(shape) == view(before, np.uint8, elements * item).reshape(
        shape
    )
    view(result, np.uint64, 1)[:] += int(equal.all(axis=1).sum())


def floats(buffers, name, n=6):
    return view(buffers.pointers[name], np.float32, n)


def test_uploaded_arrays_are_the_operators(buffers):
    buffers.load(inputs())
    buffers.upload()
    assert floats(buffers, "x").tolist() == [0, 1, 2, 3, 4, 5]
    assert np.isnan(buffers.outputs()["y"]).all()
    assert buffers.overrun() == ""


def test_an_upload_restores_what_a_kernel_changed(buffers):
    buffers.load(inputs())
    buffers.upload()
    floats(buffers, "x")[:] = -1
    floats(buffers, "y")[:] = 7
    assert buffers.outputs()["y"].tolist() == [7.0] * 6
    buffers.upload()
    assert floats(buffers, "x").tolist() == [0, 1, 2, 3, 4, 5]
    assert np.isnan(floats(buffers, "y")).all()


def test_a_refresh_repairs_the_pristine_copies(buffers):
    given = inputs()
    buffers.load(given)
    given.arrays["x"][0] = 99
    buffers.upload()
    assert floats(buffers, "x")[0] == 0
    buffers.refresh()
    buffers.upload()
    assert floats(buffers, "x")[0] == 99


@pytest.mark.parametrize(
    ("first", "last", "words"),
    [
        (24, 39, "y: 16 bytes written beyond its end, at byte 24 of 24"),
        (24 + 4095, 24 + 4095, "y: 4 bytes written beyond its end, at byte 4116 of 24"),
        (-4, -1, "y: 4 bytes written before its start, at byte -4 of 24"),
        (-4096, -4096, "y: 4 bytes written before its start, at byte -4096 of 24"),
    ],
)
def test_a_write_beyond_the_ends_is_found_until_the_next_upload(buffers, first, last, words):
    buffers.load(inputs())
    buffers.upload()
    view(buffers.pointers["y"] + first, np.uint8, last - first + 1)[:] = 0
    assert buffers.overrun() == words
    buffers.upload()
    assert buffers.overrun() == ""


def test_a_vector_that_is_copied_beyond_the_ends_of_two_arrays_is_found(buffers):
    buffers.load(inputs())
    buffers.upload()
    view(buffers.pointers["y"] + 16, np.uint8, 16)[:] = view(buffers.pointers["x"] + 16, np.uint8, 16)
    assert buffers.overrun() == "y: 8 bytes written beyond its end, at byte 24 of 24"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_what_is_read_beyond_the_ends_is_nan(buffers, dtype):
    buffers.load(inputs(dtype=dtype))
    buffers.upload()
    size = 6 * np.dtype(dtype).itemsize
    for at in (buffers.pointers["x"] - 4096, buffers.pointers["x"] + size):
        assert np.isnan(view(at, dtype, 4096 // np.dtype(dtype).itemsize)).all()


def test_data_is_aligned_as_the_driver_aligns_it(buffers):
    from lab.gpu.device.buffers import LARGE_PAGE  # noqa: PLC0415 - PyCUDA is played by now

    large = np.zeros(LARGE_PAGE, np.uint8)
    buffers.load(Inputs({}, {"x": large, "y": np.zeros(3, np.uint8)}, ("y",)))
    assert buffers.pointers["y"] % 256 == 0
    allocated = int(buffers._arrays["x"].allocation)
    assert (buffers.pointers["x"] - allocated) % LARGE_PAGE == 0


@pytest.mark.parametrize("on_device", [True, False])
def test_a_write_to_an_array_that_is_no_output_is_found(cuda, on_device):
    buffers = compared(cuda, on_device)
    buffers.load(inputs())
    buffers.upload()
    floats(buffers, "y")[:] = 1
    assert buffers.written_input() == ""
    floats(buffers, "x")[4:] = 7
    assert buffers.written_input() == "x is not declared as an output, but x[4] was written"
    assert bool(cuda.launched) is on_device
    buffers.renew_outputs()
    assert floats(buffers, "x")[4] == 7


@pytest.mark.parametrize("on_device", [True, False])
def test_elements_that_hold_what_they_held_are_marked(cuda, on_device):
    buffers = compared(cuda, on_device)
    buffers.load(replace(inputs(), required=("y",)))
    buffers.upload()
    floats(buffers, "y")[:4] = 7
    (marks,) = buffers.unwritten().values()
    assert marks.tolist() == [False] * 4 + [True] * 2
    buffers.renew_outputs()
    assert np.isnan(floats(buffers, "y")).all()
    floats(buffers, "y")[:5] = np.nan  # by chance what it held before the first launch
    (marks,) = buffers.unwritten(again=True).values()
    assert marks.tolist() == [False] * 5 + [True]
    floats(buffers, "y")[:] = 7
    assert buffers.unwritten(again=True) == buffers.unwritten() == {}


@pytest.mark.parametrize("dtype", ["uint8", "float16", "complex64", "complex128"])
def test_elements_of_every_size_are_compared_whole(buffers, dtype):
    poison = np.full(5, 0xA5 if dtype == "uint8" else np.nan, dtype)
    buffers.load(Inputs({}, {"y": poison}, ("y",), ("y",)))
    buffers.upload()
    size = poison.itemsize
    view(buffers.pointers["y"] + 2 * size - 1, np.uint8, 2)[:] = (
        0x11  # the last byte of an element, the first of the next
    )
    assert buffers.unwritten()["y"].tolist() == [True, False, False, True, True]


def test_only_required_outputs_are_poisoned_otherwise_before_a_second_launch(buffers):
    given = {name: np.full(3, value, np.int32) for name, value in (("x", 1), ("y", 2), ("z", -1))}
    buffers.load(Inputs({}, given, ("y", "z"), ("z",)))
    buffers.upload()
    for name in "xyz":
        view(buffers.pointers[name], np.int32, 3)[:] = 9
    buffers.renew_outputs()
    held = [int(view(buffers.pointers[name], np.int32, 3)[0]) for name in "xyz"]
    assert held == [9, 2, 0x5A5A5A5A]
    assert buffers.unwritten() == {}


def test_buffers_of_the_same_size_are_reused_and_others_freed_first(buffers, cuda):
    buffers.load(inputs())
    before = buffers.pointers
    buffers.load(inputs(n=3, dtype=np.float64))
    assert buffers.pointers == before
    cuda.capacity = cuda.used + 3 * 4096
    buffers.load(inputs(n=8))
    assert view(buffers.pointers["x"], np.float32, 8).shape == (8,)


def test_without_room_for_copies_arrays_come_from_the_host(buffers, cuda):
    cuda.capacity = 2 * (24 + 2 * 4096)
    buffers.load(inputs())
    buffers.upload()
    assert floats(buffers, "x").tolist() == [0, 1, 2, 3, 4, 5]
    assert np.isnan(floats(buffers, "y")).all()


def test_the_workspace_is_poisoned_with_nan_and_guarded(buffers):
    buffers.load(inputs())
    buffers.make_workspace([Workspace("scratch", "float32", 5)])
    buffers.upload()
    assert np.isnan(floats(buffers, "scratch", 5)).all()
    view(buffers.pointers["scratch"] + 20, np.uint8, 1)[0] = 0
    assert buffers.overrun() == "scratch: 4 bytes written beyond its end, at byte 20 of 20"


def test_a_workspace_that_does_not_fit_is_refused_with_the_room_there_is(buffers, cuda):
    buffers.load(inputs())
    cuda.capacity = cuda.used + 15_000
    with pytest.raises(RefusedError, match="400000 bytes of workspace do not fit; 15000 bytes are free"):
        buffers.make_workspace([Workspace("a", "float32", 50_000), Workspace("b", "float32", 50_000)])
    buffers.make_workspace([Workspace("a", "float32", 1000)])


def test_the_last_workspace_is_freed_first(buffers, cuda):
    buffers.make_workspace([Workspace("a", "float32", 1000)])
    cuda.capacity = cuda.used
    buffers.make_workspace([Workspace("b", "float32", 1000)])
    assert set(buffers.pointers) == {"b"}


def test_empty_arrays_have_a_guard_too(buffers):
    nothing = np.empty(0, np.float32)
    buffers.load(Inputs({}, {"x": nothing, "y": nothing.copy()}, ("y",)))
    buffers.upload()
    assert buffers.outputs()["y"].shape == (0,)
    view(buffers.pointers["y"], np.uint8, 1)[0] = 1
    assert buffers.overrun() == "y: 4 bytes written beyond its end, at byte 0 of 0"


def test_freed_buffers_leave_nothing(buffers, cuda):
    used = cuda.used
    buffers.load(inputs())
    buffers.make_workspace([Workspace("a", "float32", 1000)])
    buffers.free()
    assert (cuda.used, buffers.pointers) == (used, {})
    with pytest.raises(RefusedError, match="no inputs are loaded"):
        _ = buffers.inputs
