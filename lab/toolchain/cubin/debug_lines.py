"""Read the source lines of a cubin's instructions by executing its `.debug_line` section.

The section is a DWARF line number program (DWARF 3 standard, section 6.2; `--generate-line-info` writes version 3). Its
addresses are byte offsets in a function's `.text` section, which a relocation names. It is read by hand,
since a library for all of DWARF is a heavy dependency for one section with a dozen opcodes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from lab.isa.sass.lines import LineTable
from lab.toolchain.cubin.image import SYMBOL, sections

_RELA, _REL = struct.Struct("<QQq"), struct.Struct("<QQ")
_END_SEQUENCE, _SET_ADDRESS = 1, 2  # extended opcodes; NVIDIA's own, for inlined calls, state their length
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE = 1, 2, 3, 4
_CONST_ADD_PC, _FIXED_ADVANCE_PC = 8, 9
_VERSIONS = range(2, 5)


def line_table(cubin: bytes) -> LineTable:
    """Read the line table of a cubin; empty if it has none, or one of an unknown version.

    Raises:
        ValueError: The data is not an ELF image, or its line table is broken.
    """
    try:
        listed = list(sections(cubin))
        contents = {section.name: section.content for section in listed}
        if ".debug_line" not in contents:
            return LineTable()
        reader = _LineProgram(contents[".debug_line"], _relocations(contents, [section.name for section in listed]))
        reader.read()
    except (struct.error, IndexError, KeyError, UnicodeDecodeError, OverflowError) as error:
        raise ValueError(f"not a complete line table: {error}") from error
    return LineTable(tuple(reader.files), reader.rows)


def _relocations(contents: Mapping[str, bytes], order: Sequence[str]) -> dict[int, str]:
    """Map offsets in `.debug_line` to the functions whose addresses belong there; `order` names sections by number."""
    names, symbols = contents[".strtab"], contents[".symtab"]
    places: dict[int, str] = {}
    for layout, section in ((_RELA, ".rela.debug_line"), (_REL, ".rel.debug_line")):
        if section in contents:
            for offset, info, *_ in layout.iter_unpack(contents[section]):
                name, _, _, index, _, _ = SYMBOL.unpack_from(symbols, (info >> 32) * SYMBOL.size)
                text = order[index] if index < len(order) else ""
                symbol_name = names[name : names.index(b"\0", name)].decode()
                places[offset] = (text if text.startswith(".text.") else symbol_name).removeprefix(".text.")
    return places


@dataclass
class _State:
    """Registers of the line number machine, and the rows of the current function."""

    rows: dict[int, tuple[int, int]]
    address: int = 0
    file: int = 1
    line: int = 1


@dataclass
class _LineProgram:
    """One pass over the section."""

    content: bytes
    functions: Mapping[int, str]
    files: list[str] = field(default_factory=list)
    rows: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)

    def read(self) -> None:
        at = 0
        while at + 6 <= len(self.content):
            length, version = struct.unpack_from("<IH", self.content, at)
            end = at + 4 + length
            if version in _VERSIONS:
                self._unit(at, end, version)
            at = end

    def _unit(self, at: int, end: int, version: int) -> None:
        (header,) = struct.unpack_from("<I", self.content, at + 6)
        body = at + 10 + header
        step_bytes = self.content[at + 10]
        at += 11 if version < 4 else 12  # noqa: PLR2004 - version 4 has one more field: operations of an instruction
        _, base, span, first_special = struct.unpack_from("<BbBB", self.content, at)
        operands = self.content[at + 4 : at + 3 + first_special]
        numbers = self._file_names(at + 3 + first_special)
        self._program(body, end, (step_bytes, base, span, first_special), operands, numbers)

    def _file_names(self, at: int) -> list[int]:
        """Return the indices in `files` of the unit's files, whose numbers begin at 1."""
        folders = [""]
        while self.content[at]:
            name, at = self._string(at)
            folders.append(name)
        at, numbers = at + 1, [-1]
        while self.content[at]:
            name, at = self._string(at)
            folder, at = self._unsigned(at)
            for _ in range(2):  # time of change, and size
                _, at = self._unsigned(at)
            file = str(PurePosixPath(folders[folder], name))  # an absolute name replaces its folder
            if file not in self.files:
                self.files.append(file)
            numbers.append(self.files.index(file))
        return numbers

    def _program(
        self, at: int, end: int, shape: tuple[int, int, int, int], operands: bytes, numbers: list[int]
    ) -> None:
        step_bytes, base, span, first_special = shape
        state = _State(self.rows.setdefault("", {}))
        while at < end:
            opcode, at = self.content[at], at + 1
            if opcode >= first_special:
                step, change = divmod(opcode - first_special, span)
                state.address, state.line = state.address + step_bytes * step, state.line + base + change
                state.rows[state.address] = (numbers[state.file], state.line)
            elif opcode == 0:
                size, at = self._unsigned(at)
                self._extended(at, state)
                at += size
            elif opcode == _COPY:
                state.rows[state.address] = (numbers[state.file], state.line)
            elif opcode == _CONST_ADD_PC:
                state.address += step_bytes * ((255 - first_special) // span)
            else:
                at = self._standard(opcode, at, state, step_bytes, operands)

    def _extended(self, at: int, state: _State) -> None:
        kind = self.content[at]
        if kind == _SET_ADDRESS:
            (state.address,) = struct.unpack_from("<Q", self.content, at + 1)
            state.rows = self.rows.setdefault(self.functions.get(at + 1, ""), {})
        elif kind == _END_SEQUENCE:
            state.address, state.file, state.line = 0, 1, 1

    def _standard(self, opcode: int, at: int, state: _State, step_bytes: int, operands: bytes) -> int:
        """Execute an opcode with operands, and return the position of the next one."""
        if opcode == _ADVANCE_PC:
            step, at = self._unsigned(at)
            state.address += step_bytes * step
        elif opcode == _ADVANCE_LINE:
            change, at = self._signed(at)
            state.line += change
        elif opcode == _SET_FILE:
            state.file, at = self._unsigned(at)
        elif opcode == _FIXED_ADVANCE_PC:
            state.address, at = state.address + struct.unpack_from("<H", self.content, at)[0], at + 2
        else:
            for _ in range(operands[opcode - 1]):
                _, at = self._unsigned(at)
        return at

    def _string(self, at: int) -> tuple[str, int]:
        end = self.content.index(b"\0", at)
        return self.content[at:end].decode(), end + 1

    def _unsigned(self, at: int) -> tuple[int, int]:
        """Read an unsigned LEB128 number, and return it with the position of the next byte."""
        value = shift = 0
        while True:
            byte, at = self.content[at], at + 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:  # noqa: PLR2004 - the top bit is set if more bytes follow
                return value, at

    def _signed(self, at: int) -> tuple[int, int]:
        """Read a signed LEB128 number, and return it with the position of the next byte."""
        start = at
        value, at = self._unsigned(at)
        bits = 7 * (at - start)
        return (value - (1 << bits) if value >> (bits - 1) else value), at
