"""The SASS reader: nvdisasm's JSON, with its text listing where there is one, to the instruction model.

Volta and later encode every instruction in 16 bytes; the JSON carries no addresses, so an instruction's address is
its position times 16. Branch targets are byte offsets in the function's section.

Control flow, as far as it is not plain: `BSSY` names the point where threads meet again and does not branch; `BSYNC`,
`WARPSYNC` and `BREAK` go on with the next instruction, as does a `CALL` after its return; `BRA` with a predicate among
its operands or a modifier such as `DIV` may go on; `BRX` goes where the listing's jump table says, and nowhere that is
known without a listing. A subroutine that ptxas placed behind a kernel belongs to the kernel's section and so to its
instructions.

The self-branch behind a function's last exit and the padding NOPs after it are dropped.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from lab.base.errors import Location, ReaderError
from lab.isa.classes import classify
from lab.isa.model import Function, Instruction, InstructionClass, Module, SourceLocation
from lab.isa.sass.listing import FunctionListing, Listing, read_listing

_BYTES: Final = 16
_OFFSET = re.compile(r"0x[0-9a-fA-F]{1,16}\Z")
_SEPARATOR = re.compile(r",(?![^\[{(]*[\]})])")
_MAY_FALL = {"DIV", "CONV", "ANY"}
_NEVER_FALLS = {"EXIT", "RET", "BRX", "BRXU", "JMX", "JMXU", "RTT"}
_DIRECT = {"BRA", "JMP"}


def read_sass(json_text: str, listing: str | None = None, file: str = "<sass>") -> Module:
    """Read the disassembly of a cubin.

    Args:
        json_text: Output of ``nvdisasm --emit-json``.
        listing: Output of ``nvdisasm -c -plr -lrm count`` for the same cubin. It adds lines, live registers, labels
            (`.L_x_2`), jump tables, and which functions are kernels. Without it, an instruction's line is its
            position from 1, labels are addresses (`0x1e0`), and a function is a kernel if it has an `EXIT`.
        file: The listing's name, for messages.

    Raises:
        ReaderError: the JSON is broken, is not of that kind, or branches to where no instruction is.
    """
    return _Reader(file, read_listing(listing) if listing is not None else None).read(json_text)


@lru_cache(maxsize=65536)
def _split(operands: str) -> tuple[str, ...]:
    return tuple(operand.strip() for operand in _SEPARATOR.split(operands)) if operands else ()


class _Reader:
    """One pass over the JSON."""

    def __init__(self, file: str, listing: Listing | None) -> None:
        self._file, self._listing = file, listing
        self._files: dict[int, str] = {}

    def read(self, text: str) -> Module:
        try:
            document = json.loads(text)
        except json.JSONDecodeError as error:
            raise ReaderError(f"broken JSON: {error.msg}", Location(self._file, error.lineno)) from error
        except (RecursionError, ValueError) as error:
            raise self._error("JSON nested too deep or a number too long", 1) from error
        match document:
            case [dict(facts), list(functions), *rest] if len(rest) <= 1:
                self._files = _file_names(rest[0]) if rest else {}
                return Module(
                    isa="sass",
                    version=str(facts.get("Producer", "")),
                    target=self._target(facts),
                    functions=tuple(self._function(function) for function in functions),
                    files=self._files,
                )
        raise self._error("this is not the JSON that nvdisasm writes", 1)

    def _error(self, message: str, line: int) -> ReaderError:
        return ReaderError(message, Location(self._file, line))

    def _target(self, facts: dict[str, Any]) -> str:
        if self._listing is not None and self._listing.target:
            return self._listing.target
        match facts:
            case {"SM": {"version": {"major": int(major), "minor": int(minor)}}}:
                return f"sm_{major}{minor}"
        raise self._error("the JSON does not say which SM it is for", 1)

    def _function(self, value: object) -> Function:
        match value:
            case {"function-name": str(name), "start": int(start), "sass-instructions": list(raw)}:
                pass
            case _:
                raise self._error("a function without a name, a start or instructions", 1)
        listed = self._listing.functions.get(name) if self._listing is not None else None
        sources = _sources(raw, self._files)
        instructions = [
            self._instruction(item, index, start, listed, source)
            for index, (item, source) in enumerate(zip(raw, sources, strict=True))
        ]
        resolved, labels = self._resolve(instructions[: _without_padding(instructions)], listed)
        entries = self._listing.entries if self._listing is not None else set()
        entry = name in entries if entries else any(i.opcode.startswith("EXIT") for i in resolved)
        return Function(name=name, entry=entry, instructions=resolved, labels=labels)

    def _instruction(
        self, item: object, index: int, start: int, listed: FunctionListing | None, source: SourceLocation | None
    ) -> Instruction:
        opcode = item.get("opcode") if isinstance(item, dict) else None
        if not isinstance(item, dict) or not isinstance(opcode, str) or not opcode:
            raise self._error(f"instruction {index} has no opcode", 1)
        guard, text = item.get("predicate", ""), item.get("operands", "")
        if not isinstance(guard, str) or not isinstance(text, str):
            raise self._error(f"the operands of instruction {index} cannot be read", 1)
        address, operands = start + index * _BYTES, _split(text)
        predicate = guard.removeprefix("@")
        return Instruction(
            index=index,
            line=listed.lines.get(address, index + 1) if listed else index + 1,
            opcode=opcode,
            operands=operands,
            predicate=predicate.removeprefix("!") or None,
            negated=predicate.startswith("!"),
            cls=classify("sass", opcode, operands),
            address=address,
            live_registers=listed.live.get(address) if listed else None,
            source=source,
        )

    def _resolve(
        self, instructions: list[Instruction], listed: FunctionListing | None
    ) -> tuple[tuple[Instruction, ...], dict[str, int]]:
        """Give branches their targets, and the places they lead to their labels."""
        places = {instruction.address: instruction.index for instruction in instructions}
        names = listed.labels if listed else {}
        labels = {name: places[offset] for name, offset in names.items() if offset in places}
        resolved: list[Instruction] = []
        for instruction in instructions:
            if instruction.cls is not InstructionClass.BRANCH:
                resolved.append(instruction)
                continue
            tables = listed.tables.get(instruction.address or 0, ()) if listed else ()
            targets = self._targets(instruction, places, tuple(labels[name] for name in tables if name in labels))
            resolved.append(_with_flow(instruction, targets))
            for target in targets:
                if not listed:
                    labels.setdefault(f"0x{instructions[target].address:x}", target)
        return tuple(resolved), dict(sorted(labels.items(), key=lambda item: item[1]))

    def _targets(
        self, instruction: Instruction, places: dict[int | None, int], table: tuple[int, ...]
    ) -> tuple[int, ...]:
        if instruction.opcode.partition(".")[0] not in _DIRECT:
            return tuple(dict.fromkeys(table))
        if not instruction.operands or not _OFFSET.match(instruction.operands[-1]):
            return ()  # a symbol or a register: outside this function
        offset = int(instruction.operands[-1], 16)
        if offset not in places:
            raise self._error(f"{instruction.opcode} leads to {offset:#x}, where no instruction is", instruction.line)
        return (places[offset],)


def _file_names(table: object) -> dict[int, str]:
    """The file table that nvdisasm appends with `--print-line-info`: number to path."""
    match table:
        case {"files": list(files), "directories": list(folders)}:
            pass
        case _:
            return {}
    names: dict[int, str] = {}
    for number, entry in enumerate(files):
        match entry:
            case {"file": str(name), "dir-idx": int(folder)} if isinstance(folders, list) and 0 <= folder < len(
                folders
            ):
                names[number] = f"{str(folders[folder]).rstrip('/')}/{name}"
            case {"file": str(name)}:
                names[number] = name
    return names


def _sources(raw: list[Any], files: dict[int, str]) -> list[SourceLocation | None]:
    """Source lines of instructions; nvdisasm names a line where it changes and not again until the next."""
    source: SourceLocation | None = None
    sources: list[SourceLocation | None] = []
    for item in raw:
        match item:
            case {"source-line": int(line), "source-file-id": int(number)} if number in files:
                source = SourceLocation(files[number], line)
        sources.append(source)
    return sources


def _with_flow(instruction: Instruction, targets: tuple[int, ...]) -> Instruction:
    root, *modifiers = instruction.opcode.split(".")
    always = instruction.predicate is None or (instruction.predicate in {"PT", "UPT"} and not instruction.negated)
    if root in _DIRECT:
        falls = not always or len(instruction.operands) > 1 or not _MAY_FALL.isdisjoint(modifiers)
    else:
        falls = root not in _NEVER_FALLS or not always
    return replace(instruction, targets=targets, falls_through=falls)


def _without_padding(instructions: list[Instruction]) -> int:
    """Instructions that remain without the trailing self-branch and the NOPs behind it."""
    length = len(instructions)
    while length and instructions[length - 1].opcode == "NOP":
        length -= 1
    if length < 2:  # noqa: PLR2004 -- a self-branch with nothing before it is the program
        return length
    before, last = instructions[length - 2 : length]
    loops = last.opcode == "BRA" and last.predicate is None and last.operands == (f"{last.address:#x}",)
    root = before.opcode.partition(".")[0]
    ended = before.predicate is None and (root in _NEVER_FALLS or root in _DIRECT)
    return length - 1 if loops and ended else length
