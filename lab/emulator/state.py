"""The contents of `__device__` variables from launch to launch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from lab.base.errors import UserError
from lab.emulator.arrays import Bytes
from lab.emulator.memory.memory import Region


class DeviceState:
    """The `__device__` variables of one loaded module, as launches left them.

    Launches with the same state see each other's writes. An empty state is a module that was just loaded. Pointers into
    arguments that a kernel stores in a variable hold for launches with the same arguments in the same places.

    Attributes:
        contents: Symbol to bytes, of the variables that some launch has changed. A variable of a function is
            `function::variable`.
    """

    def __init__(self, contents: Mapping[str, bytes] | None = None) -> None:
        """Start with the given contents, or those of a module just loaded."""
        self.contents: dict[str, bytes] = dict(contents or {})

    def copy(self) -> DeviceState:
        """Return a state with the same contents, which later launches change on its own."""
        return DeviceState(self.contents)


class LoadedVariables:
    """The `__device__` variables of one launch: filled from a state, and returned to it."""

    def __init__(self, state: DeviceState, regions: Iterable[tuple[str, Region]]) -> None:
        """Fill the variables that the state has.

        Args:
            state: The contents so far.
            regions: Each variable's symbol and memory, initialised as when its module is loaded.

        Raises:
            UserError: a variable has another size than in the state.
        """
        self._state = state
        self._loaded: list[tuple[str, Region, Bytes]] = []
        for symbol, region in regions:
            kept = state.contents.get(symbol)
            if kept is not None:
                if len(kept) != region.size:
                    raise UserError(
                        f"the variable {symbol} has another size than in the launches before",
                        code="mismatch",
                        key=f"state.{symbol}",
                        found=f"{region.size} bytes",
                        accepted=f"{len(kept)} bytes",
                    )
                region.data[: region.size] = np.frombuffer(kept, np.uint8)
            self._loaded.append((symbol, region, region.data[: region.size].copy()))

    def commit(self) -> None:
        """Keep what the launch changed.

        A variable that still holds its initial value is not kept: an initial value may be an address, and those of
        another launch differ.
        """
        for symbol, region, before in self._loaded:
            after = region.data[: region.size]
            if not np.array_equal(before, after):
                self._state.contents[symbol] = after.tobytes()
