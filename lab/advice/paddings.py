"""Edits of a CUDA source that lengthen the rows of arrays in shared memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from lab.advice.pitches import relayout
from lab.emulator.results import AccessPattern

_ARRAY: Final = re.compile(
    r"\b__shared__\s+(?:__align__\s*\([^()]*\)\s*)?(?P<type>[\w:]+(?:\s+(?:int|char|short|long))*)\s+"
    r"(?P<name>\w+)\s*(?P<rows>(?:\[[^\[\];]+\]\s*)+)\[(?P<last>[^\[\];]+)\]"
)
_BYTES: Final = {
    "char": 1, "unsigned char": 1, "int8_t": 1, "uint8_t": 1, "half": 2, "__half": 2, "__nv_bfloat16": 2, "short": 2,
    "float": 4, "int": 4, "unsigned": 4, "unsigned int": 4, "int32_t": 4, "uint32_t": 4, "half2": 4, "__half2": 4,
    "double": 8, "float2": 8, "int2": 8, "long long": 8, "unsigned long long": 8, "int64_t": 8, "uint64_t": 8,
    "float4": 16, "int4": 16, "uint4": 16, "double2": 16,
}  # fmt: skip
_SIMPLE: Final = re.compile(r"\w+(?:\s*\+\s*\w+)*\Z")


def pads_of(patterns: Iterable[AccessPattern]) -> tuple[int, ...]:
    """Return the bytes by which rows that meet in a bank must lie further apart, ascending.

    The rows that meet may be several rows of the array apart, so that a part of it may do.
    """
    found = set[int]()
    for pattern in patterns:
        if pattern.key.startswith("shared.") and pattern.cost > pattern.ideal and (layout := relayout(pattern)):
            pad = layout.padded - layout.pitch
            found.update(pad >> power for power in range(4) if pad >> power)
    return tuple(sorted(found))


def padded_arrays(source: str, pads: Iterable[int]) -> Iterator[tuple[str, int, str]]:
    """Yield the source with one array of at least two dimensions padded, the smallest change first.

    Args:
        source: CUDA C++.
        pads: Bytes to try.

    Returns:
        The array, the elements that each of its rows is longer by, and the whole source with the change.
    """
    arrays = [match for match in _ARRAY.finditer(source) if " ".join(match["type"].split()) in _BYTES]
    edits = [
        (pad, match, size)
        for pad in pads
        for match in arrays
        if not pad % (size := _BYTES[" ".join(match["type"].split())])
    ]
    for pad, match, size in edits:
        start, stop = match.span("last")
        last = match["last"].strip()
        shown = last if _SIMPLE.match(last) else f"({last})"
        text = f"{source[:start]}{shown} + {pad // size}{source[stop:]}"
        yield match["name"], pad // size, text
