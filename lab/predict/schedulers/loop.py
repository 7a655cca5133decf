"""The instructions that one warp issues in an iteration of a kernel's main loop, from its SASS."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from lab.base.passing import Passed
from lab.base.warp import BANK_BYTES, BANKS, WARP_SIZE
from lab.isa.classes import bytes_per_lane
from lab.isa.mix import KernelMix
from lab.isa.model import Function, Instruction, InstructionClass
from lab.isa.sass.asides import elected, spins
from lab.isa.sass.control import Control, read_control


class Unit(StrEnum):
    """A resource that an instruction needs besides an issue slot."""

    NONE = "none"
    INTEGER = "integer"  # at half rate
    DOUBLE = "double"
    SHARED = "shared"
    GLOBAL = "global"
    COPY = "copy"  # cp.async
    BULK = "bulk"  # a TMA copy
    COMMIT = "commit"  # closes a group of copies
    WAIT = "wait"  # for groups of copies
    PHASE = "phase"  # waits for a phase of an mbarrier: for bulk copies
    TENSOR = "tensor"  # tensor cores, which the model does not cover
    BARRIER = "barrier"
    BRANCH = "branch"


@dataclass(frozen=True, slots=True)
class Slot(Passed):
    """One instruction in the scheduler model.

    Attributes:
        unit: Resource that it needs.
        width: Bytes per lane of an access to shared or global memory.
        store: Whether it writes memory.
        reads: Registers read from the even and the odd bank (number modulo 2), without those in the operand cache.
        reads_alone: The same with an empty operand cache, after an instruction of another warp.
        left: For `WAIT`: groups of copies that may still be in flight.
        fma: Fused multiply-adds per lane.
        control: The compiler's scheduling bits.
        once: Only one warp of the block issues it; the others branch around it.
    """

    unit: Unit
    width: int
    store: bool
    reads: tuple[int, int]
    reads_alone: tuple[int, int]
    left: int
    fma: int
    control: Control
    once: bool = False


@dataclass(frozen=True, slots=True)
class MainLoop:
    """The loop that dominates a kernel's time: the hot loop, and the rest of the loop around it.

    Attributes:
        hot: The hot loop; in a kernel without loops, the whole kernel.
        before: Instructions of the loop around it before the hot loop; empty if there is no such loop.
        after: Instructions of the loop around it after the hot loop.
        nested: Whether an enclosing loop belongs to the main loop, since it loads the hot loop's data.
        fma: Fused multiply-add instructions of the hot loop.
    """

    hot: tuple[Slot, ...]
    before: tuple[Slot, ...]
    after: tuple[Slot, ...]
    nested: bool
    fma: int

    def path(self, trips: float | None) -> tuple[Slot, ...]:
        """Return the instructions a warp issues per iteration of the outer loop, or of the hot loop without one.

        Skipped branch paths count as issued, except spin loops after a failed wait.

        Args:
            trips: Iterations of the hot loop per iteration of the outer loop; None if unknown.
        """
        if not self.nested or trips is None:
            return self.hot
        return (*self.before, *(self.hot * max(1, round(trips))), *self.after)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Mean costs of a warp's memory instructions, counted by emulation (`lab.emulator`).

    Attributes:
        load_wavefronts: Wavefronts per shared load.
        store_wavefronts: Wavefronts per shared store.
        load_bytes: Bytes per lane of a shared load in the PTX.
        store_bytes: Bytes per lane of a shared store in the PTX.
        sectors: Sectors per global load or cp.async.
        copy_wavefronts: Wavefronts per cp.async.
        bulk_wavefronts: Wavefronts per bulk copy, which one thread issues.
        bulk_sectors: Sectors per bulk copy.
    """

    load_wavefronts: float = 0.0
    store_wavefronts: float = 0.0
    load_bytes: float = 0.0
    store_bytes: float = 0.0
    sectors: float = 0.0
    copy_wavefronts: float = 0.0
    bulk_wavefronts: float = 0.0
    bulk_sectors: float = 0.0


