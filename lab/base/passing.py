"""Fast pickling of small values that are sent between processes in large numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from operator import attrgetter


class Passed:
    """Base of frozen dataclasses with slots that pickles only the field values, in order.

    The default pickling of such classes looks up the field list for each object, on writing and on reading, which takes
    three times as long.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[object, ...]:
        kind = type(self)
        return kind, _values(kind)(self)  # type: ignore[arg-type]  # to mypy, a class cannot be hashed


@functools.cache
def _values(kind: type[Passed]) -> Callable[[object], tuple[object, ...]]:
    """Return a getter of the values of all fields, of which there are at least two."""
    names: Mapping[str, object] = vars(kind)["__dataclass_fields__"]
    return attrgetter(*names)
