"""Small values that pass between processes by the thousand."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from operator import attrgetter


class Passed:
    """Base of frozen dataclasses with slots: pickles them by their fields' values, in order.

    What `dataclasses` adds to such a class lists its fields for each object, when it is written and again when it is
    read, which takes three times as long.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[object, ...]:
        kind = type(self)
        return kind, _values(kind)(self)  # type: ignore[arg-type]  # to mypy, a class cannot be hashed


@functools.cache
def _values(kind: type[Passed]) -> Callable[[object], tuple[object, ...]]:
    """What takes the values of all fields, of which there are at least two, out of an object."""
    names: Mapping[str, object] = vars(kind)["__dataclass_fields__"]
    return attrgetter(*names)