_REGISTER = re.compile(r"\bR(\d+)\b")
_ARITHMETIC = {"FFMA", "FADD", "FMUL", "DFMA", "DADD", "DMUL", "HFMA2", "HADD2", "HMUL2", "IMAD"}
_FMA = {"FFMA": 1, "DFMA": 1, "HFMA2": 2}
_INTEGER = {"IMAD", "IADD3", "LEA", "LOP3", "SHF", "ISETP", "PRMT", "SEL", "MOV", "VIADD", "IADD", "IABS", "IMNMX"}
_UNITS = {
    "LDS": Unit.SHARED,
    "STS": Unit.SHARED,
    "LDSM": Unit.SHARED,
    "STSM": Unit.SHARED,
    "ATOMS": Unit.SHARED,
    "LDG": Unit.GLOBAL,
    "LD": Unit.GLOBAL,
    "STG": Unit.GLOBAL,
    "ST": Unit.GLOBAL,
    "LDL": Unit.GLOBAL,
    "STL": Unit.GLOBAL,
    "LDGSTS": Unit.COPY,
    "LDGDEPBAR": Unit.COMMIT,
    "UTMALDG": Unit.BULK,
    "UBLKCP": Unit.BULK,
    "BAR": Unit.BARRIER,
    "BRA": Unit.BRANCH,
    **dict.fromkeys(("DFMA", "DADD", "DMUL"), Unit.DOUBLE),
    **dict.fromkeys(_INTEGER, Unit.INTEGER),
}
_SECTORS_A_CYCLE = 2  # L2 to an SM: 64 bytes per cycle
BYTES_A_CYCLE = BANKS * BANK_BYTES // WARP_SIZE
"""A lane's share of the data path's 128 bytes per cycle."""


def main_loop(function: Function, code: bytes, mix: KernelMix) -> MainLoop:
    """Extract a kernel's main loop from its SASS.

    Args:
        function: Its SASS.
        code: Its machine code.
        mix: Static mix of the SASS.

    Raises:
        ValueError: The code does not belong to the function.
    """
    hot = mix.hot_loop
    if hot is None:
        everything = _slots(function, code, range(len(function.instructions)))
        return MainLoop(everything, (), (), nested=False, fma=sum(slot.fma > 0 for slot in everything))
    # a loop that fetches its own data is complete; a loop around it steps through the tiles of a persistent block
    around = None if hot.fetches else mix.around(hot)
    inside, own = _places(function, hot.numbers), _places(function, mix.own_lines(around) if around else frozenset())
    body = _slots(function, code, inside)
    return MainLoop(
        body,
        _slots(function, code, [i for i in own if i < inside[0]]),
        _slots(function, code, [i for i in own if i > inside[0]]),
        nested=around is not None,
        fma=sum(slot.fma > 0 for slot in body),
    )


def slots_of(function: Function, code: bytes, lines: frozenset[int]) -> tuple[tuple[Instruction, Slot], ...]:
    """Return the instructions on some lines with their slots in the model, without spin loops.

    Args:
        function: The SASS.
        code: Its machine code.
        lines: Lines of the listing.

    Raises:
        ValueError: The code does not belong to the function.
    """
    places = _places(function, lines)
    return tuple(zip((function.instructions[i] for i in places), _slots(function, code, places), strict=True))


def _places(function: Function, lines: frozenset[int]) -> list[int]:
    """Return the indices of the instructions on some lines, without spin loops."""
    left_out = spins(function)
    return [i.index for i in function.instructions if i.line in lines and i.index not in left_out]


def _slots(function: Function, code: bytes, places: Sequence[int]) -> tuple[Slot, ...]:
    """Return the slots of some instructions; the operand cache follows from the instruction before each."""
    slots: list[Slot] = []
    previous, operand_cache, once, spinning = -1, dict[int, int](), elected(function), spins(function)
    for place in places:
        if place != previous + 1:
            before = function.instructions[place - 1]
            operand_cache = _kept(_registers(before), read_control(code, before.address or 0))
        instruction, previous = function.instructions[place], place
        control, registers = read_control(code, instruction.address or 0), _registers(instruction)
        slot = _slot(instruction, control, registers, operand_cache)
        if spinning.intersection(instruction.targets):
            slot = replace(slot, unit=Unit.NONE)  # a rarely taken branch
        slots.append(replace(slot, once=True) if place in once or slot.unit is Unit.BULK else slot)
        operand_cache = _kept(registers, control)
    return tuple(slots)


