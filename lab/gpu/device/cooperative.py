"""Cooperative launches, which PyCUDA lacks, through NVIDIA's own bindings.

The classes implement the part of PyCUDA's interface that `lab.gpu.device.launching` uses, in the current context.
"""

from __future__ import annotations

import ctypes
import struct
import weakref
from types import ModuleType
from typing import Any

from lab.gpu.device.backend import DeviceError
from lab.gpu.device.driver_bindings import call, driver_api
from lab.toolchain.cubin.image import parameter_offsets


class BoundModule:
    """A loaded cubin, unloaded when the last reference to it is gone."""

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
        """Wrap a driver function handle.

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
        """Return the maximum number of resident blocks on the GPU.

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
        """Set the argument format, in the notation of `struct`."""
        self._codes = codes

    def prepare_cooperative(self, codes: str) -> None:
        """Set the argument format and make later launches cooperative."""
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
        buffer = ctypes.create_string_buffer(packed, max(1, len(packed)))
        base_address = ctypes.addressof(buffer)
        addresses = (ctypes.c_void_p * max(1, len(self._offsets)))(*(base_address + offset for offset in self._offsets))
        launch_arguments = (self._function, *grid, *block, shared_size, int(stream.handle), ctypes.addressof(addresses))
        if self._cooperative:
            _ask(self._driver.cuLaunchCooperativeKernel, *launch_arguments)
        else:
            _ask(self._driver.cuLaunchKernel, *launch_arguments, 0)

    def _attribute(self, number: int) -> Any:  # noqa: ANN401 - an enumeration of the bindings
        return self._driver.CUfunction_attribute(int(number))


def _ask(function: Any, *arguments: object) -> Any:  # noqa: ANN401 - as many types as functions
    try:
        return call(function, *arguments)
    except RuntimeError as error:
        raise DeviceError(str(error)) from error
