"""The CUDA driver functions that queue a library's kernels, called through ctypes.

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
"""Names exported by the driver. `cuCtxGetId` and `cuStreamGetId` are the newest: CUDA 12.0."""

_NOT_CURRENT = (3, 201)
"""CUDA_ERROR_NOT_INITIALIZED and CUDA_ERROR_INVALID_CONTEXT: `cuCtxGetId` returns them without a current context."""

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
"""Modulus that keeps the lower 4 bytes of an 8-byte word."""


class DriverError(LabError):
    """A function of the CUDA driver returned an error."""

    def __init__(self, function: str, status: int, text: str) -> None:
        """Store the status, a value of cuda.h's enumeration CUresult."""
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
    """The driver's attributes of an address.

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
    """Thread-local output buffers for driver calls."""

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
    """The initialised driver. Handles are integers. A failing call raises a `DriverError`."""

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
        """Return the unique ID of the current context; 0 without a current context."""
        word, at = self._answers.number
        status = self._context_id(None, at)
        if status:
            if status not in _NOT_CURRENT:
                raise self.error("cuCtxGetId", status)
            return 0
        return word.value

    def stream_id(self, stream: int) -> int | None:
        """Return the unique ID of a stream; None while it is captured.

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
        """Return the handle of the current context; 0 without a current context."""
        word = _WORD()
        self._call("cuCtxGetCurrent", ctypes.byref(word))
        return word.value

    def ordinal(self) -> int:
        """Return the number of the current context's GPU."""
        number = ctypes.c_int()
        self._call("cuCtxGetDevice", ctypes.byref(number))
        return number.value

    def is_primary(self, context: int, ordinal: int) -> bool:
        """Return whether a context is its GPU's primary context, which PyTorch, CuPy and the CUDA runtime use."""
        flags, active = ctypes.c_uint(), ctypes.c_int()
        self._call("cuDevicePrimaryCtxGetState", ordinal, ctypes.byref(flags), ctypes.byref(active))
        if not active.value:
            return False
        primary = self.primary(ordinal)
        self._call("cuDevicePrimaryCtxRelease_v2", ordinal)
        return primary == context

    def primary(self, ordinal: int) -> int:
        """Retain and return the primary context of a GPU, creating it if needed."""
        word = _WORD()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(word), ordinal)
        return word.value

    @contextmanager
    def pushed(self, context: int) -> Iterator[None]:
        """Make a context current within the `with` block."""
        self._call("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            self._call("cuCtxPopCurrent_v2", ctypes.byref(_WORD()))

    def unreached(self, operands: Iterable[Operand], trusted: int, ordinal: int, context: int) -> int | None:
        """Return the address of the first array that is inaccessible from the current context; None if there is none.

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
            attributes = self._asked_of(pointer)
            is_local = attributes[4] == ordinal and attributes[0] in (0, context)
            if not attributes[2] or not (is_local or attributes[3] or attributes[1] != _ON_DEVICE):
                return pointer
        return None

    def facts(self, pointer: int) -> PointerFacts:
        """Return the driver's attributes of an address; all are 0 for an unknown one."""
        context, kind, reached, managed, ordinal = self._asked_of(pointer)
        return PointerFacts(kind != 0, kind == _ON_DEVICE and not managed, ordinal, context, reached != 0)

    def _asked_of(self, pointer: int) -> memoryview:
        """Return the raw attributes of an address, in the order of `_ATTRIBUTES`."""
        attributes, places = self._answers.facts
        status = self._pointer_attributes(5, _ATTRIBUTES_AT, places, pointer)
        if status:
            raise self.error("cuPointerGetAttributes", status)
        return attributes

    def module(self, image: bytes) -> int:
        """Load a cubin into the current context."""
        with self._uncaptured():
            return self._made("cuModuleLoadData", image)

    def function(self, module: int, entry: str) -> int:
        """Return the function handle of a kernel in a module."""
        with self._uncaptured():
            return self._made("cuModuleGetFunction", module, entry.encode())

    def allow_shared(self, function: int, count: int) -> None:
        """Raise a kernel's limit of dynamic shared memory; needed above 48 KiB including the static part."""
        self._call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, count)

    def resident_blocks(self, function: int, block: tuple[int, int, int], shared: int, ordinal: int) -> int:
        """Return the number of blocks of a kernel resident on a GPU at once; with clusters, those of whole clusters.

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

    def encode(self, tensor_map: TensorMap, address: int) -> EncodedMap:
        """Encode the tensor map of a matrix at an address."""
        encoded = EncodedMap()
        status = encoded.encode(self._api["cuTensorMapEncodeTiled"], tensor_map, address)
        if status:
            raise self.error("cuTensorMapEncodeTiled", status)
        return encoded

    def allocate(self, count: int) -> int:
        """Allocate memory in the current context and return its address."""
        with self._uncaptured():
            return self._made("cuMemAlloc_v2", count)

    def clear(self, pointer: int, count: int, stream: int) -> None:
        """Queue a memset to zero."""
        self._call("cuMemsetD8Async", pointer, 0, count, stream)

    def capturing(self, stream: int) -> bool:
        """Return whether a stream is being captured into a graph."""
        return bool(self._asked("cuStreamIsCapturing", stream) % _HALF)

    def event(self) -> int:
        """Create an event without timing in the current context."""
        return self._made("cuEventCreate", _NO_TIMING)

    def wait(self, stream: int, event: int, awaited: int) -> None:
        """Make a stream wait for the work queued so far on another one."""
        self._call("cuEventRecord", event, awaited)
        self._call("cuStreamWaitEvent", stream, event, 0)

    def error(self, function: str, status: int) -> DriverError:
        """Return the error for a function's status."""
        return DriverError(function, status, self._text(status))

    @contextmanager
    def _uncaptured(self) -> Iterator[None]:
        """Allow this thread to allocate and load while other threads capture a graph."""
        mode = ctypes.c_int(_RELAXED)
        self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            yield
        finally:
            self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))

    def _made(self, function: str, *arguments: object) -> int:
        """Call a function that writes a handle to its first argument, and return the handle."""
        word = _WORD()
        self._call(function, ctypes.byref(word), *arguments)
        return word.value

    def _asked(self, function: str, subject: int) -> int:
        """Call a function that writes a value to its second argument, and return the value."""
        word = _WORD()
        self._call(function, subject, ctypes.byref(word))
        return word.value

    def _number(self, function: str, *arguments: object) -> int:
        """Call a function that writes a 4-byte integer to its first argument, and return it."""
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
"""Number of forks in this process's ancestry since import. Contexts do not survive a fork."""


def _count_fork() -> None:
    FORKS[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


@lru_cache(maxsize=1)
def cuda_driver() -> CudaDriver:
    """Load the CUDA driver once and return it.

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
