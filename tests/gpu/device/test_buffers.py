"""Buffers with guards, on device memory that is played."""

from __future__ import annotations

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


@pytest.mark.parametrize("place", [0, 3, 4095])
def test_a_write_past_the_end_is_found_until_the_next_upload(buffers, place):
    buffers.load(inputs())
    buffers.upload()
    view(buffers.pointers["y"] + 24, np.uint8, 4096)[place] = 0
    assert buffers.overrun() == f"y: written {place} bytes past its end of 24 bytes"
    buffers.upload()
    assert buffers.overrun() == ""


def test_buffers_of_the_same_size_are_reused_and_others_freed_first(buffers, cuda):
    buffers.load(inputs())
    before = buffers.pointers
    buffers.load(inputs(n=3, dtype=np.float64))
    assert buffers.pointers == before
    cuda.capacity = cuda.used + 8192
    buffers.load(inputs(n=8))
    assert view(buffers.pointers["x"], np.float32, 8).shape == (8,)


def test_without_room_for_copies_arrays_come_from_the_host(buffers, cuda):
    cuda.capacity = 2 * (24 + 4096)
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
    assert buffers.overrun() == "scratch: written 0 bytes past its end of 20 bytes"


def test_a_workspace_that_does_not_fit_is_refused_with_the_room_there_is(buffers, cuda):
    buffers.load(inputs())
    cuda.capacity = cuda.used + 10_000
    with pytest.raises(RefusedError, match="400000 bytes of workspace do not fit; 10000 bytes are free"):
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
    assert buffers.overrun() == "y: written 0 bytes past its end of 0 bytes"


def test_freed_buffers_leave_nothing(buffers, cuda):
    used = cuda.used
    buffers.load(inputs())
    buffers.make_workspace([Workspace("a", "float32", 1000)])
    buffers.free()
    assert (cuda.used, buffers.pointers) == (used, {})
    with pytest.raises(RefusedError, match="no inputs are loaded"):
        _ = buffers.inputs