def _registers(instruction: Instruction) -> list[int | None]:
    """Return the first register that each source operand reads."""
    return [int(m[1]) if (m := _REGISTER.search(text)) else None for text in instruction.operands[1:4]]


def _kept(registers: Sequence[int | None], control: Control) -> dict[int, int]:
    """Return the registers in the operand cache after an instruction, by operand slot."""
    return {place: r for place, r in enumerate(registers) if r is not None and control.reuse[place]}


def _slot(
    instruction: Instruction, control: Control, registers: Sequence[int | None], operand_cache: Mapping[int, int]
) -> Slot:
    root = instruction.opcode.partition(".")[0]
    reads = reads_alone = (0, 0)
    if root in _ARITHMETIC:
        reads, reads_alone = _by_bank(registers, operand_cache), _by_bank(registers, {})
    unit, in_flight = _UNITS.get(root, Unit.NONE), 0
    if root == "DEPBAR" and instruction.operands:
        unit, in_flight = Unit.WAIT, _number(instruction.operands[-1])
    elif instruction.opcode.startswith("SYNCS.PHASECHK"):
        unit = Unit.PHASE
    elif instruction.cls is InstructionClass.MMA:
        unit = Unit.TENSOR
    width = bytes_per_lane(instruction.opcode)
    return Slot(unit, width, root.startswith("ST"), reads, reads_alone, in_flight, _FMA.get(root, 0), control)


def _by_bank(registers: Sequence[int | None], operand_cache: Mapping[int, int]) -> tuple[int, int]:
    """Return the registers read from the even and the odd bank; a register in two operands counts once."""
    fetched = {r for place, r in enumerate(registers) if r is not None and operand_cache.get(place) != r}
    odd = sum(r % 2 for r in fetched)
    return len(fetched) - odd, odd


def _number(operand: str) -> int:
    """Return the number of groups that `DEPBAR.LE SB0, 0x1` leaves in flight; 0 if it names none."""
    try:
        return int(operand, 0)
    except ValueError:
        return 0


def passes(slot: Slot, traffic: Traffic) -> float:
    """Return the cycles for which a memory instruction occupies the SM's data path; 0 for others."""
    if slot.unit is Unit.COPY and traffic.copy_wavefronts:
        return traffic.copy_wavefronts
    if slot.unit in (Unit.GLOBAL, Unit.COPY):
        return max(slot.width / BYTES_A_CYCLE, traffic.sectors / _SECTORS_A_CYCLE)
    if slot.unit is Unit.BULK:
        return traffic.bulk_wavefronts
    if slot.unit is not Unit.SHARED:
        return 0.0
    if slot.store:
        return _shared_passes(slot.width, traffic.store_wavefronts, traffic.store_bytes)
    return _shared_passes(slot.width, traffic.load_wavefronts, traffic.load_bytes)


def sectors(slot: Slot, traffic: Traffic) -> float:
    """Return the sectors of a global-memory access; 0 for other instructions."""
    if slot.unit is Unit.BULK:
        return traffic.bulk_sectors
    return traffic.sectors if slot.unit in (Unit.GLOBAL, Unit.COPY) else 0.0


def _shared_passes(width: int, counted: float, bytes_counted: float) -> float:
    """Return the wavefronts of one access of `width` bytes per lane.

    ptxas may merge the PTX's accesses into wider ones. Conflicting lanes are serialised bank by bank, so a many-way
    conflict costs a merged access as much as each of its parts. Without conflicts, the bytes decide.
    """
    if not counted:
        return width / BYTES_A_CYCLE
    if width <= bytes_counted:
        return counted
    return max(counted, min(width / BYTES_A_CYCLE, counted * width / bytes_counted))
