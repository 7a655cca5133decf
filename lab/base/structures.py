"""Structs passed to a kernel by value: their notation and the layout of their members.

The notation is ``struct(float32* data, int32 rows)``: types and names, in order. The layout is that of C and C++ on
every system that CUDA supports: each member at a multiple of its size, and the whole padded to a multiple of the
widest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lab.base.elements import ELEMENT_BYTES

_OPENING, _CLOSING = "struct(", ")"
_POINTER_BYTES = 8


def structure_of(members: Iterable[tuple[str, str]]) -> str:
    """Return the notation of a struct type.

    Args:
        members: Name and type of each member, in order.
    """
    return f"{_OPENING}{', '.join(f'{kind} {name}' for name, kind in members)}{_CLOSING}"


def is_structure(kind: str) -> bool:
    """Return whether the type of an argument is a struct."""
    return kind.startswith(_OPENING)


def members_of(kind: str) -> tuple[tuple[str, str], ...]:
    """Return the name and type of each member of a struct type, in order."""
    parts = kind.removeprefix(_OPENING).removesuffix(_CLOSING).split(", ")
    return tuple((name, member) for member, name in (declaration.rsplit(" ", 1) for declaration in parts))


def bytes_of(kind: str) -> int:
    """Return the size of a scalar or a pointer, which is also its alignment."""
    return _POINTER_BYTES if kind.endswith("*") else ELEMENT_BYTES[kind]


def offsets(sizes: Sequence[int]) -> tuple[tuple[int, ...], int, int]:
    """Return the memory layout of a struct.

    Args:
        sizes: Bytes of each, in order.

    Returns:
        The offset of each member, and the size and the alignment of the struct, in bytes.
    """
    starts, end, widest = list[int](), 0, max(sizes, default=1)
    for size in sizes:
        end += -end % size
        starts.append(end)
        end += size
    return tuple(starts), end + -end % widest, widest
