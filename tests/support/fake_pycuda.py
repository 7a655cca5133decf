"""PyCUDA played on the host: device memory is host memory, and kernels are Python functions, by name.

Time is counted, not taken: memsets and launches say how long they last on the device's own clock.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace

import numpy as np

LIMITS = {f"MAX_GRID_DIM_{axis}": 65535 for axis in "XYZ"} | {f"MAX_BLOCK_DIM_{axis}": 1024 for axis in "XYZ"}
LIMITS["MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"] = 232448


class Error(Exception):
    pass


class OutOfMemoryError(Error):
    pass


class Allocation:
    """Device memory, filled with 0xCD; aligned as CUDA aligns it."""

    def __init__(self, driver: FakeDriver, size: int) -> None:
        if driver.used + size > driver.capacity:
            raise OutOfMemoryError("cuMemAlloc failed: out of memory")
        self._driver, self._size = driver, size
        self._memory = np.full(size + 256, 0xCD, np.uint8)
        self._address = -(-self._memory.ctypes.data // 256) * 256
        driver.used += size

    def __int__(self) -> int:
        return self._address

    def __index__(self) -> int:
        return self._address

    def __del__(self) -> None:
        if hasattr(self, "_memory"):
            self._driver.used -= self._size


class Stream:
    handle = 7

    def synchronize(self) -> None:
        pass


class Event:
    """A mark on the device's clock. It has passed when somebody waited for it, or when `driver.eager` is set."""

    def __init__(self, driver: FakeDriver) -> None:
        self._driver, self.ms, self._passed = driver, 0.0, False

    def record(self, stream: Stream) -> None:
        self.ms, self._passed = self._driver.ms, False

    def query(self) -> bool:
        return self._passed or self._driver.eager

    def synchronize(self) -> None:
        self._passed = True

    def time_since(self, other: Event) -> float:
        return self.ms - other.ms


class Function:
    """A kernel: the function of that name in `driver.kernels`, called with the grid and the arguments."""

    def __init__(self, driver: FakeDriver, name: str) -> None:
        self._driver, self.name = driver, name
        self.attributes = {"MAX_THREADS_PER_BLOCK": 1024, "NUM_REGS": 32, "SHARED_SIZE_BYTES": 0}
        self.attributes |= driver.attributes.get(name, {})

    def get_attribute(self, name: str) -> int:
        return self.attributes[name]

    def set_attribute(self, name: str, value: int) -> None:
        self.attributes[name] = value
        self._driver.asked.append((self.name, name, value))

    def prepare(self, codes: str) -> None:
        self.codes = codes

    def prepared_async_call(self, grid, block, stream, *values, shared_size=0) -> None:
        self._driver.launched.append((self.name, grid, block, shared_size, self.codes, values))
        self._run(grid, values)

    def __call__(self, *arguments, block, grid, stream=None) -> None:
        values = tuple(
            a if isinstance(a, int | float) else a.item() if hasattr(a, "item") else int(a) for a in arguments
        )
        self._driver.launched.append((self.name, grid, block, 0, "", values))
        self._run(grid, values)

    def _run(self, grid, values) -> None:
        self._driver.ms += self._driver.kernel_ms
        self._driver.kernels[self.name](grid, *values)


class FunctionAttribute(SimpleNamespace):
    """PyCUDA's enumeration, which also makes its values of the driver's numbers."""

    def __call__(self, number: int) -> int:
        return number


