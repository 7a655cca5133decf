"""Everything in a cubin that decides a kernel's behaviour: code, attributes, constants, and the data that they name.

The layout is that of `lab.toolchain.cubin.image`. Symbols give the variables in `.nv.constant3` (``__constant__``),
`.nv.global.init` and `.nv.global` (``__device__``). Relocations name them in `.nv.constant4`, the bank of addresses.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lab.diff.demangle import stable_symbol
from lab.toolchain.cubin.image import SYMBOL, CubinKernel, Section, attributes_in, kernels, sections

_RELA, _REL = struct.Struct("<QQq"), struct.Struct("<QQ")
_OBJECT, _FUNCTION = 1, 2
_OWN_BANK = re.compile(r"\.nv\.constant([1-9]\d*)\.(.+)", re.DOTALL)
_SHARED_BANK = re.compile(r"\.nv\.constant([1-9]\d*)")
_RELOCATIONS = re.compile(r"\.rela?(\..+)", re.DOTALL)

_PARAM_CBANK, _EXTERNS, _API_VERSION = 0x0A, 0x0F, 0x37
_BY_SYMBOL: Final = frozenset({0x11, 0x12, 0x23, 0x2F})
"""Attributes in `.nv.info` that hold the index of a symbol and a value."""

_NAMES: Final[Mapping[int, str]] = {
    0x05: "MAX_THREADS", 0x10: "REQNTID", 0x11: "FRAME_SIZE", 0x12: "MIN_STACK_SIZE", 0x17: "KPARAM_INFO",
    0x19: "CBANK_PARAM_SIZE", 0x1B: "MAXREG_COUNT", 0x1C: "EXIT_INSTR_OFFSETS", 0x1E: "CRS_STACK_SIZE",
    0x23: "MAX_STACK_SIZE", 0x28: "COOP_GROUP_INSTR_OFFSETS", 0x2F: "REGCOUNT", 0x31: "INT_WARP_WIDE_INSTR_OFFSETS",
    0x34: "INDIRECT_BRANCH_TARGETS", 0x36: "SW_WAR", 0x39: "MBARRIER_INSTR_OFFSETS", 0x3D: "CTA_PER_CLUSTER",
    0x3E: "EXPLICIT_CLUSTER", 0x3F: "MAX_CLUSTER_RANK", 0x46: "SYSCALL_OFFSETS", 0x4C: "NUM_BARRIERS",
    0x50: "SPARSE_MMA_MASK", 0x55: "ANNOTATIONS", _PARAM_CBANK: "PARAM_CBANK", _EXTERNS: "EXTERNS",
}  # fmt: skip
"""EIATTR_* names as nvdisasm prints them."""

OF_CODE: Final = frozenset(
    {"EXIT_INSTR_OFFSETS", "COOP_GROUP_INSTR_OFFSETS", "INT_WARP_WIDE_INSTR_OFFSETS", "INDIRECT_BRANCH_TARGETS"}
    | {"MBARRIER_INSTR_OFFSETS", "SYSCALL_OFFSETS", "ANNOTATIONS"}
)
"""Attributes that list places in the code, which move with every instruction."""


@dataclass(frozen=True, slots=True)
class CubinVariable:
    """A variable in a section of a cubin.

    Attributes:
        section: Its section.
        offset: Its place there, in bytes.
        size: Its size in bytes.
        content: Its initial value; empty where the section has none.
    """

    section: str
    offset: int
    size: int
    content: bytes

    @property
    def digest(self) -> str:
        """The size and a hash of the contents."""
        return f"{self.size} bytes, {hashlib.sha256(self.content).hexdigest()[:12] if self.content else 'zero'}"


class CubinImage:
    """A cubin with its symbols and relocations.

    Args:
        cubin: The image.

    Raises:
        ValueError: It is not a complete cubin.
    """

    def __init__(self, cubin: bytes) -> None:
        self.resources: dict[str, CubinKernel] = kernels(cubin)
        self._digests: dict[str, str] = {}
        try:
            self._sections: list[Section] = list(sections(cubin))
            self._by_name = {section.name: section for section in self._sections}
            self._symbols = list(self._read_symbols())
        except (struct.error, IndexError, KeyError, UnicodeDecodeError, OverflowError) as error:
            raise ValueError(f"not a complete cubin: {error}") from error

    def _read_symbols(self) -> Iterator[tuple[str, int, int, int, int]]:
        """Yield name, type, section index, value and size of each symbol."""
        names = self._by_name[".strtab"].content
        for name, info, _, place, value, size in SYMBOL.iter_unpack(self._by_name[".symtab"].content):
            yield names[name : names.index(b"\0", name)].decode(), info & 15, place, value, size

    @cached_property
    def variables(self) -> dict[str, CubinVariable]:
        """Variables by symbol."""
        variables = {}
        for name, kind, place, value, size in self._symbols:
            if kind == _OBJECT and 0 < place < len(self._sections):
                section = self._sections[place]
                variables[name] = CubinVariable(section.name, value, size, section.content[value : value + size])
        return variables

    def code(self, symbol: str) -> bytes:
        """Return the machine code of a kernel or a device function; empty where the image has none."""
        section = self._by_name.get(f".text.{symbol}")
        return section.content if section else b""

    def variable_at(self, bank: int, offset: int) -> tuple[str, int] | None:
        """Return the variable at a place of a constant bank, with the distance from its start.

        In bank 4, the variable is that whose address stands there.
        """
        section = f".nv.constant{bank}"
        relocations = self.relocations(section)
        if named := relocations.get(offset):
            return named
        if high := relocations.get(offset - 4):
            return high[0], high[1] + 4  # the upper half of an address
        for name, variable in self.variables.items():
            if variable.section == section and variable.offset <= offset < variable.offset + max(1, variable.size):
                return name, offset - variable.offset
        return None

    def pointers_in(self, variable: CubinVariable) -> dict[int, tuple[str, int]]:
        """Return the symbols whose addresses a variable holds, by byte offset in it."""
        return {
            offset - variable.offset: named
            for offset, named in self.relocations(variable.section).items()
            if variable.offset <= offset < variable.offset + variable.size
        }

    def relocations(self, section: str) -> dict[int, tuple[str, int]]:
        """Return the symbol and addend of every relocated place in a section, by byte offset."""
        return self._relocations.get(section, {})

    @cached_property
    def _relocations(self) -> dict[str, dict[int, tuple[str, int]]]:
        by_section: dict[str, dict[int, tuple[str, int]]] = {}
        for section in self._sections:
            match = _RELOCATIONS.fullmatch(section.name)
            if match is None or "debug" in section.name:
                continue
            rows = by_section.setdefault(match[1], {})
            if section.name.startswith(".rela."):
                for offset, info, addend in _RELA.iter_unpack(section.content):
                    rows[offset] = self._symbols[info >> 32][0], addend
            else:
                for offset, info in _REL.iter_unpack(section.content):
                    rows[offset] = self._symbols[info >> 32][0], 0
        return by_section

    def own_banks(self, symbol: str) -> dict[str, bytes]:
        """Return the constant banks of one kernel without bank 0, which holds its parameters."""
        return self._own_banks.get(symbol, {})

    @cached_property
    def _own_banks(self) -> dict[str, dict[str, bytes]]:
        banks: dict[str, dict[str, bytes]] = {}
        for section in self._sections:
            if match := _OWN_BANK.fullmatch(section.name):
                banks.setdefault(match[2], {})[match[1]] = section.content
        return banks

    @cached_property
    def shared_banks(self) -> dict[str, bytes]:
        """The constant banks of all kernels, and initialised variables in global memory."""
        return {
            section.name: section.content
            for section in self._sections
            if _SHARED_BANK.fullmatch(section.name) or section.name in (".nv.global.init", ".nv.global")
        }

    def attributes(self, symbol: str) -> tuple[tuple[str, str], ...]:
        """Return a kernel's attributes: name and value in hexadecimal, sorted.

        Indices of symbols are left out or resolved, and so is the version of CUDA's API, which the toolchain decides.
        """
        rows = list(self._shared_attributes.get(symbol, ()))
        for key, payload in attributes_in(self._by_name.get(f".nv.info.{symbol}")):
            if key == _API_VERSION:
                continue
            if key == _PARAM_CBANK:
                payload = payload[4:]  # noqa: PLW2901 - without the index of a section's symbol
            elif key == _EXTERNS:
                names = sorted(self._symbols[index][0] for (index,) in struct.iter_unpack("<I", payload))
                payload = " ".join(names).encode()  # noqa: PLW2901 - names in place of indices
            rows.append((_name(key), payload.hex()))
        return tuple(sorted(rows))

    @cached_property
    def _shared_attributes(self) -> dict[str, list[tuple[str, str]]]:
        """Attributes of `.nv.info` by symbol."""
        rows: dict[str, list[tuple[str, str]]] = {}
        for key, payload in attributes_in(self._by_name.get(".nv.info")):
            if key in _BY_SYMBOL and len(payload) == 8:  # noqa: PLR2004 - two words
                index, value = struct.unpack("<II", payload)
                rows.setdefault(self._symbols[index][0], []).append((_name(key), f"{value:#x}"))
        return rows

    def digest(self, symbol: str) -> str:
        """Return a hash of everything that can decide a kernel's behaviour, names of internal linkage made stable.

        Two kernels with one digest are identical. Kernels with two digests may still be: the digest covers all
        variables and constants of the image, since only the listing shows which of them the kernel uses.
        """
        if symbol not in self._digests:
            self._digests[symbol] = self._digest(symbol)
        return self._digests[symbol]

    def _digest(self, symbol: str) -> str:
        digest = self._shared_digest.copy()
        _add(digest, "kernel", self.code(symbol))
        self._add_relocations(digest, f".text.{symbol}")
        for bank, content in sorted(self.own_banks(symbol).items()):
            _add(digest, bank, content)
            self._add_relocations(digest, f".nv.constant{bank}.{symbol}")
        _add(digest, "attributes", repr(self.attributes(symbol)).encode())
        _add(digest, "resources", repr(self.resources[symbol]).encode())
        return digest.hexdigest()

    @cached_property
    def _shared_digest(self) -> hashlib._Hash:
        """The digest of what all kernels of the image share: functions, constants and variables."""
        digest = hashlib.sha256()
        for name in sorted(self._by_name):
            if name.startswith(".text.") and name[6:] not in self.resources:
                _add(digest, stable_symbol(name), self._by_name[name].content)
                self._add_relocations(digest, name)
        for bank, content in sorted(self.shared_banks.items()):
            _add(digest, bank, content)
            self._add_relocations(digest, bank)
        for name, variable in sorted((stable_symbol(n), v) for n, v in self.variables.items()):
            _add(digest, name, f"{variable.section} {variable.offset} {variable.size}".encode())
        return digest

    def _add_relocations(self, digest: hashlib._Hash, section: str) -> None:
        rows = [(offset, stable_symbol(name), addend) for offset, (name, addend) in self.relocations(section).items()]
        _add(digest, "relocations", repr(sorted(rows)).encode())


def _add(digest: hashlib._Hash, name: str, content: bytes) -> None:
    digest.update(f"{name} {len(content)} ".encode())
    digest.update(content)


def _name(key: int) -> str:
    return _NAMES.get(key, f"attribute {key:#x}")
