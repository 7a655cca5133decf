"""Structures that a kernel takes by value: the type of such an argument as a text, and where its members lie.

The text is ``struct(float32* data, int32 rows)``: types and names, in the structure's order. Members lie as C and C++
lay them on every system that CUDA runs on: each at a multiple of its size, and the whole padded to a multiple of the
widest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lab.base.elements import ELEMENT_BYTES

_OPENING, _CLOSING = "struct(", ")"
_POINTER_BYTES = 8


def structure_of(members: Iterable[tuple[str, str]]) -> str:
    """Return the type of a structure.

    Args:
        members: Name and type of each, in order.
    """
    return f"{_OPENING}{', '.join(f'{kind} {name}' for name, kind in members)}{_CLOSING}"


def is_structure(kind: str) -> bool:
    """Return whether the type of an argument is a structure."""
    return kind.startswith(_OPENING)


def members_of(kind: str) -> tuple[tuple[str, str], ...]:
    """Return name and type of each member of a structure's type, in order."""
    parts = kind.removeprefix(_OPENING).removesuffix(_CLOSING).split(", ")
    return tuple((name, member) for member, name in (part.rsplit(" ", 1) for part in parts))


def bytes_of(kind: str) -> int:
    """Return the size of a scalar or of a pointer, which is also its alignment."""
    return _POINTER_BYTES if kind.endswith("*") else ELEMENT_BYTES[kind]


def offsets(sizes: Sequence[int]) -> tuple[tuple[int, ...], int, int]:
    """Lay members out.

    Args:
        sizes: Bytes of each, in order.

    Returns:
        The offset of each, the size of the whole, and its alignment, in bytes.
    """
    found, end, widest = list[int](), 0, max(sizes, default=1)
    for size in sizes:
        end += -end % size
        found.append(end)
        end += size
    return tuple(found), end + -end % widest, widest
