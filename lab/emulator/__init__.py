"""The PTX machine: executes, counts and checks kernels on NumPy, with no GPU."""

from typing import TYPE_CHECKING, Any

from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.results import Access, Buffer, Emulation, ExecutedCounts, Finding, LineCount, LoopCounts, MemoryCount

if TYPE_CHECKING:
    from lab.emulator.api import launch

__all__ = [
    "Access",
    "Buffer",
    "Emulation",
    "ExecutedCounts",
    "Finding",
    "LineCount",
    "LoopCounts",
    "MemoryCount",
    "UnsupportedInstruction",
    "launch",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module's attribute
    """The machine itself when it is asked for: whoever reads records needs its results alone."""
    if name == "launch":
        from lab.emulator.api import launch  # noqa: PLC0415 - see above

        return launch
    raise AttributeError(name)
