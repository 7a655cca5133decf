"""The PTX machine: executes, counts and checks kernels on NumPy, with no GPU."""

from lab.emulator.api import launch
from lab.emulator.errors import UnsupportedInstruction
from lab.emulator.results import Access, Buffer, Emulation, ExecutedCounts, Finding, LineCount, LoopCounts, MemoryCount

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
