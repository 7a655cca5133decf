"""Compression of many similar texts: each is stored as its difference from the first of its family.

The sources of a sweep differ in a few numbers, so ten kilobytes compress to a few hundred bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache

_LEVEL = 6
"""Compression level: lower ones miss matches with the first text, higher ones hardly find more."""


@dataclass(frozen=True, slots=True)
class PackedText:
    """A compressed text.

    Attributes:
        data: The output of zlib.
        like: The first text of its family in UTF-8, which is zlib's dictionary; zlib uses its last 32 KiB.
    """

    data: bytes
    like: bytes

    def __str__(self) -> str:
        """Return the text; the same object if it was requested recently."""
        return _unpacked(self.data, self.like)


class TextPacker:
    """Compresses texts by family."""

    def __init__(self) -> None:
        """Start without any families."""
        self._first: dict[Hashable, bytes] = {}

    def pack(self, family: Hashable, text: str) -> PackedText:
        """Compress a text.

        Args:
            family: Key of a group of similar texts.
            text: Any text, lone surrogates included.
        """
        plain = text.encode("utf-8", "surrogatepass")
        like = self._first.setdefault(family, plain)
        packer = zlib.compressobj(_LEVEL, zdict=like)
        return PackedText(packer.compress(plain) + packer.flush(), like)


@lru_cache(maxsize=64)  # problems of several sizes share a source
def _unpacked(data: bytes, like: bytes) -> str:
    unpacker = zlib.decompressobj(zdict=like)
    return (unpacker.decompress(data) + unpacker.flush()).decode("utf-8", "surrogatepass")
