"""The CUDA driver as `lab.library.driver` calls it, without a GPU: it writes down what is queued."""
# ruff: noqa: N802 - functions have the names of the driver's

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass

from lab.library.driver import LaunchConfig

PRIMARY = 0x1000
"""Handle of GPU 0's primary context; that of GPU 1 is one higher."""

SCRATCH = 1 << 30
"""Address of the first allocation; each starts so much behind the one before."""

NOT_PERMITTED = 900

SIGNATURES = {
    "part": "iiifPiPifPi",
    "strided": "iiifPiPifPiiiii",
    "reduce": "PPl",
    "combine": "IIIPfPPfP",
    "mapped": "iMMP",
}
"""Arguments of the kernels of `library_support` and of `lab.library.combine`; M for a tensor map."""


@dataclass
class Memory:
    """The owner of an address: GPU, context and reachability."""

    gpu: int = 0
    context: int = PRIMARY
    reachable: bool = True


class Entry:
    """A function of the library, with the attribute that ctypes' functions have."""

    argtypes: tuple[object, ...] = ()

    def __init__(self, function: Callable[..., int]) -> None:
        self._function = function

    def __call__(self, *arguments: object) -> int:
        return self._function(*arguments) or 0


class _Current(threading.local):
    def __init__(self) -> None:
        self.stack: list[int] = []


