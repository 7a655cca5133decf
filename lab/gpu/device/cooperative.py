"""Cooperative launches, which PyCUDA lacks: modules and functions through NVIDIA's own bindings.

They offer what `lab.gpu.device.launching` uses of PyCUDA's modules and functions, in the context that is current.
"""

from __future__ import annotations

import ctypes
import struct
import weakref
from types import ModuleType
from typing import Any

from lab.gpu.device.backend import DeviceError
from lab.gpu.device.driver import call, driver_api
from lab.toolchain.cubin.image import parameter_offsets


class BoundModule:
    """A loaded cubin, unloaded once nobody holds it."""

    def __init__(self, cubin: bytes) -> None:
        """Load a cubin into the current context.

        Raises:
            DeviceError: The driver refuses it.
        """
        self._driver, self._cubin = driver_api(), cubin
        self._module = _ask(self._driver.cuModuleLoadData, cubin)
        weakref.finalize(self, self._driver.cuModuleUnload, self._module).atexit = False

    def get_global(self, name: str) -> tuple[int, int]:
        """Return a variable's device address and its size in bytes.

        Raises:
            DeviceError: There is no such variable.
        """
        status, address, size = self._driver.cuModuleGetGlobal(self._module, name.encode())
        if int(status) != 0:
            raise DeviceError(f"cuModuleGetGlobal returns {status.name}")
        return int(address), int(size)

    def get_function(self, name: str) -> BoundFunction:
        """Return a kernel.

        Raises:
            DeviceError: There is no such kernel.
        """
        function = _ask(self._driver.cuModuleGetFunction, self._module, name.encode())
        return BoundFunction(self._driver, function, parameter_offsets(self._cubin, name))


class BoundFunction:
    """A kernel of a `BoundModule`."""

    def __init__(self, driver: ModuleType, function: object, offsets: tuple[int, ...]) -> None:
        """Wrap a function of the driver's.

        Args:
            driver: The bindings.
            function: The driver's handle.
            offsets: Byte offset of every parameter.
        """
        self._driver, self._function, self._offsets = driver, function, offsets
        self._codes, self._cooperative = "", False

    def get_attribute(self, attribute: int) -> int:
        """Return an attribute, by its number in the driver API."""
        return int(_ask(self._driver.cuFuncGetAttribute, self._attribute(attribute), self._function))

    def set_attribute(self, attribute: int, value: int) -> None:
        """Set an attribute, by its number in the driver API."""
        _ask(self._driver.cuFuncSetAttribute, self._function, self._attribute(attribute), value)

    def resident_blocks(self, threads: int, dynamic_shared_bytes: int) -> int:
        """Return how many blocks the GPU holds at once.

        Args:
            threads: Threads of a block.
            dynamic_shared_bytes: Dynamic shared memory of a block.
        """
        driver = self._driver
        occupancy = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
        count = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
        multiprocessors = _ask(driver.cuDeviceGetAttribute, count, _ask(driver.cuCtxGetDevice))
        return int(_ask(occupancy, self._function, threads, dynamic_shared_bytes)) * int(multiprocessors)

    def prepare(self, codes: str) -> None:
        """Take the format of the arguments, in the notation of `struct`."""
        self._codes = codes

    def prepare_cooperative(self, codes: str) -> None:
        """Take the format of the arguments; launches are cooperative from now on."""
        self._codes, self._cooperative = codes, True

    def prepared_async_call(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        stream: Any,  # noqa: ANN401 - a stream of PyCUDA's, which has no types
        *values: float,
        shared_size: int = 0,
    ) -> None:
        """Queue a launch; see PyCUDA's function of this name."""
        packed = struct.pack(self._codes, *values)
        held = ctypes.create_string_buffer(packed, max(1, len(packed)))
        at = ctypes.addressof(held)
        addresses = (ctypes.c_void_p * max(1, len(self._offsets)))(*(at + offset for offset in self._offsets))
        given = (self._function, *grid, *block, shared_size, int(stream.handle), ctypes.addressof(addresses))
        if self._cooperative:
            _ask(self._driver.cuLaunchCooperativeKernel, *given)
        else:
            _ask(self._driver.cuLaunchKernel, *given, 0)

    def _attribute(self, number: int) -> Any:  # noqa: ANN401 - an enumeration of the bindings
        return self._driver.CUfunction_attribute(int(number))


def _ask(function: Any, *arguments: object) -> Any:  # noqa: ANN401 - as many types as functions
    try:
        return call(function, *arguments)
    except RuntimeError as error:
        raise DeviceError(str(error)) from error
