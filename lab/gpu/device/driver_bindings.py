"""The CUDA driver API through NVIDIA's own bindings, for what PyCUDA lacks. Creates no context."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any


def driver_api() -> ModuleType:
    """Initialise and return the module `cuda.bindings.driver`.

    Raises:
        RuntimeError: There is no driver, or it does not start.
    """
    driver = importlib.import_module("cuda.bindings.driver")
    try:
        (status,) = driver.cuInit(0)
    except RuntimeError as error:
        raise RuntimeError("there is no NVIDIA driver on this machine") from error
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"the NVIDIA driver returns {status.name}")
    return driver


def call(function: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401 - as many types as functions
    """Call a function of the driver API.

    Returns:
        Its one result, or None if it has none.

    Raises:
        RuntimeError: It returns an error.
    """
    status, *values = function(*arguments)
    if int(status) != 0:
        raise RuntimeError(f"{function.__name__} returns {status.name}")
    return values[0] if values else None


def kernel_names(queue: Callable[[int], None]) -> str:
    """Name the kernels that a library call launches, without a profiler: the call is captured into a graph, not run.

    Args:
        queue: Queues the call on a stream, which it is given as an integer.

    Returns:
        Symbols, joined by ``, ``; each name once.

    Raises:
        RuntimeError: The capture failed, or the driver does not name functions (CUDA before 12.3).
    """
    driver = driver_api()
    stream = call(driver.cuStreamCreate, int(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    graph = None
    try:
        call(driver.cuStreamBeginCapture, stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
        try:
            queue(int(stream))
        finally:
            graph = call(driver.cuStreamEndCapture, stream)
        return ", ".join(dict.fromkeys(_names(driver, graph)))
    finally:
        if graph is not None:
            driver.cuGraphDestroy(graph)
        driver.cuStreamDestroy(stream)


def _names(driver: ModuleType, graph: object) -> list[str]:
    """Return the symbols of the graph's kernel nodes; a node holds a CUfunction or, newer, a CUkernel."""
    _, _, count = driver.cuGraphGetNodes(graph)
    status, nodes, _ = driver.cuGraphGetNodes(graph, count)
    if int(status) != 0:
        raise RuntimeError(f"cuGraphGetNodes returns {status.name}")
    names = []
    for node in nodes[:count]:
        if call(driver.cuGraphNodeGetType, node) != driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL:
            continue
        parameters = call(driver.cuGraphKernelNodeGetParams, node)
        by_function = int(parameters.func) != 0
        name: bytes = (
            call(driver.cuFuncGetName, parameters.func)
            if by_function
            else call(driver.cuKernelGetName, parameters.kern)
        )
        names.append(name.decode())
    return names
