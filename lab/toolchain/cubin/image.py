"""What a cubin's ELF image itself says about its kernels' use of resources.

The layout is ELF's own (System V gABI, chapter 4) with NVIDIA's sections, whose names and attributes
nvdisasm prints (`nvdisasm FILE` without `-c`): `.text.<kernel>`, `.nv.shared.<kernel>`,
`.nv.constant<bank>.<kernel>`, and the attribute lists `.nv.info` (by symbol) and `.nv.info.<kernel>`.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SECTION = struct.Struct("<IIQQQQIIQQ")  # Elf64_Shdr
SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym
SHT_NOBITS = 8
FORMAT_SIZED = 0x04  # EIFMT_SVAL: a u16 size, then the payload; the other formats keep their value in those 2 bytes
# EIATTR_* as nvdisasm names them
_REGCOUNT, _MIN_STACK_SIZE, _NUM_BARRIERS, _KPARAM_INFO, _CTA_PER_CLUSTER = 0x2F, 0x12, 0x4C, 0x17, 0x3D

ENTRY = 0x10  # STO_CUDA_ENTRY in a symbol's st_other marks a kernel

_RESERVED_SHARED = 1024
"""Where `.nv.shared.reserved.0` exists (sm_90 on), a kernel's own shared section counts the 1 KB that the
system reserves in each block (CUDA C++ Programming Guide, "Shared Memory"); ptxas's log does not."""


@dataclass(frozen=True, slots=True)
class CubinKernel:
    """One kernel's resources as the image states them.

    Attributes:
        registers: Registers per thread.
        stack_bytes: Stack per thread, called functions included.
        shared_bytes: Static shared memory per block, the system's reserved bytes excluded.
        constant_bytes: Bytes of the kernel's own constant banks: parameters and compiler constants.
        barriers: Named barriers.
        cluster: Blocks of a cluster, where the kernel itself says how many (``__cluster_dims__``); else 1.
    """

    registers: int
    stack_bytes: int
    shared_bytes: int
    constant_bytes: int
    barriers: int
    cluster: int = 1


@dataclass(frozen=True, slots=True)
class Section:
    """One section of an image; `content` is empty where the file holds none (shared memory)."""

    name: str
    info: int
    size: int
    content: bytes


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    entry: bool


def kernels(cubin: bytes) -> dict[str, CubinKernel]:
    """The kernels of a cubin, by symbol name.

    Raises:
        ValueError: this is no 64-bit ELF image, or it is truncated.
    """
    if cubin[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF image")
    try:
        found = {section.name: section for section in sections(cubin)}
        symbols = tuple(_symbols(found))
        attributes = {
            (symbols[index].name, key): value
            for key, payload in _attributes(found.get(".nv.info"))
            if key in (_REGCOUNT, _MIN_STACK_SIZE)
            for index, value in [struct.unpack("<II", payload)]
        }
        return {s.name: _kernel(s.name, found, attributes) for s in symbols if s.entry}
    except (struct.error, IndexError, KeyError, UnicodeDecodeError, OverflowError) as error:
        raise ValueError(f"not a whole cubin: {error}") from error


def code(cubin: bytes, kernel: str) -> bytes:
    """A kernel's machine code.

    Raises:
        ValueError: this is no whole 64-bit ELF image, or it has no such kernel.
    """
    try:
        found = next((section for section in sections(cubin) if section.name == f".text.{kernel}"), None)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"not a whole cubin: {error}") from error
    if found is None:
        raise ValueError(f"no kernel {kernel} in this cubin")
    return found.content


