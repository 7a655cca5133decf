"""The contents of `__device__` variables across launches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from lab.base.errors import UserError
from lab.emulator.arrays import Bytes
from lab.emulator.memory.memory import Region


class DeviceState:
    """The `__device__` variables of one loaded module, as left by earlier launches.

    Launches with the same state see each other's writes. An empty state is a module that was just loaded. Pointers into
    arguments that a kernel stores in a variable hold for launches with the same arguments in the same places.

    Attributes:
        contents: Bytes by symbol, for the variables a launch has changed. A function's variable is
            `function::variable`.
    """

    def __init__(self, contents: Mapping[str, bytes] | None = None) -> None:
        """Start with the given contents, or those of a module just loaded."""
        self.contents: dict[str, bytes] = dict(contents or {})

    def copy(self) -> DeviceState:
        """Return an independent copy of the state."""
        return DeviceState(self.contents)


class LoadedVariables:
    """The `__device__` variables of one launch: loaded from a state and written back to it."""

    def __init__(self, state: DeviceState, regions: Iterable[tuple[str, Region]]) -> None:
        """Load the variables present in the state.

        Args:
            state: The contents so far.
            regions: Each variable's symbol and memory, initialised as when its module is loaded.

        Raises:
            UserError: a variable's size differs from the state's.
        """
        self._state = state
        self._loaded: list[tuple[str, Region, Bytes]] = []
        for symbol, region in regions:
            contents = state.contents.get(symbol)
            if contents is not None:
                if len(contents) != region.size:
                    raise UserError(
                        f"the variable {symbol} has a different size than in earlier launches",
                        code="mismatch",
                        key=f"state.{symbol}",
                        found=f"{region.size} bytes",
                        accepted=f"{len(contents)} bytes",
                    )
                region.data[: region.size] = np.frombuffer(contents, np.uint8)
            self._loaded.append((symbol, region, region.data[: region.size].copy()))

    def commit(self) -> None:
        """Write the launch's changes back to the state.

        A variable that still holds its initial value is not stored: an initial value may be an address, which differs
        between launches.
        """
        for symbol, region, before in self._loaded:
            after = region.data[: region.size]
            if not np.array_equal(before, after):
                self._state.contents[symbol] = after.tobytes()
