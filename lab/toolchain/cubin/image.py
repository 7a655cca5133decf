"""Read a cubin's ELF image: its sections, and the resources of its kernels.

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
_WITHOUT_BYTES = frozenset({SHT_NOBITS, 0x70000007, 0x70000009, 0x7000000A})
"""Sections without bytes in the file: those of ELF, and global, local and shared memory of CUDA 11 and older."""
FORMAT_SIZED = 0x04  # EIFMT_SVAL: a u16 size, then the payload; other formats have their value in these 2 bytes
# EIATTR_* as nvdisasm names them
_REGCOUNT, _MIN_STACK_SIZE, _NUM_BARRIERS, _KPARAM_INFO, _CTA_PER_CLUSTER = 0x2F, 0x12, 0x4C, 0x17, 0x3D

_OWN_BANK = re.compile(r"\.nv\.constant\d+\.")

_SIZE_SHIFT = 18  # of a parameter, within the word behind its offset

ENTRY = 0x10  # STO_CUDA_ENTRY in a symbol's st_other marks a kernel

_RESERVED_SHARED = 1024
"""Where `.nv.shared.reserved.0` exists (from sm_90 on), a kernel's shared section includes the 1 KB that the system
reserves in each block (CUDA C++ Programming Guide, "Shared Memory"); ptxas's log does not."""


@dataclass(frozen=True, slots=True)
class CubinKernel:
    """Resources of one kernel, from the image.

    Attributes:
        registers: Registers per thread.
        stack_bytes: Bytes of stack per thread, including called functions.
        shared_bytes: Bytes of static shared memory per block, without those that the system reserves.
        constant_bytes: Bytes of the kernel's own constant banks: parameters and compiler constants.
        barriers: Named barriers per block.
        cluster: Blocks per cluster, if the kernel fixes it (``__cluster_dims__``); else 1.
    """

    registers: int
    stack_bytes: int
    shared_bytes: int
    constant_bytes: int
    barriers: int
    cluster: int = 1


@dataclass(frozen=True, slots=True)
class Section:
    """One section of an image. `content` is empty if the file does not hold it (shared memory)."""

    name: str
    info: int
    size: int
    content: bytes


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    entry: bool


def kernels(cubin: bytes) -> dict[str, CubinKernel]:
    """Return the kernels of a cubin, by symbol name.

    Raises:
        ValueError: The data is not a 64-bit ELF image, or is truncated.
    """
    if cubin[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF image")
    try:
        by_name = {section.name: section for section in sections(cubin)}
        symbols = tuple(_symbols(by_name))
        attributes = {
            (symbols[index].name, key): value
            for key, payload in attributes_in(by_name.get(".nv.info"))
            if key in (_REGCOUNT, _MIN_STACK_SIZE)
            for index, value in [struct.unpack("<II", payload)]
        }
        constants: dict[str, int] = {}
        for name, section in by_name.items():
            if match := _OWN_BANK.match(name):
                constants[name[match.end() :]] = constants.get(name[match.end() :], 0) + section.size
        return {s.name: _kernel(s.name, by_name, attributes, constants.get(s.name, 0)) for s in symbols if s.entry}
    except (struct.error, IndexError, KeyError, UnicodeDecodeError, OverflowError) as error:
        raise ValueError(f"not a complete cubin: {error}") from error


def code(cubin: bytes, kernel: str) -> bytes:
    """Return a kernel's machine code.

    Raises:
        ValueError: The data is not a complete 64-bit ELF image, or has no such kernel.
    """
    try:
        text_section = next((section for section in sections(cubin) if section.name == f".text.{kernel}"), None)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"not a complete cubin: {error}") from error
    if text_section is None:
        raise ValueError(f"this cubin has no kernel {kernel}")
    return text_section.content


def parameter_offsets(cubin: bytes, kernel: str) -> tuple[int, ...]:
    """Return the offsets of a kernel's parameters, in bytes from the first, in the order of its signature.

    The layout can differ from that of a C structure: a parameter that is aligned to 64 bytes, such as a tensor map, has
    this alignment in the constant bank, where parameters begin at 0x210 on sm_90.

    Raises:
        ValueError: The data is not a complete 64-bit ELF image.
    """
    return tuple(offset for offset, _ in _parameters(cubin, kernel))