def parameter_offsets(cubin: bytes, kernel: str) -> tuple[int, ...]:
    """Where a kernel's parameters lie, in bytes from the first, in the order of its signature.

    They need not lie as in a C structure: a parameter aligned to 64 bytes, as tensor maps are, is so in the constant
    bank, whose parameters begin at 0x210 on sm_90.

    Raises:
        ValueError: this is no whole 64-bit ELF image.
    """
    try:
        found = next((section for section in sections(cubin) if section.name == f".nv.info.{kernel}"), None)
        payloads = [payload for key, payload in _attributes(found) if key == _KPARAM_INFO]
        # an index, the place in the signature, the offset, and the size with other facts
        places = dict(struct.unpack_from("<HH", payload, 4) for payload in payloads)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"not a whole cubin: {error}") from error
    return tuple(places[place] for place in sorted(places))


def _kernel(name: str, found: dict[str, Section], attributes: dict[tuple[str, int], int]) -> CubinKernel:
    text = found[f".text.{name}"]
    own = tuple(_attributes(found.get(f".nv.info.{name}")))
    barriers = [payload[0] for key, payload in own if key == _NUM_BARRIERS]
    clusters = [math.prod(struct.unpack("<III", payload)) for key, payload in own if key == _CTA_PER_CLUSTER]
    shared = found.get(f".nv.shared.{name}")
    reserved = _RESERVED_SHARED if ".nv.shared.reserved.0" in found else 0
    bank = re.compile(rf"\.nv\.constant\d+\.{re.escape(name)}")
    return CubinKernel(
        # Before sm_90 the section header holds the count, too, in the top byte of sh_info.
        registers=attributes.get((name, _REGCOUNT), text.info >> 24),
        stack_bytes=attributes.get((name, _MIN_STACK_SIZE), 0),
        shared_bytes=max(0, shared.size - reserved) if shared else 0,
        constant_bytes=sum(section.size for key, section in found.items() if bank.fullmatch(key)),
        barriers=max(barriers, default=0),
        cluster=max(clusters, default=1),
    )


def sections(image: bytes) -> Iterator[Section]:
    """The sections of an ELF image, in their order.

    Raises:
        struct.error, IndexError: the image is truncated.
    """
    (table,) = struct.unpack_from("<Q", image, 0x28)  # e_shoff
    entry_size, count, names_index = struct.unpack_from("<HHH", image, 0x3A)  # e_shentsize, e_shnum, e_shstrndx
    (segments,) = struct.unpack_from("<Q", image, 0x20)  # e_phoff; often the last thing in the file
    segment_size, segment_count = struct.unpack_from("<HH", image, 0x36)  # e_phentsize, e_phnum
    if segments + segment_size * segment_count > len(image):
        raise IndexError("the program headers lie beyond the end")
    headers = [SECTION.unpack_from(image, table + index * entry_size) for index in range(count)]
    names = content_of(image, headers[names_index])
    for header in headers:
        yield Section(_string(names, header[0]), header[7], header[5], content_of(image, header))


def content_of(image: bytes, header: Sequence[int]) -> bytes:
    """A section's bytes, by its header; empty where the file holds none.

    Raises:
        IndexError: the image is truncated.
    """
    kind, offset, size = header[1], header[4], header[5]
    if kind == SHT_NOBITS:
        return b""
    if offset + size > len(image):
        raise IndexError("a section lies beyond the end")
    return image[offset : offset + size]


def _symbols(found: dict[str, Section]) -> Iterator[_Symbol]:
    names = found[".strtab"].content
    for name, _, other, _, _, _ in SYMBOL.iter_unpack(found[".symtab"].content):
        yield _Symbol(_string(names, name), bool(other & ENTRY))


def _attributes(section: Section | None) -> Iterator[tuple[int, bytes]]:
    """The (attribute, payload) pairs of an attribute list."""
    content, at = (section.content if section else b""), 0
    while at + 4 <= len(content):
        kind, key, size = struct.unpack_from("<BBH", content, at)
        at += 4
        if kind == FORMAT_SIZED:
            yield key, content[at : at + size]
            at += size
        else:
            yield key, content[at - 2 : at]


def _string(table: bytes, offset: int) -> str:
    return table[offset : table.index(b"\0", offset)].decode()
