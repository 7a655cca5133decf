"""Cooperative launches through the bindings, on a driver that is played."""

from __future__ import annotations

import ctypes
import gc
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import pytest

from lab.gpu.device.backend import DeviceError
from lab.toolchain.own import build_own

SOURCE = 'extern "C" __global__ void k(char c, double *x, int n) { x[n] = c; }'


class Result(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_IMAGE = 200
    CUDA_ERROR_NOT_FOUND = 500


class Driver:
    """`cuda.bindings.driver`: 132 SMs, which hold as many blocks of 2048 threads as there are."""

    CUresult = Result
    CUdevice_attribute = SimpleNamespace(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT=16)
    CUfunction_attribute = staticmethod(lambda number: number)

    def __init__(self):
        self.log: list[Any] = []
        self.attributes = {4: 24}

    def cuModuleLoadData(self, image):  # noqa: N802 - the driver's names, here and below
        return (Result.CUDA_SUCCESS if image.startswith(b"\x7fELF") else Result.CUDA_ERROR_INVALID_IMAGE), "module"

    def cuModuleUnload(self, module):  # noqa: N802
        self.log.append("unload")
        return (Result.CUDA_SUCCESS,)

    def cuModuleGetFunction(self, module, name):  # noqa: N802
        return (Result.CUDA_SUCCESS if name == b"k" else Result.CUDA_ERROR_NOT_FOUND), "function"

    def cuModuleGetGlobal(self, module, name):  # noqa: N802
        return (Result.CUDA_SUCCESS, 4096, 16) if name == b"filter" else (Result.CUDA_ERROR_NOT_FOUND, 0, 0)

    def cuFuncGetAttribute(self, attribute, function):  # noqa: N802
        return Result.CUDA_SUCCESS, self.attributes[attribute]

    def cuFuncSetAttribute(self, function, attribute, value):  # noqa: N802
        self.attributes[attribute] = value
        return (Result.CUDA_SUCCESS,)

    def cuCtxGetDevice(self):  # noqa: N802
        return Result.CUDA_SUCCESS, "device"

    def cuDeviceGetAttribute(self, attribute, device):  # noqa: N802
        return Result.CUDA_SUCCESS, 132

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, function, threads, shared):  # noqa: N802
        return Result.CUDA_SUCCESS, 2048 // threads

    def cuLaunchKernel(self, *given):  # noqa: N802
        *launch, addresses, _extra = given
        return self._launched("plain", launch, addresses)

    def cuLaunchCooperativeKernel(self, *given):  # noqa: N802
        *launch, addresses = given
        return self._launched("cooperative", launch, addresses)

    def _launched(self, kind, launch, addresses):
        pointers = (ctypes.c_void_p * 3).from_address(addresses)
        types: Any = (ctypes.c_char, ctypes.c_uint64, ctypes.c_int)
        values = [kind_of.from_address(at).value for kind_of, at in zip(types, pointers, strict=True)]
        self.log.append((kind, *launch, values))
        return (Result.CUDA_SUCCESS,)


@pytest.fixture(scope="module")
def cubin():
    return build_own(SOURCE, "k.cu", "sm_90").cubin


@pytest.fixture
def driver(monkeypatch):
    played = Driver()
    monkeypatch.setattr("lab.gpu.device.cooperative.driver_api", lambda: played)
    return played


@pytest.fixture
def module(driver, cubin):
    from lab.gpu.device.cooperative import BoundModule  # noqa: PLC0415 - beside the driver that is played

    return BoundModule(cubin)


@pytest.mark.parametrize("kind", ["plain", "cooperative"])
def test_each_parameter_is_passed_by_its_address(module, driver, kind):
    function = module.get_function("k")
    (function.prepare_cooperative if kind == "cooperative" else function.prepare)("cPi")
    function.prepared_async_call((3, 2, 1), (64, 1, 1), SimpleNamespace(handle=7), b"a", 1 << 40, -5, shared_size=128)
    assert driver.log == [(kind, "function", 3, 2, 1, 64, 1, 1, 128, 7, [b"a", 1 << 40, -5])]


def test_blocks_at_once_are_those_of_all_multiprocessors(module):
    assert module.get_function("k").resident_blocks(256, 0) == 132 * 8


def test_attributes_are_the_drivers(module, driver):
    function = module.get_function("k")
    assert function.get_attribute(4) == 24
    function.set_attribute(8, 100_000)
    assert driver.attributes[8] == 100_000


def test_a_module_is_unloaded_once_nothing_holds_it(module, driver, cubin):
    from lab.gpu.device.cooperative import BoundModule  # noqa: PLC0415 - as above

    assert module.get_global("filter") == (4096, 16)
    own = BoundModule(cubin)
    assert driver.log == []
    del own
    gc.collect()
    assert driver.log == ["unload"]


def test_what_the_driver_refuses_is_an_error_of_the_device(module):
    from lab.gpu.device.cooperative import BoundModule  # noqa: PLC0415 - as above

    for refused in (lambda: BoundModule(b"nothing"), lambda: module.get_global("x")):
        with pytest.raises(DeviceError, match="CUDA_ERROR"):
            refused()
    with pytest.raises(DeviceError, match="cuModuleGetFunction returns CUDA_ERROR_NOT_FOUND"):
        module.get_function("other")
