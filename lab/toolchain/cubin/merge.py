"""Merge several cubins into one image per disassembler call, and split the listing again.

The merged image has only what `nvdisasm -c -plr -lrm count` reads: machine code with its relocations, attribute lists,
constants, shared and global memory, call graph and symbols. References between symbols and sections get new numbers.
The image cannot be loaded into a GPU. Layout: System V gABI, chapter 4, with NVIDIA's sections and attributes as
nvdisasm names them (`lab.toolchain.cubin.image`). The attributes that refer to symbols are those that nvdisasm prints
with `index@`.

Names must differ between cubins but keep their lengths, on which the layout of the listing depends. So the first byte
of every name becomes a byte above 127 that stands for the cubin and the original letter. One `bytes.translate` restores
the names, and any line with a name shows to which cubin it belongs.

It is written by hand with `struct`: pyelftools reads ELF images but cannot write them, and LIEF, which can, knows
neither this machine's relocations nor its attribute lists, the part of the work that is not plain ELF.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from lab.toolchain.cubin.image import ENTRY, FORMAT_SIZED, SECTION, SHT_NOBITS, SYMBOL, content_of

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")  # Elf64_Ehdr
_ET_EXEC, _EM_CUDA = 2, 190
_SHT_SYMTAB, _SHT_STRTAB, _SHT_RELA, _SHT_REL = 2, 3, 4, 9
_SHF_INFO_LINK = 0x40
_STT_FUNC, _STT_SECTION = 2, 3
_RESERVED_INDEX = 0xFF00  # SHN_LORESERVE: section numbers are below it
_MOST_ALIGNED = 4096
_NO_SYMBOL = 0xFFFFFFF0  # from here on: marks in a call graph, such as a call through a pointer

_CODE = re.compile(rb"\.text\.(?=.)")
_OWN = re.compile(rb"(?:\.text|\.rela?\.text|\.nv\.info|\.nv\.shared|\.nv\.constant\d+)\.(?=.)")
"""Prefixes of per-kernel sections, which the kernel's name follows."""
_KEPT = re.compile(
    rb"\.nv\.(?:info|callgraph|global|global\.init|constant\d+|shared\.reserved\.0)\Z|" + _OWN.pattern, re.DOTALL
)
_ONCE = frozenset({b".note.nv.cuinfo", b".nv.compat"})
"""Sections that describe the target, down to the `a` of sm_90a. All parts have the same; the first one's is kept."""
_DROPPED = re.compile(
    rb"\.(?:shstrtab|strtab|symtab|note\.nv\.tkinfo)\Z"
    rb"|\.nv\.(?:rel\.action|prototype)\Z|\.nv\.(?:merc|capmerc)\."  # for the driver, and for its own compiler
    rb"|\.(?:rela?\.)?(?:debug_(?:frame|line|str)|nv_debug_line_sass|nv_debug_ptx_txt(?:\.\d+)?)\Z"
    rb"|\.rela?\.nv\.(?:constant\d+|global)(?:\.|\Z)"  # contents that the listing does not show
)

_INDEX_AND_VALUE = frozenset({0x11, 0x12, 0x23, 0x2F})  # FRAME_SIZE, MIN_STACK_SIZE, MAX_STACK_SIZE, REGCOUNT
_EXTERNS, _PARAM_CBANK = 0x0F, 0x0A  # only symbols; a symbol, an offset and a size
_WITHOUT_SYMBOLS = frozenset(
    {0x05, 0x10, 0x17, 0x19, 0x1B, 0x1C, 0x1E, 0x28, 0x29, 0x31, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3D, 0x3E}
    | {0x3F, 0x44, 0x46, 0x4A, 0x4C, 0x50, 0x55, 0x5F, 0x66, 0x6B, 0x6D}
)
"""Attributes in ptxas's cubins whose payload has no symbol: bounds, parameters, offsets in the code."""

_BLOCK = re.compile(rb"^//-{10,} ", re.MULTILINE)
_BETWEEN = b"\n\n"
"""Text after every block but the last."""
_SYMBOLS = re.compile(rb"//-+ SYMBOLS ")
_FOREIGN = re.compile(rb"[\x80-\xff]")
_FIRST_FREE = 0x80


_Kind = tuple[bytes, int, int, int, int, tuple[bytes, ...]]


@dataclass(frozen=True, slots=True)
class _Section:
    number: int
    name: bytes
    header: tuple[int, ...]
    content: bytes


