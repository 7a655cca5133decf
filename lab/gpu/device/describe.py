"""What GPU is here: read through the driver API and NVML, without creating a context.

NVML is asked through nvidia-ml-py; where it is absent, or refuses a question, the figure is None.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from lab.base.errors import UserError
from lab.gpu.device.driver import call, driver_api
from lab.measured.timing import CardState, GpuDescription

INSTALL = "pip install pycuda nvidia-ml-py"

THROTTLE_REASONS = {
    0x2: "ApplicationsClocksSetting",
    0x4: "SwPowerCap",
    0x8: "HwSlowdown",
    0x10: "SyncBoost",
    0x20: "SwThermalSlowdown",
    0x40: "HwThermalSlowdown",
    0x80: "HwPowerBrakeSlowdown",
    0x100: "DisplayClockSetting",
}
"""Bits of nvmlDeviceGetCurrentClocksEventReasons (nvml.h, nvmlClocksEventReason*); idle, 0x1, is left out."""


def throttle_reasons(bits: int) -> tuple[str, ...]:
    """Names of the reasons set in NVML's bit mask; unknown bits in hexadecimal."""
    known = [name for bit, name in THROTTLE_REASONS.items() if bits & bit]
    rest = bits & ~(0x1 | sum(THROTTLE_REASONS))
    return (*known, hex(rest)) if rest else tuple(known)


def cuda_version(number: int) -> str:
    """``13020`` as the driver API counts, in words: ``13.2``."""
    return f"{number // 1000}.{number % 1000 // 10}"


def probe() -> GpuDescription | str:
    """Whether kernels can be measured here.

    Returns:
        The GPU, or one sentence saying why there is none to use. Takes well under a second; creates no context.
    """
    try:
        description = describe_device(0)
    except (RuntimeError, ImportError, OSError) as error:
        return f"Nothing was measured: {_first_line(error)}."
    if importlib.util.find_spec("pycuda") is None:
        return (
            f"Nothing was measured: {description.name} is here, but PyCUDA is not installed; `{INSTALL}` installs it."
        )
    return description


def find(*, measure: bool) -> tuple[GpuDescription | None, str]:
    """The GPU to measure on, or None and a sentence saying why there is none; without `measure` none is looked for."""
    if not measure:
        return None, "Nothing was measured: --no-gpu was given."
    found = probe()
    return (None, found) if isinstance(found, str) else (found, "")


def resolve(arch: str, gpu: GpuDescription | None, *, key: str, write: str) -> str:
    """An architecture by its name: `native` is the GPU's.

    Args:
        arch: As a file or the command line says.
        gpu: The GPU that is here.
        key: Where a file says it.
        write: What to write there, in which file, without a GPU.

    Raises:
        UserError: it is `native`, and there is no GPU.
    """
    if arch != "native":
        return arch
    if gpu is None:
        raise UserError(
            "the architecture is `native`, and there is no GPU here to ask",
            key=key,
            accepted="an architecture such as sm_90",
            suggestion=f"write {write}, or pass --arch sm_90",
        )
    return gpu.arch


def describe_device(ordinal: int) -> GpuDescription:
    """Describe a CUDA device.

    Raises:
        RuntimeError: there is no driver or no such device.
    """
    driver = driver_api()
    device = call(driver.cuDeviceGet, ordinal)
    kinds = driver.CUdevice_attribute

    def attribute(name: str) -> int:
        return int(call(driver.cuDeviceGetAttribute, getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{name}"), device))

    name: bytes = call(driver.cuDeviceGetName, 128, device)
    major, minor = attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")
    card = Card(pci_bus_id(ordinal))
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


def pci_bus_id(ordinal: int) -> str:
    """PCI address of a CUDA device, by which NVML knows the same card whatever CUDA_VISIBLE_DEVICES says."""
    driver = driver_api()
    raw: bytes = call(driver.cuDeviceGetPCIBusId, 32, call(driver.cuDeviceGet, ordinal))
    return raw.split(b"\0")[0].decode()


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(".")


class Card:
    """One card as NVML sees it. Reads only; never changes a setting."""

    def __init__(self, bus_id: str) -> None:
        """Find the card.

        Args:
            bus_id: PCI address, ``0000:1b:00.0``.
        """
        self._nvml: Any = None
        self._handle: Any = None
        try:
            nvml = importlib.import_module("pynvml")
            nvml.nvmlInit()
            self._nvml = nvml
            self._handle = nvml.nvmlDeviceGetHandleByPciBusId(bus_id.encode())
        except Exception:  # noqa: BLE001 - NVML is a courtesy: any failure of it means that figures are absent
            self._handle = None

    def sm_clock(self) -> int | None:
        """SM clock now, MHz."""
        return self._ask("nvmlDeviceGetClockInfo", self._constant("NVML_CLOCK_SM"))

    def max_sm_clock(self) -> int | None:
        """Highest SM clock, MHz."""
        return self._ask("nvmlDeviceGetMaxClockInfo", self._constant("NVML_CLOCK_SM"))

    def driver_version(self) -> str:
        """Driver version; empty where nothing says it."""
        if self._nvml is not None:
            try:
                return str(self._nvml.nvmlSystemGetDriverVersion())
            except self._nvml.NVMLError:
                pass
        version = Path("/sys/module/nvidia/version")
        return version.read_text().strip() if version.is_file() else ""

    def state(self) -> CardState:
        """Everything a record carries."""
        power = self._ask("nvmlDeviceGetPowerUsage")
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:  # drivers before 535 know it by its old name
            reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        return CardState(
            sm_clock_mhz=self.sm_clock(),
            memory_clock_mhz=self._ask("nvmlDeviceGetClockInfo", self._constant("NVML_CLOCK_MEM")),
            power_w=None if power is None else power / 1e3,
            temperature_c=self._ask("nvmlDeviceGetTemperature", self._constant("NVML_TEMPERATURE_GPU")),
            throttle_reasons=throttle_reasons(reasons or 0),
        )

    def _constant(self, name: str) -> int:
        return int(getattr(self._nvml, name, 0))

    def _ask(self, question: str, *arguments: int) -> int | None:
        if self._handle is None or not hasattr(self._nvml, question):
            return None
        try:
            return int(getattr(self._nvml, question)(self._handle, *arguments))
        except self._nvml.NVMLError:
            return None