class FakeCuda:
    """`log` holds what would reach the GPU; a call of a function that the class lacks is an AttributeError."""

    def __init__(self) -> None:
        self.log: list[tuple[object, ...]] = []
        self.loaded: list[tuple[int, bytes]] = []
        self.current = _Current()
        self.current.stack = [PRIMARY]
        self.identities: dict[int, int] = {}
        self.captured: set[int] = set()
        self.memory: dict[int, Memory | None] = {}
        self.memory_default: Memory | None = Memory()
        self.fails: dict[str, int] = {}
        self.called: list[str] = []
        self.room = 1 << 40
        self.cluster, self.clusters = 0, 0
        self._names: list[str] = []
        self._allocations = 0

    def __getattr__(self, name: str) -> Entry:
        if not name.startswith("cu") or not hasattr(type(self), f"do_{name}"):
            raise AttributeError(name)

        def called(*arguments: object) -> int:
            self.called.append(name)
            return self.fails.get(name) or getattr(self, f"do_{name}")(*arguments)

        return Entry(called)

    @property
    def stack(self) -> list[int]:
        """This thread's contexts."""
        return self.current.stack

    def do_cuInit(self, flags):
        return 0

    def do_cuGetErrorString(self, status, out):
        out._obj.value = f"error {status}".encode()

    def do_cuCtxGetId(self, context, at):
        if not self.stack:
            return 201
        put(at, self.identities.setdefault(self.stack[-1], len(self.identities) + 1))
        return 0

    def do_cuCtxGetCurrent(self, out):
        put(out, self.stack[-1] if self.stack else 0)

    def do_cuCtxGetDevice(self, out):
        out._obj.value = self.stack[-1] % 16

    def do_cuCtxPushCurrent_v2(self, context):
        self.stack.append(context)

    def do_cuCtxPopCurrent_v2(self, out):
        put(out, self.stack.pop())

    def do_cuDevicePrimaryCtxGetState(self, ordinal, flags, active):
        active._obj.value = 1

    def do_cuDevicePrimaryCtxRetain(self, out, ordinal):
        put(out, PRIMARY + ordinal)

    def do_cuDevicePrimaryCtxRelease_v2(self, ordinal):
        return 0

    def do_cuPointerGetAttribute(self, at, attribute, pointer):
        assert attribute == 1
        found = self.memory.get(pointer, self.memory_default)
        if found is None:
            return 1
        put(at, found.context)
        return 0

    def do_cuPointerGetAttributes(self, count, attributes, data, pointer):
        found = self.memory.get(pointer, self.memory_default)
        known = {} if found is None else {1: found.context, 2: 2, 3: pointer * found.reachable, 8: 0, 9: found.gpu}
        kinds = (ctypes.c_int * count).from_address(attributes)
        places = (ctypes.c_uint64 * count).from_address(data)
        for kind, place in zip(kinds, places, strict=True):
            put(place, known.get(kind, 0))

    def do_cuModuleLoadData(self, out, image):
        self.loaded.append((self.stack[-1], image))
        put(out, self._handle(image.decode()))

    def do_cuModuleGetFunction(self, out, module, entry):
        put(out, self._handle(entry.decode()))

    def do_cuFuncSetAttribute(self, function, attribute, value):
        assert attribute == 8
        self.log.append(("shared", value))

    def do_cuMemAlloc_v2(self, out, count):
        if count > self.room:
            return 2
        self._allocations += 1
        put(out, SCRATCH * self._allocations)
        self.log.append(("alloc", count))
        return 0

    def do_cuMemsetD8Async(self, pointer, value, count, stream):
        self.log.append(("memset", pointer, value, count, stream))

    def do_cuStreamGetId(self, stream, at):
        if stream in self.captured:
            return NOT_PERMITTED
        put(at, stream + 100)
        return 0

    def do_cuStreamIsCapturing(self, stream, out):
        put(out, int(stream in self.captured), ctypes.c_int)

    def do_cuThreadExchangeStreamCaptureMode(self, mode):
        return 0

    def do_cuEventCreate(self, out, flags):
        assert flags == 2
        put(out, 0xE)

    def do_cuEventRecord(self, event, stream):
        self.log.append(("record", stream))

    def do_cuStreamWaitEvent(self, stream, event, flags):
        self.log.append(("wait", stream))

    def do_cuLaunchKernelEx(self, configuration, function, arguments, extra):
        assert self.stack  # a launch needs a context
        config = LaunchConfig.from_address(configuration)
        entry = self._names[function - 1]
        codes = SIGNATURES[entry]
        places = (ctypes.c_uint64 * len(codes)).from_address(arguments)
        values = tuple(
            tuple((ctypes.c_uint64 * 8).from_address(place))
            if code == "M"
            else struct.unpack(f"@{code}", ctypes.string_at(place, struct.calcsize(code)))[0]
            for code, place in zip(codes, places, strict=True)
        )
        geometry = tuple(config.grid), tuple(config.block), config.shared_bytes
        self.log.append((entry, *geometry, config.stream or 0, values))

    def do_cuDeviceGetAttribute(self, out, attribute, ordinal):
        assert attribute == 16
        out._obj.value = 132

    def do_cuOccupancyMaxActiveBlocksPerMultiprocessor(self, out, function, threads, shared):
        self.log.append(("occupancy", self._names[function - 1], threads, shared))
        out._obj.value = 2

    def do_cuFuncGetAttribute(self, out, attribute, function):
        assert attribute in (11, 12, 13)
        out._obj.value = 0 if not self.cluster else self.cluster if attribute == 11 else 1

    def do_cuOccupancyMaxActiveClusters(self, out, function, configuration):
        config = LaunchConfig.from_address(configuration)
        assert tuple(config.grid) == (self.cluster, 1, 1)
        out._obj.value = self.clusters

    def do_cuTensorMapEncodeTiled(self, room, dtype, rank, address, extents, strides, box, steps, *modes):
        assert room.value % 64 == 0
        self.log.append(("encode", address.value))
        words = (dtype.value, address.value, *extents, *strides, *box, modes[1].value)
        (ctypes.c_uint64 * len(words)).from_address(room.value)[:] = list(words)

    def _handle(self, name: str) -> int:
        self._names.append(name)
        return len(self._names)


def put(out, value, kind=ctypes.c_uint64):
    """Write what a function returns by a pointer, which is an address or a reference."""
    if isinstance(out, int):
        kind.from_address(out).value = value
    else:
        out._obj.value = value
