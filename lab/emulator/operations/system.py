"""The table of operations on more than registers (memory, lanes of a warp, copies), and what they act on."""

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
    """One instruction in one batch, and the units that it may act on.

    Attributes:
        position: Index of the instruction in the program.
        operands: Binds its operands.
        batch: The threads.
        memory: Loads and stores.
        mbarriers: The mbarriers of the batch's blocks.
        warpgroups: What the batch's warpgroups have on its way.
        tensor: The tensor memory of the batch's blocks.
        findings: Where faults are noted.
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
"""Family to builder. `operations.table` has it complete."""


def system(*families: str) -> Callable[[SystemBuilder], SystemBuilder]:
    """Enter a builder in the table `SYSTEM`."""

    def enter(build: SystemBuilder) -> SystemBuilder:
        for family in families:
            SYSTEM[family] = build
        return build

    return enter
