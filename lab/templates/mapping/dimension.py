"""One dimension of a mapping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Dimension:
    """One dimension of the layout.

    Attributes:
        kind: `i`, a local dimension, or `t`, a thread dimension.
        number: Its place among the dimensions of its kind, from 0.
        size: How many indices or threads it has.
        extent: How many places it has in the tensor; `size` unless the mapping says otherwise.
        reversed: Whether it runs downwards, from the last place that it has in the tensor.
    """

    kind: Literal["i", "t"]
    number: int
    size: int
    extent: int
    reversed: bool = False

    @property
    def name(self) -> str:
        """`i0`, `-t1`."""
        return f"{'-' if self.reversed else ''}{self.kind}{self.number}"