@dataclass(frozen=True, slots=True)
class Part:
    """A cubin that can be merged.

    Attributes:
        kind: Identification, type, machine, version and flags of the ELF header, and the sections that distinguish
            sm_90a from sm_90. Only parts of one kind can be merged.
        sections: Sections that the disassembler reads.
        symbols: Name, st_info, st_other, st_shndx, st_value, st_size.
        symbol_table: Number of the section with the symbols.
    """

    kind: _Kind
    sections: tuple[_Section, ...]
    symbols: tuple[tuple[bytes, int, int, int, int, int], ...]
    symbol_table: int


@dataclass(frozen=True, slots=True)
class Merged:
    """Several cubins in one image.

    Attributes:
        image: The image for the disassembler.
        letters: Maps the first byte of names in its listing to the cubin's index and the original letter.
        parts: Number of cubins.
    """

    image: bytes
    letters: Mapping[int, tuple[int, int]]
    parts: int


def part(cubin: bytes) -> Part:
    """Read a cubin for merging.

    Raises:
        ValueError: The data is not a cubin, or has contents that cannot be merged: debugging information, sections or
            attributes of unknown kinds, functions that are called, code that is not linked.
    """
    try:
        return _part(cubin)
    except (struct.error, IndexError, StopIteration, OverflowError) as error:
        raise ValueError(f"not a whole cubin: {error}") from error


def merge(parts: Sequence[Part]) -> Merged:
    """Merge parts into one image, in their order.

    Args:
        parts: Parts of one kind.

    Raises:
        ValueError: The parts are of several kinds, or their names begin with too many different letters.
    """
    if len({cubin_part.kind for cubin_part in parts}) != 1:
        raise ValueError("cubins of several kinds cannot be merged")
    prefixes = [(place, letter) for place, cubin_part in enumerate(parts) for letter in sorted(_letters(cubin_part))]
    if len(prefixes) > 0x100 - _FIRST_FREE:
        raise ValueError("the names in these cubins begin with too many letters")
    codes = {prefix: _FIRST_FREE + number for number, prefix in enumerate(prefixes)}
    return Merged(_image(parts, codes), {code: prefix for prefix, code in codes.items()}, len(parts))


def split(listing: bytes, merged: Merged) -> list[bytes]:
    """Split a listing into one per cubin, each as nvdisasm prints it except for the layout.

    Args:
        listing: Output of ``nvdisasm -c`` for the merged image, with live registers or without.
        merged: The image.

    Returns:
        The listings in the order of the cubins. The column of live registers and the numbers of labels are still those
        of the merged listing; `lab.toolchain.disassembly.stable_layout` changes both.

    Raises:
        ValueError: A piece of the listing does not belong to exactly one cubin.
    """
    starts = [match.start() for match in _BLOCK.finditer(listing)]
    if not starts or b".map_symbolname" in listing:  # two symbols have one name
        raise ValueError("this listing cannot be split")
    blocks: list[list[bytes]] = [[] for _ in range(merged.parts)]
    for start, end in zip(starts, [*starts[1:], len(listing)], strict=True):
        block = listing[start:end] if end < len(listing) else listing[start:] + _BETWEEN
        if _SYMBOLS.match(block):
            _split_symbols(block, merged, blocks)
        else:
            blocks[_owner(block, merged)].append(block)
    letters = bytes(merged.letters[code][1] if code in merged.letters else code for code in range(256))
    head = listing[: starts[0]]
    return [(head + b"".join(own).removesuffix(_BETWEEN)).translate(letters) for own in blocks]


def _part(cubin: bytes) -> Part:
    header = _HEADER.unpack_from(cubin)
    ident, kind, machine, version, flags = (*header[:4], header[7])
    if not ident.startswith(b"\x7fELF\x02\x01") or machine != _EM_CUDA or kind != _ET_EXEC:
        raise ValueError("not a linked 64-bit cubin")
    headers = [SECTION.unpack_from(cubin, header[6] + number * SECTION.size) for number in range(header[12])]
    names = content_of(cubin, headers[header[13]])
    every = [
        _Section(number, _string(names, section_header[0]), section_header, content_of(cubin, section_header))
        for number, section_header in enumerate(headers)
    ]
    table = next(section for section in every if section.name == b".symtab")
    strings = every[table.header[6]].content
    kept_sections = tuple(section for section in every[1:] if _is_kept(section.name))
    if any(section.header[8] > _MOST_ALIGNED for section in kept_sections):
        raise ValueError("a section is aligned to more than a page")
    if not any(_CODE.match(section.name) for section in kept_sections):
        raise ValueError("no machine code")
    symbols = tuple((_string(strings, name), *fields) for name, *fields in SYMBOL.iter_unpack(table.content))
    if any(info & 0xF == _STT_FUNC and not st_other & ENTRY for _, info, st_other, *_ in symbols):
        raise ValueError("a function is called: live registers at a call depend on all kernels of an image")
    if any(not name.isascii() for name in chain((s.name for s in kept_sections), (symbol[0] for symbol in symbols))):
        raise ValueError("a name is not ASCII")
    target = tuple(section.content for section in kept_sections if section.name in _ONCE)
    merged_part = Part((ident, kind, machine, version, flags, target), kept_sections, symbols, table.number)
    _image(
        [merged_part], {(0, letter): letter for letter in _letters(merged_part)}
    )  # raises for any other contents that cannot be merged
    return merged_part


