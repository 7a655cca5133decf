"""Clocks, power and temperature of a card, read through NVML (nvidia-ml-py). Settings are never changed.

NVML is optional: if it is absent or a query fails, the result is None.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Final

from lab.measured.timing import CardState

THROTTLE_REASONS: Final = {
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

_IDLE: Final = 0x1
_DRIVER_VERSION: Final = Path("/sys/module/nvidia/version")


def throttle_reasons(bits: int) -> tuple[str, ...]:
    """Return the names of the reasons set in NVML's bit mask; unknown bits as one hexadecimal number."""
    names = [name for bit, name in THROTTLE_REASONS.items() if bits & bit]
    unknown = bits & ~(_IDLE | sum(THROTTLE_REASONS))
    return (*names, hex(unknown)) if unknown else tuple(names)


class CardSensors:
    """One card as NVML sees it."""

    def __init__(self, bus_id: str) -> None:
        """Find the card.

        Args:
            bus_id: PCI address, ``0000:1b:00.0``.
        """
        self._nvml: ModuleType | None = None
        self._handle: object = None
        try:
            nvml = importlib.import_module("pynvml")
            nvml.nvmlInit()
            self._nvml = nvml
            self._handle = nvml.nvmlDeviceGetHandleByPciBusId(bus_id.encode())
        except Exception:  # noqa: BLE001 - NVML is optional: after any failure of it figures are absent
            self._handle = None

    def sm_clock(self) -> int | None:
        """Read the current SM clock, in MHz."""
        return self._ask("nvmlDeviceGetClockInfo", self._constant("NVML_CLOCK_SM"))

    def max_sm_clock(self) -> int | None:
        """Read the highest SM clock, in MHz."""
        return self._ask("nvmlDeviceGetMaxClockInfo", self._constant("NVML_CLOCK_SM"))

    def driver_version(self) -> str:
        """Read the driver's version; empty if it is unknown."""
        if self._nvml is not None:
            try:
                return str(self._nvml.nvmlSystemGetDriverVersion())
            except self._nvml.NVMLError:
                pass
        return _DRIVER_VERSION.read_text().strip() if _DRIVER_VERSION.is_file() else ""

    def state(self) -> CardState:
        """Read the card state that a record stores."""
        power = self._ask("nvmlDeviceGetPowerUsage")
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:  # drivers before 535 have it under its old name
            reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        return CardState(
            sm_clock_mhz=self.sm_clock(),
            memory_clock_mhz=self._ask("nvmlDeviceGetClockInfo", self._constant("NVML_CLOCK_MEM")),
            power_w=None if power is None else power / 1e3,
            temperature_c=self._ask("nvmlDeviceGetTemperature", self._constant("NVML_TEMPERATURE_GPU")),
            throttle_reasons=throttle_reasons(reasons or 0),
            neighbours=self.neighbours(),
        )

    def neighbours(self) -> int | None:
        """Count the other compute processes on the card; NVML may list this one under another process id."""
        if (
            self._nvml is None
            or self._handle is None
            or not hasattr(self._nvml, "nvmlDeviceGetComputeRunningProcesses")
        ):
            return None
        try:
            return max(0, len(self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)) - 1)
        except self._nvml.NVMLError:
            return None

    def _constant(self, name: str) -> int:
        return int(getattr(self._nvml, name, 0))

    def _ask(self, question: str, *arguments: int) -> int | None:
        if self._nvml is None or self._handle is None or not hasattr(self._nvml, question):
            return None
        try:
            return int(getattr(self._nvml, question)(self._handle, *arguments))
        except self._nvml.NVMLError:
            return None