class FakeDriver(ModuleType):
    """`pycuda.driver`.

    Attributes:
        kernels: Kernels by name.
        attributes: What a kernel's attributes are, where they are not the usual ones.
        launched: What was launched: name, grid, block, dynamic shared memory, format, arguments.
        loaded: Images that were loaded.
        calls: What became of the context.
        used, capacity: Bytes of device memory.
        ms, kernel_ms, memset_ms: The device's clock, and what a launch and a large memset take.
        eager: Events have passed as soon as they are recorded: the device is faster than the host.
    """

    Error, MemoryError = Error, OutOfMemoryError

    def __init__(self) -> None:
        super().__init__("pycuda.driver")
        self.kernels: dict[str, Callable[..., None]] = {}
        self.globals: dict[str, tuple[Allocation, int]] = {}
        self.attributes: dict[str, dict[str, int]] = {}
        self.asked: list[tuple[str, str, int]] = []
        self.launched: list[tuple] = []
        self.loaded: list[bytes] = []
        self.calls: list[str] = []
        self.used, self.capacity = 0, 1 << 30
        self.ms, self.kernel_ms, self.memset_ms, self.eager = 0.0, 1.0, 0.5, False
        self.device_attribute = SimpleNamespace(**{name: name for name in LIMITS})
        names = (
            "MAX_THREADS_PER_BLOCK", "NUM_REGS", "SHARED_SIZE_BYTES", "MAX_DYNAMIC_SHARED_SIZE_BYTES",
            "PREFERRED_SHARED_MEMORY_CARVEOUT",
        )  # fmt: skip
        self.function_attribute = FunctionAttribute(**{name: name for name in names})
        self.Context = SimpleNamespace(synchronize=lambda: None)
        self.Stream = Stream

    def init(self) -> None:
        self.calls.append("init")

    def Device(self, ordinal: int) -> SimpleNamespace:  # noqa: N802 - PyCUDA's name
        context = SimpleNamespace(push=lambda: self.calls.append("push"), pop=lambda: self.calls.append("pop"))
        return SimpleNamespace(get_attribute=LIMITS.__getitem__, retain_primary_context=lambda: context)

    def Event(self) -> Event:  # noqa: N802 - PyCUDA's name
        return Event(self)

    def mem_alloc(self, size: int) -> Allocation:
        return Allocation(self, size)

    def mem_get_info(self) -> tuple[int, int]:
        return self.capacity - self.used, self.capacity

    def to_device(self, array: np.ndarray) -> Allocation:
        allocation = Allocation(self, array.nbytes)
        self.memcpy_htod(allocation, array)
        return allocation

    def memcpy_htod(self, to, array: np.ndarray) -> None:
        ctypes.memmove(int(to), array.ctypes.data, array.nbytes)

    def memcpy_dtoh(self, array: np.ndarray, at) -> None:
        ctypes.memmove(array.ctypes.data, int(at), array.nbytes)

    def memcpy_dtod_async(self, to, at, size: int, stream: Stream) -> None:
        ctypes.memmove(int(to), int(at), size)

    def memset_d8(self, at, value: int, count: int) -> None:
        ctypes.memset(int(at), value, count)

    def memset_d8_async(self, at, value: int, count: int, stream: Stream) -> None:
        ctypes.memset(int(at), value, count)

    def memset_d32_async(self, at, value: int, count: int, stream: Stream) -> None:
        view(at, np.uint32, count)[:] = value
        self.ms += self.memset_ms

    def module_from_buffer(self, cubin: bytes) -> SimpleNamespace:
        self.loaded.append(cubin)
        return SimpleNamespace(get_function=self._function, get_global=self._global)

    def _global(self, name: str) -> tuple[Allocation, int]:
        if name not in self.globals:
            raise Error("cuModuleGetGlobal failed: named symbol not found")
        return self.globals[name]

    def _function(self, name: str) -> Function:
        if name not in self.kernels:
            raise Error("cuModuleGetFunction failed: named symbol not found")
        return Function(self, name)


def view(at, dtype, count: int) -> np.ndarray:
    """Device memory as an array of shape (count,)."""
    size = np.dtype(dtype).itemsize * count
    return np.frombuffer((ctypes.c_uint8 * size).from_address(int(at)), dtype)


@contextlib.contextmanager
def installed() -> Iterator[FakeDriver]:
    """Play PyCUDA; modules of `lab.gpu` that import it are imported anew, and again afterwards."""
    driver = FakeDriver()
    package = ModuleType("pycuda")
    package.driver = driver  # type: ignore[attr-defined] # a module's attribute
    names = ("pycuda", "pycuda.driver")
    saved_modules: dict[str, ModuleType] = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    _forget()
    sys.modules["pycuda"], sys.modules["pycuda.driver"] = package, driver
    try:
        yield driver
    finally:
        _forget()
        del sys.modules["pycuda"], sys.modules["pycuda.driver"]
        sys.modules.update(saved_modules)


def _forget() -> None:
    for name in [name for name, module in sys.modules.items() if name.startswith("lab.gpu.") and _uses_cuda(module)]:
        parent, _, own = name.rpartition(".")
        del sys.modules[name]
        if hasattr(sys.modules.get(parent), own):
            delattr(sys.modules[parent], own)


def _uses_cuda(module: ModuleType) -> bool:
    return getattr(vars(module).get("cuda"), "__name__", "") == "pycuda.driver"
