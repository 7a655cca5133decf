"""Which buffers a kernel can write, as far as its text tells: the others need no watch for races.

Each register holds what an address can derive from: parameters of the kernel, variables of the module, or something
unknown, such as a pointer that was itself loaded from memory. A 32-bit value that was loaded is an index, no pointer,
unless two of them are packed into one.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from lab.emulator import operands
from lab.emulator.opcodes import DTYPES
from lab.emulator.program import Program
from lab.isa.model import Instruction

_Of = Callable[[int, str], frozenset[str]]
_UNKNOWN = "?"
_LOADED = "%loaded"  # a part of a pointer, perhaps
_NAME = re.compile(r"[%$\w.]+")
_WRITERS = ("st", "atom", "red", "wmma", "cp", "stmatrix")
_POINTER = 8  # bytes
_SHARED = frozenset({"shared", "shared::cta", "shared::cluster", "local", "param", "param::func"})


def written_names(program: Program) -> frozenset[str] | None:
    """Return the parameters and module variables through which a kernel can write; None where it may be any."""
    sources: dict[tuple[int, str], frozenset[str]] = {}
    variables = {variable.name for variable in program.module.variables if variable.space in ("global", "const")}
    parameters = {parameter.name for parameter in program.kernel.parameters}

    def of(number: int, text: str) -> frozenset[str]:
        found: frozenset[str] = frozenset()
        for name in _NAME.findall(text):
            if name in variables:
                found |= {name}
            found |= sources.get((number, name), frozenset())
        return found

    changed = True
    while changed:
        changed = False
        for number, instruction in program.code:
            made = _made(number, instruction, parameters, of)
            for name in _NAME.findall(instruction.operands[0]) if made and instruction.operands else ():
                old = sources.get((number, name), frozenset())
                if not made <= old:
                    sources[number, name] = old | made
                    changed = True
    written: set[str] = set()
    for number, instruction in program.code:
        family, *parts = instruction.opcode.split(".")
        if family in _WRITERS and not _SHARED.intersection(parts[:4] if family != "cp" else parts[2:3]):
            place = next((text for text in instruction.operands if text.startswith("[")), "")
            written |= of(number, place)
    if _UNKNOWN in written:
        return None
    return frozenset(written - {_LOADED})


def _made(number: int, instruction: Instruction, parameters: set[str], of: _Of) -> frozenset[str]:
    """Return what the first operand of an instruction derives from."""
    family, *parts = instruction.opcode.split(".")
    if family in ("st", "red", "bra", "bar", "barrier", "ret", "exit", "setp"):
        return frozenset()
    if family in ("ld", "ldu", "atom", "call"):
        space_is_param = any(part.startswith("param") for part in parts)
        address = operands.address(instruction.operands[1]) if len(instruction.operands) > 1 else None
        name = address.base if address else None
        if family == "ld" and space_is_param and number == 0 and name in parameters:
            return frozenset({str(name)})
        width = max((DTYPES[part].itemsize for part in parts if part in DTYPES and part != "pred"), default=_POINTER)
        return frozenset({_UNKNOWN if width >= _POINTER else _LOADED})
    found = frozenset().union(*(of(number, text) for text in instruction.operands[1:]))
    if family == "mov" and instruction.operands[-1].startswith("{") and _LOADED in found:
        return found | {_UNKNOWN}
    return found
