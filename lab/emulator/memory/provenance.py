"""Provenance of addresses, by static analysis of a kernel.

Each register has the set of possible origins of an address: kernel parameters, variables, or unknown, such as a pointer
loaded from memory. A loaded 32-bit value is an index, not a pointer, unless two of them are packed into one. So buffers
that a kernel never writes need no race checks, and an overrun from one shared variable into the next is detected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from lab.emulator import operands
from lab.emulator.opcodes import DTYPES
from lab.emulator.program import Place, Program
from lab.isa.model import Instruction

_UNKNOWN = "?"
_LOADED = "%loaded"  # possibly a part of a pointer
_NAME = re.compile(r"[%$\w.]+")
_WRITERS = ("st", "atom", "red", "wmma", "cp", "stmatrix", "tensormap")
_COPIES = ("cp", "tensormap")
_SILENT = ("st", "red", "bra", "bar", "barrier", "ret", "exit", "setp")
_POINTER = 8  # bytes
_SHARED = frozenset({"shared", "shared::cta"})
_SPACES = _SHARED | {"shared::cluster", "global"}
_INNER = _SHARED | {"shared::cluster", "local", "param", "param::func"}

Sources = frozenset[str]
"""Names of parameters and variables."""

_NONE: Sources = frozenset()


class Provenance:
    """The origins of a program's addresses."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._parameters = {parameter.name for parameter in program.kernel.parameters}
        self._variables = {variable.name for variable in program.module.variables}
        self._own = any(number >= 0 for _, number, _ in program.memory_variables())

    @cached_property
    def written_names(self) -> Sources | None:
        """The parameters and module variables a kernel can write through; None where it may be any."""
        targets: set[str] = set()
        for number, instruction in self._program.code:
            family, *parts = instruction.opcode.split(".")
            words = (
                [modifier for modifier in parts if modifier in _SPACES][:1] if family in _COPIES else parts
            )  # its destination
            if family in _WRITERS and _INNER.isdisjoint(words):
                targets |= self._of(number, _address(instruction))
        return None if _UNKNOWN in targets else frozenset(targets - {_LOADED})

    @cached_property
    def read_only_names(self) -> Sources | None:
        """The parameters and module variables read by `ld.global.nc`; None where it may be any."""
        sources: set[str] = set()
        for number, instruction in self._program.code:
            family, *parts = instruction.opcode.split(".")
            if family in ("ld", "ldu") and "nc" in parts:
                sources |= self._of(number, _address(instruction))
        return None if _UNKNOWN in sources else frozenset(sources - {_LOADED})

    @cached_property
    def written_variables(self) -> Sources:
        """The `__device__` variables the kernel may write, by the names of `Program.memory_variables`.

        If the written memory is unknown, all of the module's variables in global memory.
        """
        variables = frozenset(
            name for name, _, variable in self._program.memory_variables() if variable.space == "global"
        )
        targets = self.written_names if variables else _NONE
        return variables if targets is None else variables & targets

    @cached_property
    def inner_places(self) -> Mapping[int, Place]:
        """The variable each shared or local access derives from, if it is one of known size.

        Spaces with a single variable are omitted: the space's bounds equal the variable's.
        """
        by_position: dict[int, Place] = {}
        spaces = {space for space in ("shared", "local") if len(self._program.variables_in(space)) > 1}
        if not spaces:
            return by_position
        for position, (number, instruction) in enumerate(self._program.code):
            family, *parts = instruction.opcode.split(".")
            space = "local" if "local" in parts else "" if _SHARED.isdisjoint(parts) else "shared"
            if family not in ("ld", "st", "atom", "red") or space not in spaces:
                continue
            text = _address(instruction)
            names = [name for name in self._of(number, text) if name != _LOADED]
            places = [self._place(number, name) for name in names]
            if len(places) == 1 and places[0] is not None and places[0].space == space and places[0].size:
                by_position[position] = places[0]
        return by_position

    def _place(self, number: int, name: str) -> Place | None:
        places = self._program.places
        return places.get((number, name)) or places.get((-1, name))

    def _of(self, number: int, text: str) -> Sources:
        """Return the origins of an instruction's operand in some function."""
        sources = _NONE
        for name in _NAME.findall(text):
            if self._own:
                own = self._program.symbol(number, name)
                sources |= {own} if own != name else _NONE
            if name in self._variables or (not name.startswith("%") and self._place(number, name) is not None):
                sources |= {name}
            sources |= self._sources.get((number, name), _NONE)
        return sources

    @cached_property
    def _sources(self) -> dict[tuple[int, str], Sources]:
        """The origins of each register of each function: a fixed point, independent of execution order."""
        sources: dict[tuple[int, str], Sources] = {}
        self.__dict__["_sources"] = sources  # `_of` uses it while it grows
        changed = True
        while changed:
            changed = False
            for number, instruction in self._program.code:
                derived = self._made(number, instruction)
                for name in _NAME.findall(instruction.operands[0]) if derived and instruction.operands else ():
                    old = sources.get((number, name), _NONE)
                    if not derived <= old:
                        sources[number, name] = old | derived
                        changed = True
        return sources

    def _made(self, number: int, instruction: Instruction) -> Sources:
        """Return the origins of an instruction's first operand."""
        family, *parts = instruction.opcode.split(".")
        if family in _SILENT or not instruction.operands:
            return _NONE
        if family in ("ld", "ldu", "atom", "call"):
            return self._loaded(number, instruction, parts)
        sources = _NONE.union(*(self._of(number, text) for text in instruction.operands[1:]))
        if family == "mov" and instruction.operands[-1].startswith("{") and _LOADED in sources:
            return sources | {_UNKNOWN}
        return sources

    def _loaded(self, number: int, instruction: Instruction, parts: list[str]) -> Sources:
        """Return the origins of a value from memory: a kernel parameter, a pointer or a number."""
        address = operands.address(instruction.operands[1]) if len(instruction.operands) > 1 else None
        name = address.base if address else None
        of_parameters = any(modifier.startswith("param") for modifier in parts) and number == 0
        if of_parameters and name is not None and name in self._parameters:
            return frozenset({name})
        width = max(
            (DTYPES[modifier].itemsize for modifier in parts if modifier in DTYPES and modifier != "pred"),
            default=_POINTER,
        )
        return frozenset({_UNKNOWN if width >= _POINTER else _LOADED})


def _address(instruction: Instruction) -> str:
    """Return the first address operand; for a tensor box, the map's address without the coordinates."""
    return next((text for text in instruction.operands if text.startswith("[")), "").partition(",")[0]
