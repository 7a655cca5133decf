"""The driver API, with bindings that are played."""

from __future__ import annotations

import importlib
from enum import IntEnum
from types import SimpleNamespace

import pytest

from lab.gpu.device.driver import call, driver_api, kernel_names


class Result(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_NO_DEVICE = 100


def bindings(status=Result.CUDA_SUCCESS, nodes=()):
    """`cuda.bindings.driver`; its graphs hold these nodes: kernels by name, other nodes as None."""
    ok = Result.CUDA_SUCCESS
    made = SimpleNamespace(CUresult=Result, destroyed=[], captured=[])
    made.CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    made.CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2)
    made.CUgraphNodeType = SimpleNamespace(CU_GRAPH_NODE_TYPE_KERNEL=0)
    made.cuInit = lambda flags: (status,)
    made.cuStreamCreate = lambda flags: (ok, 42)
    made.cuStreamBeginCapture = lambda stream, mode: (ok,)
    made.cuStreamEndCapture = lambda stream: (ok, "graph")
    made.cuGraphGetNodes = lambda graph, count=0: (ok, list(nodes)[:count], len(nodes))
    made.cuGraphNodeGetType = lambda node: (ok, 0 if node else 1)
    made.cuGraphKernelNodeGetParams = lambda node: (
        ok, SimpleNamespace(func=0 if node.startswith("kernel:") else 5, kern=node, name=node)
    )  # fmt: skip
    made.cuFuncGetName = lambda function: (ok, b"by_function")
    made.cuKernelGetName = lambda kernel: (ok, kernel.removeprefix("kernel:").encode())
    made.cuGraphDestroy = made.destroyed.append
    made.cuStreamDestroy = made.destroyed.append
    return made


@pytest.fixture
def play(monkeypatch):
    def play(found):
        monkeypatch.setattr(importlib, "import_module", lambda name: found)
        return found

    return play


def test_without_a_driver_library_there_is_no_driver(play):
    def absent(flags):
        raise RuntimeError("Failed to dlopen libcuda.so.1")

    found = play(bindings())
    found.cuInit = absent
    with pytest.raises(RuntimeError, match="there is no NVIDIA driver on this machine"):
        driver_api()


def test_a_driver_that_does_not_start_says_why(play):
    play(bindings(Result.CUDA_ERROR_NO_DEVICE))
    with pytest.raises(RuntimeError, match="the NVIDIA driver returns CUDA_ERROR_NO_DEVICE"):
        driver_api()


def test_a_call_returns_its_result_or_raises_its_error():
    def answering(*answer):
        def function():
            return answer

        function.__name__ = "cuDeviceGet"
        return function

    assert call(answering(Result.CUDA_SUCCESS, 3)) == 3
    assert call(answering(Result.CUDA_SUCCESS)) is None
    with pytest.raises(RuntimeError, match="cuDeviceGet returns CUDA_ERROR_NO_DEVICE"):
        call(answering(Result.CUDA_ERROR_NO_DEVICE, 3))


def test_kernels_of_a_captured_call_are_named_once(play):
    found = play(bindings(nodes=("kernel:split", None, "function", "kernel:split", "kernel:sum")))
    streams: list[int] = []
    assert kernel_names(streams.append) == "split, by_function, sum"
    assert streams == [42]
    assert found.destroyed == ["graph", 42]


def test_a_call_that_fails_ends_the_capture(play):
    found = play(bindings())

    def fails(stream):
        raise RuntimeError("cublasSgemm_v2")

    with pytest.raises(RuntimeError, match="cublasSgemm_v2"):
        kernel_names(fails)
    assert found.destroyed == ["graph", 42]
