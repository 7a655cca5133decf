"""Thousands of texts that resemble each other, each kept as what tells it from the first of its family.

The sources of a sweep differ in a few numbers: one of ten kilobytes then takes a few hundred bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache

_LEVEL = 6
"""Lower ones miss parts of the first text, higher ones find hardly more."""


@dataclass(frozen=True, slots=True)
class PackedText:
    """A text.

    Attributes:
        data: What zlib made of it.
        like: The first text of its family in UTF-8, which zlib could refer to; zlib uses its last 32 KiB.
    """

    data: bytes
    like: bytes

    def __str__(self) -> str:
        """The text; the same object while it was asked for lately."""
        return _unpacked(self.data, self.like)


class TextPacker:
    """Packs texts."""

    def __init__(self) -> None:
        """Start with no family."""
        self._first: dict[Hashable, bytes] = {}

    def pack(self, family: Hashable, text: str) -> PackedText:
        """Pack a text.

        Args:
            family: Texts of one family resemble each other.
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