def _is_kept(name: bytes) -> bool:
    if name in _ONCE or _KEPT.match(name):
        return True
    if _DROPPED.match(name):
        return False
    raise ValueError(f"an unknown section: {name.decode(errors='replace')}")


def _string(table: bytes, offset: int) -> bytes:
    end = table.find(b"\0", offset)
    if end < 0:
        raise ValueError("a name is beyond the end")
    return table[offset:end]


def _place_of_letter(name: bytes, *, section: bool) -> int | None:
    """Return the index of the letter that encodes the cubin; None for shared sections, whose names are kept."""
    if section:
        match = _OWN.match(name)
        return match.end() if match and not name.startswith(b".nv.shared.reserved.") else None
    return 0 if name else None


def _named(cubin_part: Part) -> Iterator[tuple[bytes, int | None]]:
    for section in cubin_part.sections:
        yield section.name, _place_of_letter(section.name, section=True)
    for name, info, *_ in cubin_part.symbols:
        yield name, _place_of_letter(name, section=info & 0xF == _STT_SECTION)


def _letters(cubin_part: Part) -> set[int]:
    return {name[place] for name, place in _named(cubin_part) if place is not None}


def _renamed(name: bytes, letters: Mapping[int, int], *, section: bool) -> bytes:
    place = _place_of_letter(name, section=section)
    return name if place is None else name[:place] + bytes([letters[name[place]]]) + name[place + 1 :]


class _Strings:
    """A growing string table."""

    def __init__(self) -> None:
        self.content = bytearray(1)

    def add(self, name: bytes) -> int:
        if not name:
            return 0
        self.content += name + b"\0"
        return len(self.content) - len(name) - 1


def _image(parts: Sequence[Part], codes: Mapping[tuple[int, int], int]) -> bytes:
    """Return the ELF image: header, contents, section headers. Sections 1 to 3: names, symbols' names, symbols."""
    names, strings = _Strings(), _Strings()
    fixed = [names.add(name) for name in (b".shstrtab", b".strtab", b".symtab")]
    symbols = [SYMBOL.pack(0, 0, 0, 0, 0, 0)]
    sections: list[tuple[tuple[int, ...], bytes]] = []
    next_section = 4
    for place, cubin_part in enumerate(parts):
        letters = {letter: code for (owner, letter), code in codes.items() if owner == place}
        kept_sections = [section for section in cubin_part.sections if place == 0 or section.name not in _ONCE]
        section_of = {section.number: next_section + offset for offset, section in enumerate(kept_sections)}
        next_section += len(kept_sections)
        symbol_of = {0: 0}
        for number, (name, info, st_other, index, value, size) in enumerate(cubin_part.symbols):
            if number and (index == 0 or index >= _RESERVED_INDEX or index in section_of):
                symbol_of[number] = len(symbols)
                renamed = _renamed(name, letters, section=info & 0xF == _STT_SECTION)
                symbols.append(
                    SYMBOL.pack(strings.add(renamed), info, st_other, section_of.get(index, index), value, size)
                )
        numbers = _Numbers(cubin_part.symbol_table, section_of, symbol_of)
        for section in kept_sections:
            own = names.add(_renamed(section.name, letters, section=True))
            sections.append(((own, *_header(section, numbers)[1:]), _rewritten(section, numbers)))
    tables = [
        ((fixed[0], _SHT_STRTAB, 0, 0, 0, 0, 0, 0, 1, 0), bytes(names.content)),
        ((fixed[1], _SHT_STRTAB, 0, 0, 0, 0, 0, 0, 1, 0), bytes(strings.content)),
        ((fixed[2], _SHT_SYMTAB, 0, 0, 0, 0, 2, len(symbols), 8, SYMBOL.size), b"".join(symbols)),
    ]
    return _written(parts[0].kind, [*tables, *sections])


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The mapping from section and symbol numbers of one cubin to those of the merged image."""

    symbol_table: int
    section_of: Mapping[int, int]
    symbol_of: Mapping[int, int]

    def symbol(self, number: int) -> int:
        try:
            return self.symbol_of[number]
        except KeyError:
            raise ValueError("reference to a symbol that is not kept") from None


def _header(section: _Section, numbers: _Numbers) -> tuple[int, ...]:
    name, kind, flags, address, offset, size, link, info, alignment, entry = section.header
    link = 3 if link == numbers.symbol_table else numbers.section_of.get(link, 0)
    if _CODE.match(section.name):  # the kernel's symbol, and in the upper 8 bits its registers
        info = info & 0xFF000000 | numbers.symbol(info & 0xFFFFFF)
    elif flags & _SHF_INFO_LINK or kind in (_SHT_REL, _SHT_RELA):
        if info not in numbers.section_of:
            raise ValueError("reference to a section that is not kept")
        info = numbers.section_of[info]
    return name, kind, flags, address, offset, size, link, info, alignment, entry


def _rewritten(section: _Section, numbers: _Numbers) -> bytes:
    """Return a section's content with the new numbers of symbols."""
    kind, content = section.header[1], section.content
    if kind == _SHT_RELA:
        entries = struct.iter_unpack("<QIIq", content)  # r_offset, r_info's type and symbol, r_addend
        return b"".join(struct.pack("<QIIq", at, r_type, numbers.symbol(s), add) for at, r_type, s, add in entries)
    if kind == _SHT_REL:
        return b"".join(
            struct.pack("<QII", at, r_type, numbers.symbol(s)) for at, r_type, s in struct.iter_unpack("<QII", content)
        )
    if section.name.startswith(b".nv.info"):
        return b"".join(_attributes(content, numbers))
    if section.name == b".nv.callgraph":
        pairs = chain.from_iterable(struct.iter_unpack("<II", content))
        return b"".join(struct.pack("<I", s if s >= _NO_SYMBOL else numbers.symbol(s)) for s in pairs)
    return content


