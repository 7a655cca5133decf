"""Module-scope variables that keep their contents from launch to launch, as on a device."""

from __future__ import annotations

from lab.emulator.arrays import Bytes


class DeviceState:
    """The contents of `__device__` variables after launches; empty when the module is loaded."""

    def __init__(self) -> None:
        self._contents: dict[str, Bytes] = {}

    def restore(self, name: str, data: Bytes) -> None:
        """Give a variable what the last launch left there; nothing changes before the first one."""
        if name in self._contents:
            data[:] = self._contents[name]

    def keep(self, name: str, data: Bytes) -> None:
        """Remember what a launch left in a variable."""
        self._contents[name] = data.copy()
