"""Decompression of untrusted files and archives, with a size limit enforced while unpacking."""

from __future__ import annotations

import lzma
import re
import tarfile
from collections.abc import Iterator
from typing import Final

_STEP: Final = 1 << 20
_MOST_MEMORY: Final = 1 << 27
"""Memory limit of the decompressor, in bytes: twice what the largest preset needs."""

_BLOCK: Final = tarfile.BLOCKSIZE
_EXTENDED: Final = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
_REPLACES: Final = re.compile(rb"(?:^|\n)\d+ (?:path|size|GNU\.sparse[^=\n]*)=")
"""Fields of an extended header that override the header of the next member."""


class PackedFileError(ValueError):
    """A compressed file or an archive that is damaged, too large or of an unsupported kind."""


def unpacked(packed: bytes, most_bytes: int) -> bytes:
    """Decompress an xz file.

    Raises:
        PackedFileError: It is damaged, or unpacks to more than `most_bytes`.
    """
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY)
    parts, size = list[bytes](), 0
    try:
        chunk = unpacker.decompress(packed, max_length=_STEP)
        while chunk or not (unpacker.eof or unpacker.needs_input):
            parts.append(chunk)
            size += len(chunk)
            if size > most_bytes:
                raise PackedFileError(f"it unpacks to more than {most_bytes} bytes")
            chunk = b"" if unpacker.eof else unpacker.decompress(b"", max_length=_STEP)
    except (lzma.LZMAError, EOFError) as error:
        raise PackedFileError(str(error)) from error
    if not unpacker.eof:
        raise PackedFileError("it is cut short")
    if unpacker.unused_data:
        raise PackedFileError(f"{len(unpacker.unused_data)} bytes follow its end")
    return b"".join(parts)


def members(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each regular file of a tar archive; skip folders and links.

    Raises:
        PackedFileError: It is damaged, or uses extended headers for names or sizes, which `lab` does not write.
    """
    offset = 0
    while (header := archive[offset : offset + _BLOCK]).strip(b"\0"):
        try:
            member = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        except (tarfile.HeaderError, UnicodeDecodeError) as error:
            raise PackedFileError(f"the header at byte {offset} is damaged: {error}") from error
        start, size = offset + _BLOCK, member.size
        if not 0 <= size <= len(archive) - start:
            raise PackedFileError(f"{member.name[:100]!r} is said to have {size} bytes, but the archive ends earlier")
        replaces = member.type in _EXTENDED and _REPLACES.search(archive[start : start + size])
        if replaces or member.type in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_SPARSE):
            raise PackedFileError(
                f"the header at byte {offset} has an unsupported type; expected regular files with names of at most "
                "100 characters, as `tar --format=ustar` writes them"
            )
        if member.isreg():
            yield member.name.removeprefix("./"), archive[start : start + size]
        offset = start + -(-size // _BLOCK) * _BLOCK
