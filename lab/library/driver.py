"""The functions of the CUDA driver that queue a library's kernels, called through ctypes.

The driver alone knows which context is current and what a pointer belongs to, whatever other library made them, and a
call of it costs a quarter of a microsecond. No context is pushed on the stack that PyCUDA keeps in Python.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lab.base.errors import LabError, MissingToolError
from lab.hardware.encodedmaps import EncodedMap
from lab.hardware.tensormaps import TensorMap
from lab.library.operands import Operand

_WORD = ctypes.c_uint64
_ADDRESS = ctypes.c_void_p

_FUNCTIONS = (
    "cuInit",
    "cuGetErrorString",
    "cuCtxGetId",
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuDevicePrimaryCtxGetState",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuPointerGetAttribute",
    "cuPointerGetAttributes",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuFuncSetAttribute",
    "cuMemAlloc_v2",
    "cuMemsetD8Async",
    "cuStreamGetId",
    "cuStreamIsCapturing",
    "cuThreadExchangeStreamCaptureMode",
    "cuEventCreate",
    "cuEventRecord",
    "cuStreamWaitEvent",
    "cuLaunchKernelEx",
    "cuDeviceGetAttribute",
    "cuFuncGetAttribute",
    "cuOccupancyMaxActiveClusters",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuTensorMapEncodeTiled",
)
"""By the names that the driver exports. `cuCtxGetId` and `cuStreamGetId` are the newest: CUDA 12.0."""

_NOT_CURRENT = (3, 201)
"""CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_INVALID_CONTEXT: what `cuCtxGetId` returns where no context is current."""

OUT_OF_MEMORY = 2
_MAX_DYNAMIC_SHARED = 8
_MULTIPROCESSORS = 16
_CLUSTER = (11, 12, 13)
_NO_TIMING = 2
_RELAXED = 2
_CONTEXT, _MEMORY_TYPE, _DEVICE_POINTER, _IS_MANAGED, _ORDINAL = 1, 2, 3, 8, 9
"""Enumerators of cuda.h: CUfunction_attribute, CUdevice_attribute, CUevent_flags, CUstreamCaptureMode,
CUpointer_attribute."""

LEGACY_STREAM = 1
"""The default stream's other handle, which ``__cuda_array_interface__`` uses; 0 means the same to a launch."""


_HALF = 1 << 32
"""Of an answer of 4 bytes, what the upper half of its word holds does not matter."""


class DriverError(LabError):
    """A function of the CUDA driver returned an error."""

    def __init__(self, function: str, status: int, text: str) -> None:
        """Keep the number, by cuda.h's enumeration CUresult."""
        self.status = status
        super().__init__(f"{function} returns {status}: {text}")


