"""Describe this machine's GPUs through the driver API and NVML, without creating a context."""

from __future__ import annotations

import importlib.util
import uuid
from typing import Any, Final

from lab.base.errors import UserError
from lab.gpu.device.card import CardSensors
from lab.gpu.device.driver_bindings import call, driver_api
from lab.measured.timing import GpuDescription

DEFAULT_ARCH: Final = "sm_90"
"""Target architecture if neither the user nor this machine determines one."""

INSTALL: Final = "pip install pycuda nvidia-ml-py"
"""Command that installs the packages for measuring."""


def probe() -> GpuDescription | str:
    """Look for a GPU to measure on. Takes well under a second and creates no context.

    Returns:
        The GPU, or one sentence that says why none can be used.
    """
    try:
        description = describe_device(0)
    except (RuntimeError, ImportError, OSError) as error:
        return f"Nothing was measured: {_first_line(error)}."
    if importlib.util.find_spec("pycuda") is None:
        return (
            f"Nothing was measured: this machine has the GPU {description.name}, but PyCUDA is not installed; "
            f"`{INSTALL}` installs it."
        )
    return description


def resolve(arch: str, gpu: GpuDescription | None, *, key: str, write: str) -> str:
    """Resolve an architecture name: `native` is the GPU's, as is `auto` if there is a GPU.

    Args:
        arch: The name from a file or the command line.
        gpu: The GPU of this machine.
        key: Its key in the file.
        write: What to write there if there is no GPU.

    Raises:
        UserError: The name is `native`, and there is no GPU.
    """
    if arch == "auto":
        return gpu.arch if gpu else DEFAULT_ARCH
    if arch != "native":
        return arch
    if gpu is None:
        raise UserError(
            "the architecture is `native`, but this machine has no GPU",
            code="unsupported",
            key=key,
            accepted="an architecture such as sm_90",
            suggestion=f"write {write}, or pass --arch sm_90",
        )
    return gpu.arch


def describe_device(ordinal: int) -> GpuDescription:
    """Describe a CUDA device.

    Raises:
        RuntimeError: There is no driver or no such device.
    """
    driver = driver_api()
    device = call(driver.cuDeviceGet, ordinal)
    kinds = driver.CUdevice_attribute

    def attribute(name: str) -> int:
        return int(call(driver.cuDeviceGetAttribute, getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{name}"), device))

    name: bytes = call(driver.cuDeviceGetName, 128, device)
    major, minor = attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")
    card = CardSensors(pci_bus_id(ordinal))
    return GpuDescription(
        name=name.split(b"\0")[0].decode(),
        arch=f"sm_{major}{minor}",
        sms=attribute("MULTIPROCESSOR_COUNT"),
        sm_clock_mhz=card.max_sm_clock() or attribute("CLOCK_RATE") // 1000,  # the driver counts in kHz
        memory_bytes=int(call(driver.cuDeviceTotalMem, device)),
        l2_bytes=attribute("L2_CACHE_SIZE"),
        driver=card.driver_version(),
        cuda=cuda_version(int(call(driver.cuDriverGetVersion))),
    )


def device_count() -> int:
    """Return the number of CUDA devices that this process sees.

    Raises:
        RuntimeError: There is no driver.
    """
    return int(call(driver_api().cuDeviceGetCount))


def device_id(ordinal: int) -> str:
    """Return a device's UUID as nvidia-smi and CUDA_VISIBLE_DEVICES write it: ``GPU-3f0c2a…``."""
    driver = driver_api()
    return id_in_words(call(driver.cuDeviceGetUuid, call(driver.cuDeviceGet, ordinal)))


def id_in_words(device_uuid: Any) -> str:  # noqa: ANN401 - the bindings' CUuuid, which has no type of ours
    """Format a device's UUID: ``GPU-3f0c2a…``."""
    return f"GPU-{uuid.UUID(bytes=bytes(device_uuid.bytes))}"


def pci_bus_id(ordinal: int) -> str:
    """Return a CUDA device's PCI address, by which NVML finds the card whatever CUDA_VISIBLE_DEVICES is."""
    driver = driver_api()
    raw: bytes = call(driver.cuDeviceGetPCIBusId, 32, call(driver.cuDeviceGet, ordinal))
    return raw.split(b"\0")[0].decode()


def cuda_version(number: int) -> str:
    """Format a driver API version: ``13020`` is ``13.2``."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
