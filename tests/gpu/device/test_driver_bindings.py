"""The driver API, with bindings that are played."""

from __future__ import annotations

import importlib
from enum import IntEnum
from types import SimpleNamespace

import pytest

from lab.gpu.device.driver_bindings import call, driver_api, kernel_names


class Result(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_NO_DEVICE = 100


def bindings(status=Result.CUDA_SUCCESS, nodes=()):
    """`cuda.bindings.driver`; its graphs hold these nodes: kernels by name, other nodes as None."""
    ok = Result.CUDA_SUCCESS
    module = SimpleNamespace(CUresult=Result, destroyed=[], captured=[])
    module.CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    module.CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2)
    module.CUgraphNodeType = SimpleNamespace(CU_GRAPH_NODE_TYPE_KERNEL=0)
    module.cuInit = lambda flags: (status,)
    module.cuStreamCreate = lambda flags: (ok, 42)
    module.cuStreamBeginCapture = lambda stream, mode: (ok,)
    module.cuStreamEndCapture = lambda stream: (ok, "graph")
    module.cuGraphGetNodes = lambda graph, count=0: (ok, list(nodes)[:count], len(nodes))
    module.cuGraphNodeGetType = lambda node: (ok, 0 if node else 1)
    module.cuGraphKernelNodeGetParams = lambda node: (
        ok, SimpleNamespace(func=0 if node.startswith("kernel:") else 5, kern=node, name=node)
    )  # fmt: skip
    module.cuFuncGetName = lambda function: (ok, b"by_function")
    module.cuKernelGetName = lambda kernel: (ok, kernel.removeprefix("kernel:").encode())
    module.cuGraphDestroy = module.destroyed.append
    module.cuStreamDestroy = module.destroyed.append
    return module


@pytest.fixture
def play(monkeypatch):
    def play(driver_module):
        monkeypatch.setattr(importlib, "import_module", lambda name: driver_module)
        return driver_module

    return play


def test_without_a_driver_library_there_is_no_driver(play):
    def absent(flags):
        raise RuntimeError("Failed to dlopen libcuda.so.1")

    driver_module = play(bindings())
    driver_module.cuInit = absent
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
    driver_module = play(bindings(nodes=("kernel:split", None, "function", "kernel:split", "kernel:sum")))
    streams: list[int] = []
    assert kernel_names(streams.append) == "split, by_function, sum"
    assert streams == [42]
    assert driver_module.destroyed == ["graph", 42]


def test_a_call_that_fails_ends_the_capture(play):
    driver_module = play(bindings())

    def fails(stream):
        raise RuntimeError("cublasSgemm_v2")

    with pytest.raises(RuntimeError, match="cublasSgemm_v2"):
        kernel_names(fails)
    assert driver_module.destroyed == ["graph", 42]
