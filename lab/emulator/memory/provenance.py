"""Where addresses come from, as far as the text of a kernel tells.

Each register holds what an address can derive from: parameters of the kernel, variables, or something unknown, such as
a pointer that was itself loaded from memory. A 32-bit value that was loaded is an index, no pointer, unless two of them
are packed into one. So buffers that a kernel never writes need no watch for races, and an access to a shared variable
is seen to run over into the next one.
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
_LOADED = "%loaded"  # a part of a pointer, perhaps
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
    """What the addresses of a program derive from."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._parameters = {parameter.name for parameter in program.kernel.parameters}
        self._variables = {variable.name for variable in program.module.variables}
        self._own = any(number >= 0 for _, number, _ in program.memory_variables())

    @cached_property
    def written_names(self) -> Sources | None:
        """The parameters and module variables through which a kernel can write; None where it may be any."""
        written: set[str] = set()
        for number, instruction in self._program.code:
            family, *parts = instruction.opcode.split(".")
            words = [part for part in parts if part in _SPACES][:1] if family in _COPIES else parts  # its destination
            if family in _WRITERS and _INNER.isdisjoint(words):
                written |= self._of(number, _address(instruction))
        return None if _UNKNOWN in written else frozenset(written - {_LOADED})

    @cached_property
    def read_only_names(self) -> Sources | None:
        """The parameters and module variables that `ld.global.nc` reads; None where it may be any."""
        read: set[str] = set()
        for number, instruction in self._program.code:
            family, *parts = instruction.opcode.split(".")
            if family in ("ld", "ldu") and "nc" in parts:
                read |= self._of(number, _address(instruction))
        return None if _UNKNOWN in read else frozenset(read - {_LOADED})

    @cached_property
    def written_variables(self) -> Sources:
        """The `__device__` variables that the kernel may write, by the names of `Program.memory_variables`.

        Where the text does not tell which memory is written, all that the module has in global memory.
        """
        variables = frozenset(
            name for name, _, variable in self._program.memory_variables() if variable.space == "global"
        )
        written = self.written_names if variables else _NONE
        return variables if written is None else variables & written

    @cached_property
    def inner_places(self) -> Mapping[int, Place]:
        """The variable that each access to shared or local memory derives from, where it is one of known size.

        A space with one variable is left out: its bounds are those of the variable.
        """
        found: dict[int, Place] = {}
        spaces = {space for space in ("shared", "local") if len(self._program.variables_in(space)) > 1}
        if not spaces:
            return found
        for position, (number, instruction) in enumerate(self._program.code):
            family, *parts = instruction.opcode.split(".")
            space = "local" if "local" in parts else "" if _SHARED.isdisjoint(parts) else "shared"
            if family not in ("ld", "st", "atom", "red") or space not in spaces:
                continue
            text = _address(instruction)
            names = [name for name in self._of(number, text) if name != _LOADED]
            places = [self._place(number, name) for name in names]
            if len(places) == 1 and places[0] is not None and places[0].space == space and places[0].size:
                found[position] = places[0]
        return found

    def _place(self, number: int, name: str) -> Place | None:
        places = self._program.places
        return places.get((number, name)) or places.get((-1, name))

    def _of(self, number: int, text: str) -> Sources:
        """Return what an operand of an instruction of some function derives from."""
        found = _NONE
        for name in _NAME.findall(text):
            if self._own:
                own = self._program.symbol(number, name)
                found |= {own} if own != name else _NONE
            if name in self._variables or (not name.startswith("%") and self._place(number, name) is not None):
                found |= {name}
            found |= self._sources.get((number, name), _NONE)
        return found

    @cached_property
    def _sources(self) -> dict[tuple[int, str], Sources]:
        """What each register of each function derives from: a fixed point, whatever the order of execution."""
        sources: dict[tuple[int, str], Sources] = {}
        self.__dict__["_sources"] = sources  # `_of` looks here meanwhile
        changed = True
        while changed:
            changed = False
            for number, instruction in self._program.code:
                made = self._made(number, instruction)
                for name in _NAME.findall(instruction.operands[0]) if made and instruction.operands else ():
                    old = sources.get((number, name), _NONE)
                    if not made <= old:
                        sources[number, name] = old | made
                        changed = True
        return sources

    def _made(self, number: int, instruction: Instruction) -> Sources:
        """Return what the first operand of an instruction derives from."""
        family, *parts = instruction.opcode.split(".")
        if family in _SILENT or not instruction.operands:
            return _NONE
        if family in ("ld", "ldu", "atom", "call"):
            return self._loaded(number, instruction, parts)
        found = _NONE.union(*(self._of(number, text) for text in instruction.operands[1:]))
        if family == "mov" and instruction.operands[-1].startswith("{") and _LOADED in found:
            return found | {_UNKNOWN}
        return found

    def _loaded(self, number: int, instruction: Instruction, parts: list[str]) -> Sources:
        """Return what a value from memory derives from: a parameter of the kernel, a pointer, or a number."""
        address = operands.address(instruction.operands[1]) if len(instruction.operands) > 1 else None
        name = address.base if address else None
        of_parameters = any(part.startswith("param") for part in parts) and number == 0
        if of_parameters and name is not None and name in self._parameters:
            return frozenset({name})
        width = max((DTYPES[part].itemsize for part in parts if part in DTYPES and part != "pred"), default=_POINTER)
        return frozenset({_UNKNOWN if width >= _POINTER else _LOADED})


def _address(instruction: Instruction) -> str:
    """Return the first address of an instruction; of a box in a tensor, the map's without the coordinates."""
    return next((text for text in instruction.operands if text.startswith("[")), "").partition(",")[0]