def _attributes(content: bytes, numbers: _Numbers) -> Iterator[bytes]:
    at = 0
    while at < len(content):
        kind, key, size = struct.unpack_from("<BBH", content, at)
        payload = content[at + 4 : at + 4 + size] if kind == FORMAT_SIZED else b""
        yield content[at : at + 4]
        yield _payload(kind, key, payload, numbers)
        at += 4 + len(payload)


def _payload(kind: int, key: int, payload: bytes, numbers: _Numbers) -> bytes:
    if key in _WITHOUT_SYMBOLS:
        return payload
    if kind == FORMAT_SIZED and (key in _INDEX_AND_VALUE or key == _PARAM_CBANK):
        (symbol,) = struct.unpack_from("<I", payload)
        return struct.pack("<I", numbers.symbol(symbol)) + payload[4:]
    if kind == FORMAT_SIZED and key == _EXTERNS:
        return b"".join(struct.pack("<I", numbers.symbol(symbol)) for (symbol,) in struct.iter_unpack("<I", payload))
    raise ValueError(f"an unknown attribute: {key:#x}")


def _written(kind: _Kind, sections: Iterable[tuple[tuple[int, ...], bytes]]) -> bytes:
    body, headers = bytearray(_HEADER.size), [bytes(SECTION.size)]
    for (name, type_, flags, address, _, size, link, info, alignment, entry), content in sections:
        body += bytes(-len(body) % max(1, alignment))
        length = size if type_ == SHT_NOBITS else len(content)
        headers.append(SECTION.pack(name, type_, flags, address, len(body), length, link, info, alignment, entry))
        body += content
    body += bytes(-len(body) % 8)
    ident, type_of_file, machine, version, flags, _ = kind
    _HEADER.pack_into(
        body, 0, ident, type_of_file, machine, version, 0, 0, len(body), flags,
        _HEADER.size, 0, 0, SECTION.size, len(headers), 1,
    )  # fmt: skip
    return bytes(body) + b"".join(headers)


def _owner(text: bytes, merged: Merged) -> int:
    """Return the index of the cubin to which a block of the listing belongs, by the names in it."""
    match = _FOREIGN.search(text.partition(b"\n")[0])
    if match is None:
        raise ValueError("a block of the listing does not belong to any cubin")
    owner = merged.letters[match[0][0]][0]
    if any(merged.letters[code][0] != owner for code in set(_FOREIGN.findall(text)) for code in code):
        raise ValueError("a block of the listing belongs to several cubins")
    return owner


def _split_symbols(block: bytes, merged: Merged, blocks: list[list[bytes]]) -> None:
    """Divide a block of undefined symbols, one or two lines each, after a title and a blank line."""
    title, _, body = block.partition(b"\n\n")
    own: list[list[bytes]] = [[] for _ in blocks]
    for line in body.removesuffix(_BETWEEN).splitlines(keepends=True):
        own[_owner(line, merged)].append(line)
    for lines, block_of in zip(own, blocks, strict=True):
        if lines:
            block_of.append(title + b"\n\n" + b"".join(lines) + _BETWEEN)
