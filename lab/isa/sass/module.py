"""The SASS reader: nvdisasm's listing, and the cubin's line table if present, to the instruction model.

Volta and later encode every instruction in 16 bytes. An operand that names a label of the function becomes the label's
byte offset in the function's section (``0x1e0``); any other symbol stays a name.

Special control flow: `BSSY` names the reconvergence point and does not branch. `BSYNC`, `WARPSYNC` and `BREAK` fall
through, as does a `CALL` after its return. `BRA` with a predicate among its operands, or with a modifier such as `DIV`,
may fall through. The targets of `BRX` are in the listing's jump table. A subroutine that ptxas placed after a kernel
belongs to the kernel's section and so to its instructions.

The self-branch after a function's last exit and the padding NOPs are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

from lab.base.errors import Location, ReaderError
from lab.isa.classes import classify
from lab.isa.model import Function, Instruction, InstructionClass, Module, SourceLocation
from lab.isa.sass.lines import LineTable
from lab.isa.sass.listing_reader import FunctionListing, read_listing

_BYTES: Final = 16
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{1,16}\Z")
_SEPARATOR = re.compile(r",(?![^\[{(]*[\]})])")
_SYMBOL = re.compile(r"`\(([^()`]++)\)")
_BLANK_BETWEEN = re.compile(r"(?<=[\w\])]) ++(?=[\w$.-])|,\s++")
_MAY_FALL = {"DIV", "CONV", "ANY"}
_NEVER_FALLS = {"EXIT", "RET", "BRX", "BRXU", "JMX", "JMXU", "RTT"}
_DIRECT = {"BRA", "JMP"}
_NO_LINES: Final = LineTable()


def read_sass(listing: str, lines: LineTable = _NO_LINES, file: str = "<sass>", version: str = "") -> Module:
    """Read the disassembly of a cubin.

    Args:
        listing: Output of ``nvdisasm -c -plr -lrm count``, or without the live registers.
        lines: The cubin's line table. Without it, instructions have no source line.
        file: The listing's name, for messages.
        version: nvdisasm's version.

    Raises:
        ReaderError: The text is not a listing, an instruction cannot be parsed, or a branch target is missing.
    """
    listed = read_listing(listing, file)
    if not listed.target:
        raise ReaderError("this is not an nvdisasm listing: it names no target", Location(file, 1))
    functions = []
    for name, function in listed.functions.items():
        instructions, labels = _FunctionReader(file, function, lines.starts(name)).read()
        entry = name in listed.entries if listed.entries else any(i.opcode.startswith("EXIT") for i in instructions)
        functions.append(Function(name=name, entry=entry, instructions=instructions, labels=labels))
    return Module(
        isa="sass",
        version=f"nvdisasm {version}".rstrip(),
        target=listed.target,
        functions=tuple(functions),
        files=dict(enumerate(lines.files)),
    )


@lru_cache(maxsize=65536)
def _split(operands: str) -> tuple[str, ...]:
    """Split operands, without blanks and remarks."""
    plain = _BLANK_BETWEEN.sub(",", operands.partition("(*")[0].strip())
    return tuple(operand.strip() for operand in _SEPARATOR.split(plain)) if plain else ()


class _FunctionReader:
    """A single pass over a function."""

    def __init__(self, file: str, listed: FunctionListing, sources: Mapping[int, SourceLocation]) -> None:
        self._file, self._listed, self._sources = file, listed, sources

    def read(self) -> tuple[tuple[Instruction, ...], dict[str, int]]:
        """Return the instructions without padding, and the labels with their positions."""
        every = self._instructions()
        instructions = every[: _without_padding(every)]
        places = {instruction.address: instruction.index for instruction in instructions}
        labels = {name: places[offset] for name, offset in self._listed.labels.items() if offset in places}
        resolved = tuple(
            instruction
            if instruction.cls is not InstructionClass.BRANCH
            else _with_flow(instruction, self._targets(instruction, places, labels))
            for instruction in instructions
        )
        return resolved, dict(sorted(labels.items(), key=lambda item: item[1]))

    def _instructions(self) -> list[Instruction]:
        instructions: list[Instruction] = []
        source: SourceLocation | None = None
        least = 0
        for index, listed in enumerate(self._listed.instructions):
            if listed.offset < least or listed.offset % _BYTES:
                raise self._error(
                    f"an instruction at byte {listed.offset:#x}, expected at {least:#x}: "
                    f"instructions of {_BYTES} bytes (Volta and later) in ascending order are read",
                    listed.line,
                )
            least = listed.offset + _BYTES
            source = self._sources.get(listed.offset, source)
            operands = _split(self._with_offsets(listed.operands))
            instructions.append(
                Instruction(
                    index=index,
                    line=listed.line,
                    opcode=listed.opcode,
                    operands=operands,
                    predicate=listed.predicate or None,
                    negated=listed.negated,
                    cls=classify("sass", listed.opcode, operands),
                    address=listed.offset,
                    live_registers=listed.live,
                    source=source,
                )
            )
        return instructions

    def _with_offsets(self, operands: str) -> str:
        """Replace this function's labels by byte offsets, and other symbols by plain names."""
        return _SYMBOL.sub(self._symbol, operands) if "`" in operands else operands

    def _symbol(self, match: re.Match[str]) -> str:
        name = match[1]
        place = self._listed.labels.get(name) if name.startswith(".L") else None
        return name if place is None else f"{place:#x}"

    def _targets(
        self, instruction: Instruction, places: Mapping[int | None, int], labels: Mapping[str, int]
    ) -> tuple[int, ...]:
        if instruction.opcode.partition(".")[0] not in _DIRECT:
            table = self._listed.instructions[instruction.index].table
            return tuple(dict.fromkeys(labels[name] for name in table if name in labels))
        if not instruction.operands or not _ADDRESS.match(instruction.operands[-1]):
            return ()  # a symbol or a register: outside this function
        offset = int(instruction.operands[-1], 16)
        if offset not in places:
            raise self._error(
                f"{instruction.opcode} branches to {offset:#x}, where there is no instruction", instruction.line
            )
        return (places[offset],)

    def _error(self, message: str, line: int) -> ReaderError:
        return ReaderError(message, Location(self._file, line))


def _with_flow(instruction: Instruction, targets: tuple[int, ...]) -> Instruction:
    root, *modifiers = instruction.opcode.split(".")
    always = instruction.predicate is None or (instruction.predicate in {"PT", "UPT"} and not instruction.negated)
    if root in _DIRECT:
        falls = not always or len(instruction.operands) > 1 or not _MAY_FALL.isdisjoint(modifiers)
    else:
        falls = root not in _NEVER_FALLS or not always
    return replace(instruction, targets=targets, falls_through=falls)


def _without_padding(instructions: list[Instruction]) -> int:
    """Return the number of instructions without the trailing self-branch and the NOPs after it."""
    length = len(instructions)
    while length and instructions[length - 1].opcode == "NOP":
        length -= 1
    if length < 2:  # noqa: PLR2004 - a self-branch with nothing before it is the program
        return length
    before, last = instructions[length - 2 : length]
    loops = last.opcode == "BRA" and last.predicate is None and last.operands == (f"{last.address:#x}",)
    root = before.opcode.partition(".")[0]
    ended = before.predicate is None and (root in _NEVER_FALLS or root in _DIRECT)
    return length - 1 if loops and ended else length
