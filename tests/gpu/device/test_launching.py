"""Launches on a driver that is played: what is called with what, and what is refused."""

from __future__ import annotations

import gc
import struct
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fake_pycuda import LIMITS, view

from lab.gpu.device.backend import RefusedError
from lab.operators.base import Inputs
from lab.templates.launches import ConstantValue, Launch, Launches, Workspace

INPUTS = Inputs({"n": 5, "a": 1.5}, {"x": np.zeros(5, np.float32)}, ("x",))
STEP = Launch("scale", (2, 1, 1), (128, 1, 1), 0, (("n", "int32"), ("a", "float32"), ("x", "float32*")))


class Sequence:
    """Resolves launches; `memory` holds their arrays and scratch buffers."""

    def __init__(self, driver, launcher):
        self.driver, self.launcher = driver, launcher
        self.memory: dict[str, Any] = {}

    def __call__(self, *steps, workspace=(), constants=()):
        launches = Launches(tuple(steps), tuple(workspace), constants=tuple(constants))
        self.memory = {name: self.driver.mem_alloc(64) for name in ("x", *(buffer.name for buffer in workspace))}
        pointers = {name: int(memory) for name, memory in self.memory.items()}
        module = self.driver.module_from_buffer(b"cubin")
        return self.launcher.sequence(module, b"cubin", launches, INPUTS, pointers)


@pytest.fixture
def sequence(cuda):
    from lab.gpu.device.launching import Launcher  # noqa: PLC0415 - PyCUDA is played by now

    cuda.kernels |= {"scale": lambda grid, *values: None, "count": lambda grid, *values: None}
    return Sequence(cuda, Launcher(cuda.Device(0), cuda.Stream()))


def test_a_launch_gets_its_geometry_and_packed_arguments(sequence, cuda):
    two: Any = np.int64(2)
    launch = sequence(replace(STEP, grid=(two, 1, 1)))
    assert cuda.launched == []
    launch()
    ((name, grid, block, shared, codes, values),) = cuda.launched
    assert (name, grid, block, shared) == ("scale", (2, 1, 1), (128, 1, 1), 0)
    assert type(grid[0]) is int  # PyCUDA takes no NumPy integers
    packed = struct.pack(codes, *values)
    assert packed == struct.pack("ifP", 5, 1.5, int(sequence.memory["x"]))


@pytest.mark.parametrize("carveout", [0, 37, 100])
def test_a_carve_out_is_asked_for(sequence, cuda, carveout):
    sequence(replace(STEP, carveout=carveout))()
    assert cuda.asked == [("scale", "PREFERRED_SHARED_MEMORY_CARVEOUT", carveout)]


def test_without_a_carve_out_the_driver_decides(sequence, cuda):
    sequence(STEP)()
    assert cuda.asked == []


@pytest.mark.parametrize(
    ("cluster", "asked"),
    [((2, 1, 1), [(11, 2), (12, 1), (13, 1)]), ((4, 2, 2), [(11, 4), (12, 2), (13, 2), (14, 1)])],
)
def test_clusters_are_asked_for(sequence, cuda, cluster, asked):
    sequence(replace(STEP, cluster=cluster))()
    assert cuda.asked == [("scale", attribute, value) for attribute, value in asked]


class Bound:
    """A module whose functions can be launched cooperatively; the GPU holds 16 blocks of 256 threads."""

    def __init__(self, driver, log):
        self._module, self._log = driver.module_from_buffer(b"bound"), log
        self.get_global = self._module.get_global

    def get_function(self, name):
        function = self._module.get_function(name)
        function.resident_blocks = lambda threads, shared: 4096 // threads
        function.prepare_cooperative = lambda codes: self._log.append(name) or function.prepare(codes)
        return function


@pytest.fixture
def cooperative(sequence, cuda):
    """Kernels that were launched cooperatively."""
    launched: list[str] = []
    sequence.launcher._bound = lambda cubin: Bound(cuda, launched)
    return launched


def test_a_kernel_that_waits_for_its_grid_is_launched_cooperatively(sequence, cuda, cooperative):
    sequence(replace(STEP, cooperative=True, grid=(32, 1, 1)), replace(STEP, entry="count"))()
    assert cooperative == ["scale"]
    assert [name for name, *_ in cuda.launched] == ["scale", "count"]
    sequence(STEP)()
    assert cuda.loaded == [b"cubin", b"bound", b"cubin"]


def test_a_cooperative_launch_of_more_blocks_than_the_gpu_holds_is_refused(sequence, cooperative):
    with pytest.raises(RefusedError, match="too many blocks in cooperative launch: 66, the GPU holds 32 at once"):
        sequence(replace(STEP, cooperative=True, grid=(33, 2, 1)))
    assert cooperative == []


def test_dynamic_shared_memory_is_asked_for(sequence, cuda):
    sequence(replace(STEP, dynamic_shared_bytes=100_000))()
    assert cuda.launched[0][3] == 100_000