class LaunchConfig(ctypes.Structure):
    """`CUlaunchConfig` of cuda.h."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", _ADDRESS),
        ("attributes", _ADDRESS),
        ("attribute_count", ctypes.c_uint),
    )


@dataclass(frozen=True, slots=True)
class PointerFacts:
    """What the driver knows of an address.

    Attributes:
        known: It is memory of CUDA's.
        on_device: It lies on one GPU and is not managed, so that `ordinal` tells where kernels reach it.
        ordinal: Number of the GPU.
        context: The context that it was made in; 0 for memory of a pool or of the virtual memory functions.
        reachable: Kernels of the current context may access it.
    """

    known: bool
    on_device: bool
    ordinal: int
    context: int
    reachable: bool


class _Answers(threading.local):
    """Where the driver writes: a thread must not read what another one asked for."""

    def __init__(self) -> None:
        word = _WORD()
        self.number = word, ctypes.addressof(word)
        facts = (_WORD * 5)()  # of those that have 4 bytes, the upper half stays 0
        self._places = (_ADDRESS * 5)(*(ctypes.addressof(facts) + 8 * i for i in range(5)))
        self.facts = memoryview(facts).cast("B").cast("Q"), ctypes.addressof(self._places)


_ATTRIBUTES = (ctypes.c_int * 5)(_CONTEXT, _MEMORY_TYPE, _DEVICE_POINTER, _IS_MANAGED, _ORDINAL)
_ATTRIBUTES_AT = ctypes.addressof(_ATTRIBUTES)
_ON_DEVICE = 2
"""CU_MEMORYTYPE_DEVICE."""


class CudaDriver:
    """The driver, initialised. Handles are integers. What fails raises a `DriverError`."""

    def __init__(self, library: Any) -> None:  # noqa: ANN401 - its functions are attributes
        """Look the functions up in a loaded library.

        Raises:
            MissingToolError: The driver is too old, or finds no GPU.
        """
        try:
            self._api: dict[str, Callable[..., int]] = {name: getattr(library, name) for name in _FUNCTIONS}
        except AttributeError as error:
            raise MissingToolError(f"gemm needs an NVIDIA driver of CUDA 12.0 or newer: {error}") from error
        # 4 bytes are ctypes' default for an integer; addresses and sizes have to be declared. As an address an integer
        # is passed at once, as every other type by an object of its own; so what each call asks takes addresses alone,
        # whose lower half is the number where the driver takes 4 bytes.
        for name, types in {
            "cuCtxGetId": (_ADDRESS, _ADDRESS),
            "cuCtxPushCurrent_v2": (_ADDRESS,),
            "cuPointerGetAttribute": (_ADDRESS, _ADDRESS, _ADDRESS),
            "cuPointerGetAttributes": (_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS),
            "cuModuleLoadData": (_ADDRESS, ctypes.c_char_p),
            "cuModuleGetFunction": (_ADDRESS, _ADDRESS, ctypes.c_char_p),
            "cuFuncSetAttribute": (_ADDRESS, ctypes.c_int, ctypes.c_int),
            "cuMemAlloc_v2": (_ADDRESS, ctypes.c_size_t),
            "cuMemsetD8Async": (_WORD, ctypes.c_ubyte, ctypes.c_size_t, _ADDRESS),
            "cuStreamGetId": (_ADDRESS, _ADDRESS),
            "cuStreamIsCapturing": (_ADDRESS, _ADDRESS),
            "cuEventRecord": (_ADDRESS, _ADDRESS),
            "cuStreamWaitEvent": (_ADDRESS, _ADDRESS, ctypes.c_uint),
            "cuLaunchKernelEx": (_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS),
            "cuFuncGetAttribute": (_ADDRESS, ctypes.c_int, _ADDRESS),
            "cuOccupancyMaxActiveClusters": (_ADDRESS, _ADDRESS, _ADDRESS),
            "cuOccupancyMaxActiveBlocksPerMultiprocessor": (_ADDRESS, _ADDRESS, ctypes.c_int, ctypes.c_size_t),
        }.items():
            self._api[name].argtypes = types  # type: ignore[attr-defined]
        self.launch: Callable[[int, int, int, None], int] = self._api["cuLaunchKernelEx"]
        """``cuLaunchKernelEx`` itself, by addresses: configuration, function, arguments. Returns the status."""
        self._context_id, self._stream_id = self._api["cuCtxGetId"], self._api["cuStreamGetId"]
        self._pointer_attribute = self._api["cuPointerGetAttribute"]
        self._pointer_attributes = self._api["cuPointerGetAttributes"]
        self._is_capturing = self._api["cuStreamIsCapturing"]
        self._answers = _Answers()
        status = self._api["cuInit"](0)
        if status:
            raise MissingToolError(f"gemm needs an NVIDIA GPU: cuInit returns {status}: {self._text(status)}")

    def current(self) -> int:
        """Return the number of the current context, which no other context ever gets; 0 where there is none."""
        word, at = self._answers.number
        status = self._context_id(None, at)
        if status:
            if status not in _NOT_CURRENT:
                raise self.error("cuCtxGetId", status)
            return 0
        return word.value

    def stream_id(self, stream: int) -> int | None:
        """Return the number of a stream, which no other stream ever gets; None while it is captured.

        The driver tells no number of a captured stream, and a capture in which it was asked for one is lost.
        """
        word, at = self._answers.number
        status = self._is_capturing(stream, at)
        if status:
            raise self.error("cuStreamIsCapturing", status)
        if word.value % _HALF:
            return None
        status = self._stream_id(stream, at)
        if status:
            raise self.error("cuStreamGetId", status)
        return word.value

    def context(self) -> int:
        """Return the current context; 0 where there is none."""
        word = _WORD()
        self._call("cuCtxGetCurrent", ctypes.byref(word))
        return word.value

    def ordinal(self) -> int:
        """Return the number of the current context's GPU."""
        number = ctypes.c_int()
        self._call("cuCtxGetDevice", ctypes.byref(number))
        return number.value

    def is_primary(self, context: int, ordinal: int) -> bool:
        """Return whether a context is its GPU's primary one, which PyTorch, CuPy and CUDA's runtime use."""
        flags, active = ctypes.c_uint(), ctypes.c_int()
        self._call("cuDevicePrimaryCtxGetState", ordinal, ctypes.byref(flags), ctypes.byref(active))
        if not active.value:
            return False
        primary = self.primary(ordinal)
        self._call("cuDevicePrimaryCtxRelease_v2", ordinal)
        return primary == context

    def primary(self, ordinal: int) -> int:
        """Return the primary context of a GPU, made if need be, and keep it alive."""
        word = _WORD()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(word), ordinal)
        return word.value

    @contextmanager
    def pushed(self, context: int) -> Iterator[None]:
        """Make a context current."""
        self._call("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            self._call("cuCtxPopCurrent_v2", ctypes.byref(_WORD()))

    def unreached(self, operands: Iterable[Operand], trusted: int, ordinal: int, context: int) -> int | None:
        """Return the address of the first array that kernels of the current context may not access; None without one.

        They may where it was allocated in this context, which is asked first, since one answer takes half the time of
        all. Else they may where it lies on the context's GPU, or on none alone. The driver gives a device pointer for
        memory of another context of the same GPU, too, so that the context of memory on a GPU has to be this one, or
        none, as that of a pool's memory.

        Args:
            operands: The arrays.
            trusted: GPU on which those that say that they lie there may be accessed; nothing is asked of them.
            ordinal: Number of the current context's GPU.
            context: The current context.
        """
        word, at = self._answers.number
        ask = self._pointer_attribute
        for pointer, _, _, gpu in operands:
            if gpu == trusted or (ask(at, _CONTEXT, pointer) == 0 and word.value == context):
                continue
            found = self._asked_of(pointer)
            here = found[4] == ordinal and found[0] in (0, context)
            if not found[2] or not (here or found[3] or found[1] != _ON_DEVICE):
                return pointer
        return None

    def facts(self, pointer: int) -> PointerFacts:
        """Return what is known of an address; of one that is unknown, everything is 0."""
        context, kind, reached, managed, ordinal = self._asked_of(pointer)
        return PointerFacts(kind != 0, kind == _ON_DEVICE and not managed, ordinal, context, reached != 0)

    def _asked_of(self, pointer: int) -> memoryview:
        """Return the attributes of an address, in the order of `_ATTRIBUTES`."""
        found, places = self._answers.facts
        status = self._pointer_attributes(5, _ATTRIBUTES_AT, places, pointer)
        if status:
            raise self.error("cuPointerGetAttributes", status)
        return found

    def module(self, image: bytes) -> int:
        """Load a cubin into the current context."""
        with self._uncaptured():
            return self._made("cuModuleLoadData", image)

    def function(self, module: int, entry: str) -> int:
        """Return a kernel of a module."""
        with self._uncaptured():
            return self._made("cuModuleGetFunction", module, entry.encode())

    def allow_shared(self, function: int, count: int) -> None:
        """Let a kernel have so many bytes of dynamic shared memory. Above 48 KiB, with the static part, it must ask."""
        self._call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, count)

    def resident_blocks(self, function: int, block: tuple[int, int, int], shared: int, ordinal: int) -> int:
        """Return how many blocks of a kernel a GPU holds at once; of one with clusters, whole clusters of blocks.

        Args:
            function: The kernel, which may have the shared memory.
            block: Threads of a block.
            shared: Bytes of dynamic shared memory of a block.
            ordinal: Number of the GPU.
        """
        cluster = [self._number("cuFuncGetAttribute", attribute, function) for attribute in _CLUSTER]
        if math.prod(cluster):
            grid, threads = (ctypes.c_uint * 3)(*cluster), (ctypes.c_uint * 3)(*block)
            configuration = LaunchConfig(grid, threads, shared, None, None, 0)
            clusters = self._number("cuOccupancyMaxActiveClusters", function, ctypes.addressof(configuration))
            return math.prod(cluster) * clusters
        multiprocessors = self._number("cuDeviceGetAttribute", _MULTIPROCESSORS, ordinal)
        occupancy = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        return multiprocessors * self._number(occupancy, function, math.prod(block), shared)

    def encode(self, one: TensorMap, address: int) -> EncodedMap:
        """Return a tensor map of a matrix at an address."""
        made = EncodedMap()
        status = made.encode(self._api["cuTensorMapEncodeTiled"], one, address)
        if status:
            raise self.error("cuTensorMapEncodeTiled", status)
        return made

    def allocate(self, count: int) -> int:
        """Return the address of so many bytes in the current context."""
        with self._uncaptured():
            return self._made("cuMemAlloc_v2", count)

    def clear(self, pointer: int, count: int, stream: int) -> None:
        """Queue the setting of bytes to zero."""
        self._call("cuMemsetD8Async", pointer, 0, count, stream)

    def capturing(self, stream: int) -> bool:
        """Return whether what is queued on a stream becomes part of a graph."""
        return bool(self._asked("cuStreamIsCapturing", stream) % _HALF)

    def event(self) -> int:
        """Make an event of the current context, without a time."""
        return self._made("cuEventCreate", _NO_TIMING)

    def wait(self, stream: int, event: int, other: int) -> None:
        """Let a stream wait for what was queued on another one until now."""
        self._call("cuEventRecord", event, other)
        self._call("cuStreamWaitEvent", stream, event, 0)

    def error(self, function: str, status: int) -> DriverError:
        """Describe the status that a function returned."""
        return DriverError(function, status, self._text(status))

    @contextmanager
    def _uncaptured(self) -> Iterator[None]:
        """Let this thread allocate and load while others capture; these would fail otherwise."""
        mode = ctypes.c_int(_RELAXED)
        self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            yield
        finally:
            self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))

    def _made(self, function: str, *arguments: object) -> int:
        """Call a function that writes a handle to its first argument."""
        word = _WORD()
        self._call(function, ctypes.byref(word), *arguments)
        return word.value

    def _asked(self, function: str, subject: int) -> int:
        """Call a function that writes an answer to its second argument."""
        word = _WORD()
        self._call(function, subject, ctypes.byref(word))
        return word.value

    def _number(self, function: str, *arguments: object) -> int:
        """Call a function that writes a number of 4 bytes to its first argument."""
        number = ctypes.c_int()
        self._call(function, ctypes.byref(number), *arguments)
        return number.value

    def _call(self, function: str, *arguments: object) -> None:
        status = self._api[function](*arguments)
        if status:
            raise self.error(function, status)

    def _text(self, status: int) -> str:
        text = ctypes.c_char_p()
        self._api["cuGetErrorString"](status, ctypes.byref(text))
        return (text.value or b"unknown error").decode()


FORKS = [0]
"""How often this process, or one that it was forked from, was forked: contexts do not survive that."""


def _count_fork() -> None:
    FORKS[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


@lru_cache(maxsize=1)
def cuda_driver() -> CudaDriver:
    """Return the machine's driver.

    Raises:
        MissingToolError: There is none, it is too old, or it finds no GPU.
    """
    loader: Any = ctypes.CDLL  # releases the interpreter's lock: a launch waits where the GPU's queue is full
    name = "libcuda.so.1"
    if sys.platform == "win32":
        loader, name = ctypes.WinDLL, "nvcuda.dll"
    try:
        library = loader(name)
    except OSError as error:
        raise MissingToolError(f"gemm needs an NVIDIA GPU and its driver: {error}") from error
    return CudaDriver(library)