def parameter_sizes(cubin: bytes, kernel: str) -> tuple[int, ...]:
    """Return the sizes of a kernel's parameters in bytes, in the order of its signature.

    Raises:
        ValueError: The data is not a complete 64-bit ELF image.
    """
    return tuple(size for _, size in _parameters(cubin, kernel))


def _parameters(cubin: bytes, kernel: str) -> list[tuple[int, int]]:
    """Return the offset and the size of each parameter."""
    try:
        info_section = next((section for section in sections(cubin) if section.name == f".nv.info.{kernel}"), None)
        payloads = [payload for key, payload in attributes_in(info_section) if key == _KPARAM_INFO]
        # an index, the position in the signature, the offset, and the size above 18 bits of other fields
        rows = sorted(struct.unpack_from("<HHI", payload, 4) for payload in payloads)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"not a complete cubin: {error}") from error
    return [(offset, facts >> _SIZE_SHIFT) for _, offset, facts in rows]


def _kernel(
    name: str, by_name: dict[str, Section], attributes: dict[tuple[str, int], int], constant_bytes: int
) -> CubinKernel:
    text = by_name[f".text.{name}"]
    kernel_attributes = tuple(attributes_in(by_name.get(f".nv.info.{name}")))
    barriers = [payload[0] for key, payload in kernel_attributes if key == _NUM_BARRIERS]
    clusters = [
        math.prod(struct.unpack("<III", payload)) for key, payload in kernel_attributes if key == _CTA_PER_CLUSTER
    ]
    shared = by_name.get(f".nv.shared.{name}")
    reserved = _RESERVED_SHARED if ".nv.shared.reserved.0" in by_name else 0
    return CubinKernel(
        # Before sm_90, the top byte of sh_info in the section header has the count, too.
        registers=attributes.get((name, _REGCOUNT), text.info >> 24),
        stack_bytes=attributes.get((name, _MIN_STACK_SIZE), 0),
        shared_bytes=max(0, shared.size - reserved) if shared else 0,
        constant_bytes=constant_bytes,
        barriers=max(barriers, default=0),
        cluster=max(clusters, default=1),
    )


def sections(image: bytes) -> Iterator[Section]:
    """Yield the sections of an ELF image in their order.

    Raises:
        struct.error, IndexError: The image is truncated.
    """
    (table,) = struct.unpack_from("<Q", image, 0x28)  # e_shoff
    entry_size, count, names_index = struct.unpack_from("<HHH", image, 0x3A)  # e_shentsize, e_shnum, e_shstrndx
    (segments,) = struct.unpack_from("<Q", image, 0x20)  # e_phoff; often the last thing in the file
    segment_size, segment_count = struct.unpack_from("<HH", image, 0x36)  # e_phentsize, e_phnum
    if segments + segment_size * segment_count > len(image):
        raise IndexError("the program headers are beyond the end")
    if table + entry_size * count > len(image):  # an offset of 2^63 and more would be an OverflowError below
        raise IndexError("the section headers are beyond the end")
    headers = [SECTION.unpack_from(image, table + index * entry_size) for index in range(count)]
    names = content_of(image, headers[names_index])
    for header in headers:
        yield Section(_string(names, header[0]), header[7], header[5], content_of(image, header))


def content_of(image: bytes, header: Sequence[int]) -> bytes:
    """Return a section's bytes, given its header; empty if the file does not store them.

    Raises:
        IndexError: The image is truncated.
    """
    kind, offset, size = header[1], header[4], header[5]
    if kind in _WITHOUT_BYTES:
        return b""
    if offset + size > len(image):
        raise IndexError("a section is beyond the end")
    return image[offset : offset + size]


def _symbols(by_name: dict[str, Section]) -> Iterator[_Symbol]:
    names = by_name[".strtab"].content
    for name, _, st_other, _, _, _ in SYMBOL.iter_unpack(by_name[".symtab"].content):
        yield _Symbol(_string(names, name), bool(st_other & ENTRY))


def attributes_in(section: Section | None) -> Iterator[tuple[int, bytes]]:
    """Yield the (attribute, payload) pairs of an attribute list."""
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
