"""Reader of NVIDIA's fat binaries: the PTX and cubins that nvcc puts into objects, libraries and `.fatbin` files.

A fat binary is a header and entries. Each entry has a header with its kind, its architecture and how its contents are
compressed. NVIDIA does not publish the format; the layout here is what nvcc 11.8 to 13.0 writes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import lz4.block
import zstandard

from lab.base.errors import Location, UserError

MAGIC: Final = bytes.fromhex("50ed55ba")
MOST_IMAGE_BYTES: Final = 256 << 20
"""The largest image, uncompressed."""

_HEADER = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes of all entries
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_KINDS: Final = {1: "ptx", 2: "cubin"}
_OTHER_KINDS: Final = {4: "an old cubin", 8: "NVVM IR", 16: "merged PTX", 64: "an index"}
_ZSTD, _LZ4, _ZLIB = 0x8000, 0x2000, 0x1000


@dataclass(frozen=True, slots=True)
class FatbinEntry:
    """One entry of a fat binary.

    Attributes:
        kind: `ptx`, `cubin`, or what else it is: `NVVM IR`.
        arch: Its architecture: `sm_90`, `compute_90` for PTX.
        data: Its contents, uncompressed; empty where they cannot be had.
        refused: Why they cannot be had; empty where they can.
    """

    kind: str
    arch: str
    data: bytes
    refused: str = ""

    @property
    def is_listing(self) -> bool:
        """Return whether it is PTX or a cubin whose contents could be read."""
        return self.kind in _KINDS.values() and not self.refused


def read_fatbins(data: bytes, file: str) -> tuple[FatbinEntry, ...]:
    """Return the entries of the fat binaries in a file or a section, which may hold several, padded.

    Raises:
        UserError: It does not begin with a fat binary, or one is cut off.
    """
    found: list[FatbinEntry] = []
    start = 0
    while (start := data.find(MAGIC, start)) >= 0:
        if not found and data[:start].strip(b"\0"):
            break
        if start + _HEADER.size > len(data):
            raise _cut(file, start)
        _, _, header, size = _HEADER.unpack_from(data, start)
        end = start + header + size
        if header < _HEADER.size or end > len(data):
            raise _cut(file, start)
        found += _entries(data, start + header, end, file)
        start = end
    if not found and data.strip(b"\0"):
        raise UserError(
            "not a fat binary",
            code="wrong-value",
            at=Location(file),
            accepted=f"a file that begins with {MAGIC.hex(' ')}",
        )
    return tuple(found)


def _cut(file: str, place: int) -> UserError:
    return UserError(f"the fat binary at byte {place} is cut off", code="wrong-value", at=Location(file))


def _entries(data: bytes, place: int, end: int, file: str) -> Iterator[FatbinEntry]:
    while place + _ENTRY.size <= end:
        kind, _, header, size, compressed, _, _, _, arch, _, _, flags, _, whole = _ENTRY.unpack_from(data, place)
        if header < _ENTRY.size or place + header + size > end:
            raise _cut(file, place)
        content = data[place + header : place + header + size]
        name = _KINDS.get(kind, _OTHER_KINDS.get(kind, f"an entry of kind {kind}"))
        plain, refused = _uncompressed(content, compressed, whole, flags)
        if name == "ptx":
            plain = plain.rstrip(b"\0")
        yield FatbinEntry(name, f"{'compute' if kind == 1 else 'sm'}_{arch}", plain, refused)
        place += header + size


def _uncompressed(content: bytes, compressed: int, whole: int, flags: int) -> tuple[bytes, str]:
    """Return the contents of an entry, and why they cannot be had."""
    if not compressed:
        return content, ""
    if whole > MOST_IMAGE_BYTES:
        return b"", f"its {whole} bytes are more than {MOST_IMAGE_BYTES}"
    packed = content[:compressed]
    try:
        if flags & _ZSTD:
            return zstandard.ZstdDecompressor().decompress(packed, max_output_size=whole), ""
        if flags & _LZ4:
            return lz4.block.decompress(packed, uncompressed_size=whole), ""
    except (zstandard.ZstdError, lz4.block.LZ4BlockError, ValueError) as error:
        return b"", f"its contents cannot be uncompressed: {error}"
    scheme = "zlib" if flags & _ZLIB else f"an unknown scheme, flags 0x{flags:x}"
    return b"", f"its contents are compressed by {scheme}, which lab does not read"