def test_a_sequence_is_queued_in_order_after_zeroing(sequence, cuda):
    buffers = []
    scratch = Workspace("sums", "float32", 4, zero=True)
    cuda.kernels["scale"] = lambda grid, *values: buffers.append(view(values[-1], np.float32, 4).copy())
    cuda.kernels["count"] = lambda grid, *values: view(values[-1], np.float32, 4).fill(3)
    into = (("sums", "float32*"),)
    steps = (replace(STEP, arguments=into), replace(STEP, entry="count", arguments=into))
    launch = sequence(*steps, workspace=(scratch, Workspace("rest", "float32", 4)))
    for _ in range(2):
        launch()
    assert [name for name, *_ in cuda.launched] == ["scale", "count"] * 2
    assert [values.tolist() for values in buffers] == [[0.0] * 4] * 2
    assert (view(sequence.memory["rest"], np.uint8, 16) == 0xCD).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"grid": (1, 70_000, 1)}, "a grid of 70000 blocks in y; this GPU supports 1 to 65535"),
        ({"grid": (0, 1, 1)}, "a grid of 0 blocks in x; this GPU supports 1 to 65535"),
        ({"block": (1, 1, 2048)}, "a block of 2048 threads in z; this GPU supports 1 to 1024"),
        (
            {"block": (32, 32, 1)},
            "a block of 1024 threads; this kernel uses 96 registers per thread and supports at most 640 threads",
        ),
        (
            {"dynamic_shared_bytes": LIMITS["MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"]},
            "232548 bytes of shared memory per block; this GPU has 232448",
        ),
        ({"arguments": (("z", "int32"),)}, "argument z: the operator has no such scalar; it has n, a"),
    ],
)
def test_a_launch_that_this_gpu_cannot_do_is_refused_before_the_first(sequence, cuda, change, words):
    cuda.attributes["scale"] = {"MAX_THREADS_PER_BLOCK": 640, "NUM_REGS": 96, "SHARED_SIZE_BYTES": 100}
    with pytest.raises(RefusedError) as caught:
        sequence(replace(STEP, entry="count"), replace(STEP, **change))
    assert str(caught.value) == words
    assert cuda.launched == []


def test_a_map_that_a_kernel_takes_by_pointer_is_laid_in_device_memory(sequence, cuda, monkeypatch):
    launching, words, launches = sys.modules["lab.gpu.device.launching"], tuple(range(100, 116)), []
    monkeypatch.setattr(launching, "tensor_map_words", lambda *_: {"by_value": words, "by_pointer": words})
    monkeypatch.setattr(launching, "parameter_offsets", lambda *_: (0, 128))
    monkeypatch.setattr(launching, "parameter_sizes", lambda *_: (128, 8))
    cuda.kernels["scale"] = lambda grid, *values: launches.append((values[:16], tuple(view(values[16], np.uint64, 16))))
    arguments, before = (("by_value", "tensor_map"), ("by_pointer", "tensor_map")), cuda.used
    launch = sequence(replace(STEP, arguments=arguments))
    launch()
    assert launches == [(words, words)]
    assert cuda.launched[0][4] == "Q" * 17
    assert cuda.used - before >= 128
    held = cuda.used
    del launch
    gc.collect()
    assert held - cuda.used >= 128


def test_an_entry_point_that_is_not_in_the_cubin_is_an_error_of_the_driver(sequence, cuda):
    with pytest.raises(cuda.Error, match="named symbol not found"):
        sequence(replace(STEP, entry="nowhere"))


def test_constant_memory_is_filled_before_anything_is_launched(sequence, cuda):
    room = cuda.mem_alloc(32)
    scale = cuda.mem_alloc(4)
    cuda.globals |= {"_Z1x": (room, 32), "a": (scale, 4)}
    sequence(STEP, constants=(ConstantValue("x", "float32", "_Z1x"), ConstantValue("a", "float32", "a")))
    assert cuda.launched == []
    assert (view(room, np.float32, 5) == 0).all()
    assert view(scale, np.float32, 1)[0] == 1.5
    assert view(room, np.uint8, 32)[20] == 0xCD  # what the experiment does not hold stays


def test_a_map_in_constant_memory_is_encoded_there(sequence, cuda, monkeypatch):
    launching, words = sys.modules["lab.gpu.device.launching"], tuple(range(100, 116))
    encoded = iter([{"map": words}, {}])  # of constant memory, and of the launch
    monkeypatch.setattr(launching, "tensor_map_words", lambda *_: next(encoded))
    room = cuda.mem_alloc(128)
    cuda.globals["_Z3map"] = (room, 128)
    sequence(STEP, constants=(ConstantValue("map", "tensor_map", "_Z3map"),))
    assert tuple(view(room, np.uint64, 16)) == words


def test_constant_memory_that_is_too_small_is_refused(sequence, cuda):
    cuda.globals["x"] = (cuda.mem_alloc(16), 16)
    with pytest.raises(RefusedError, match="x in constant memory has 16 bytes, not 20"):
        sequence(STEP, constants=(ConstantValue("x", "float32", "x"),))
