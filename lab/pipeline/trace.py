"""From a kernel's SASS to what one warp issues in an iteration of its main loop."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lab.isa.control import Control, read_control
from lab.isa.mix import KernelMix, LoopMix
from lab.isa.model import Function, Instruction
from lab.pipeline.machine import Machine


class Unit(StrEnum):
    """What an instruction needs besides an issue slot."""

    NONE = "none"
    INTEGER = "integer"  # at half rate
    DOUBLE = "double"
    SHARED = "shared"
    GLOBAL = "global"
    COPY = "copy"  # cp.async
    COMMIT = "commit"  # closes a group of copies
    WAIT = "wait"  # for groups of copies
    BARRIER = "barrier"
    BRANCH = "branch"


@dataclass(frozen=True, slots=True)
class Slot:
    """One instruction as the model issues it.

    Attributes:
        unit: What it needs.
        passes: Shared or global memory: cycles of the SM's data path.
        extra: Cycles that register banks cost on top of the issue slot.
        left: For `WAIT`: groups of copies that may still be under way.
        fma: Fused multiply-adds of a lane.
        control: The compiler's scheduling bits.
    """

    unit: Unit
    passes: float
    extra: float
    left: int
    fma: int
    control: Control


@dataclass(frozen=True, slots=True)
class Traffic:
    """What memory instructions cost, counted by executing the kernel (`lab.emulator`).

    Attributes:
        load_wavefronts: Wavefronts of a shared load, mean.
        store_wavefronts: Of a shared store, mean.
        load_bytes: Bytes a lane of a shared load of the PTX, mean.
        store_bytes: Of a shared store.
        sectors: Sectors of a global load or cp.async, mean.
    """

    load_wavefronts: float = 0.0
    store_wavefronts: float = 0.0
    load_bytes: float = 0.0
    store_bytes: float = 0.0
    sectors: float = 0.0


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
    "BAR": Unit.BARRIER,
    "BRA": Unit.BRANCH,
    **dict.fromkeys(("DFMA", "DADD", "DMUL"), Unit.DOUBLE),
    **dict.fromkeys(_INTEGER, Unit.INTEGER),
}
_SECTORS_A_CYCLE = 2  # L2 to an SM: 64 bytes a cycle
_BYTES_A_CYCLE = 4  # a lane's share of the 128 bytes that the data path moves


def slots(function: Function, code: bytes, traffic: Traffic, machine: Machine) -> tuple[Slot, ...]:
    """Every instruction of a function as the model issues it.

    Raises:
        ValueError: the code is not that of the function.
    """
    made, kept = [], dict[int, int]()
    for instruction in function.instructions:
        control = read_control(code, instruction.address or 0)
        registers = [int(m[1]) if (m := _REGISTER.search(text)) else None for text in instruction.operands[1:4]]
        root = instruction.opcode.partition(".")[0]
        extra = 0.0
        if root in _ARITHMETIC:
            fetched = {r for place, r in enumerate(registers) if r is not None and kept.get(place) != r}
            odd = sum(r % 2 for r in fetched)
            fullest = max(odd, len(fetched) - odd)
            extra = {2: machine.two_in_a_bank, 3: machine.three_in_a_bank}.get(fullest, 0.0)
        kept = {place: r for place, r in enumerate(registers) if r is not None and control.reuse[place]}
        made.append(_slot(instruction, root, control, extra, traffic))
    return tuple(made)


def _slot(instruction: Instruction, root: str, control: Control, extra: float, traffic: Traffic) -> Slot:
    unit = _UNITS.get(root, Unit.NONE)
    left = 0
    if root == "DEPBAR" and instruction.operands:
        unit, left = Unit.WAIT, int(instruction.operands[-1], 16) if len(instruction.operands) > 1 else 0
    passes = 0.0
    width = 16 if "128" in instruction.opcode else 8 if "64" in instruction.opcode else 4
    if unit is Unit.SHARED:
        store = root.startswith("ST")
        counted = traffic.store_wavefronts if store else traffic.load_wavefronts
        bytes_counted = traffic.store_bytes if store else traffic.load_bytes
        passes = _shared_passes(width, counted, bytes_counted)
    elif unit in (Unit.GLOBAL, Unit.COPY):
        passes = max(width / _BYTES_A_CYCLE, traffic.sectors / _SECTORS_A_CYCLE)
    return Slot(unit, passes, extra, left, _FMA.get(root, 0), control)


def _shared_passes(width: int, counted: float, bytes_counted: float) -> float:
    """Wavefronts of one access of `width` bytes a lane.

    ptxas may merge the PTX's accesses into wider ones. Lanes that conflict do so on one bank after the other, so a
    conflict of many ways costs a merged access what it cost each of its parts; without conflicts the bytes decide.
    """
    if not counted:
        return width / _BYTES_A_CYCLE
    if width <= bytes_counted:
        return counted
    return max(counted, min(width / _BYTES_A_CYCLE, counted * width / bytes_counted))


def main_path(function: Function, mix: KernelMix, trips: float | None) -> tuple[int, ...]:
    """Instructions, by index, that a warp issues in one iteration of the main loop.

    That is the hot loop, or, where `trips` tells how often it turns within one, the loop around it, with the hot loop
    so many times over. Paths that a branch skips are taken to be issued.
    """
    hot = mix.hot_loop
    if hot is None:
        return tuple(range(len(function.instructions)))
    inside = _inside(function, hot)
    around = next((loop for loop in mix.loops if loop.label == hot.parent), None)
    if around is None or trips is None:
        return tuple(inside)
    nested = {i for loop in mix.loops if loop.parent == around.label for i in _inside(function, loop)}
    own = [i for i in _inside(function, around) if i not in nested]
    before, after = [i for i in own if i < inside[0]], [i for i in own if i > inside[0]]
    return (*before, *(inside * max(1, round(trips))), *after)


def _inside(function: Function, loop: LoopMix) -> list[int]:
    return [i.index for i in function.instructions if any(first <= i.line <= last for first, last in loop.lines)]


def fma_of(path: Sequence[Slot]) -> int:
    """Fused multiply-adds of a lane along a path."""
    return sum(slot.fma for slot in path)
