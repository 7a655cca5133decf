"""The table of operations beyond registers (memory, warp lanes, copies), and their context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.emulator.batch import Batch
from lab.emulator.binding import OperandBinder
from lab.emulator.findings import BatchFindings
from lab.emulator.lanes import Lanes
from lab.emulator.memory.access import MemoryUnit
from lab.emulator.memory.tensor import TensorMemory
from lab.emulator.opcodes import Opcode
from lab.emulator.tally import Counters
from lab.emulator.waiting.mbarriers import Mbarriers
from lab.emulator.waiting.warpgroups import Warpgroups

Run = Callable[[Lanes], None]
"""Executes an instruction for some threads."""


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """An instruction in one batch, with the units it may access.

    Attributes:
        position: Index of the instruction in the program.
        operands: Binds its operands.
        batch: The threads.
        memory: Loads and stores.
        mbarriers: The mbarriers of the batch's blocks.
        warpgroups: In-flight work of the batch's warpgroups.
        tensor: The tensor memory of the batch's blocks.
        findings: The collector of faults.
        counters: Tallies, or None.
    """

    position: int
    operands: OperandBinder
    batch: Batch
    memory: MemoryUnit
    mbarriers: Mbarriers
    warpgroups: Warpgroups
    tensor: TensorMemory
    findings: BatchFindings
    counters: Counters | None

    @property
    def texts(self) -> tuple[str, ...]:
        """The operands as written."""
        return self.operands.instruction.operands


SystemBuilder = Callable[[Site, Opcode], Run]
"""Builds an instruction for the batch of its site."""

SYSTEM: dict[str, SystemBuilder] = {}
"""Builders by family. `operations.table` completes the table."""


def system(*families: str) -> Callable[[SystemBuilder], SystemBuilder]:
    """Register a builder in `SYSTEM`."""

    def enter(build: SystemBuilder) -> SystemBuilder:
        for family in families:
            SYSTEM[family] = build
        return build

    return enter
