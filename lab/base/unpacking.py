"""Compressed files and archives of somebody else's: what they unpack to is counted while it is unpacked."""

from __future__ import annotations

import lzma
import re
import tarfile
from collections.abc import Iterator
from typing import Final

_STEP: Final = 1 << 20
_MOST_MEMORY: Final = 1 << 27
"""Most bytes that the decompressor may need; of the largest preset, it needs half."""

_BLOCK: Final = tarfile.BLOCKSIZE
_EXTENDED: Final = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
_REPLACES: Final = re.compile(rb"(?:^|\n)\d+ (?:path|size|GNU\.sparse[^=\n]*)=")
"""Fields of an extended header that say something else of the next member than its own header does."""


class PackedFileError(ValueError):
    """A compressed file or an archive that is damaged, too large, or of a kind that is not read."""


def unpacked(packed: bytes, most_bytes: int) -> bytes:
    """Decompress a file in xz's format.

    Raises:
        PackedFileError: It is damaged, or unpacks to more than `most_bytes`.
    """
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY)
    parts, size = list[bytes](), 0
    try:
        part = unpacker.decompress(packed, max_length=_STEP)
        while part or not (unpacker.eof or unpacker.needs_input):
            parts.append(part)
            size += len(part)
            if size > most_bytes:
                raise PackedFileError(f"it unpacks to more than {most_bytes} bytes")
            part = b"" if unpacker.eof else unpacker.decompress(b"", max_length=_STEP)
    except (lzma.LZMAError, EOFError) as error:
        raise PackedFileError(str(error)) from error
    if not unpacker.eof:
        raise PackedFileError("it is cut short")
    if unpacker.unused_data:
        raise PackedFileError(f"{len(unpacker.unused_data)} bytes follow its end")
    return b"".join(parts)


def members(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each regular file of a tar archive; folders and links are passed over.

    Raises:
        PackedFileError: It is damaged, or has names or sizes beyond those of plain headers, which `lab` does not write.
    """
    at = 0
    while (header := archive[at : at + _BLOCK]).strip(b"\0"):
        try:
            member = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        except (tarfile.HeaderError, UnicodeDecodeError) as error:
            raise PackedFileError(f"the header at byte {at} is damaged: {error}") from error
        start, size = at + _BLOCK, member.size
        if not 0 <= size <= len(archive) - start:
            raise PackedFileError(f"{member.name[:100]!r} is said to have {size} bytes, and the archive ends before")
        replaces = member.type in _EXTENDED and _REPLACES.search(archive[start : start + size])
        if replaces or member.type in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_SPARSE):
            raise PackedFileError(
                f"the header at byte {at} is of a kind that is not read; expected regular files with names of at most "
                "100 characters, as `tar --format=ustar` writes them"
            )
        if member.isreg():
            yield member.name.removeprefix("./"), archive[start : start + size]
        at = start + -(-size // _BLOCK) * _BLOCK
