"""Bindings of a plain kernel's parameters to an operator's data.

The kernel has names of its own for what it takes. Each stands for an array or a scalar of the operator, or for the
value of an expression; what it shares with no operator, a scratch buffer, needs nothing of this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from lab.base.structures import is_structure, members_of, structure_of
from lab.templates.front_matter import TENSOR_MAP
from lab.templates.launches import Launch


class Source(StrEnum):
    """The source of an argument's value."""

    ARRAY = "array"
    SCALAR = "scalar"
    EXPRESSION = "expression"


@dataclass(frozen=True, slots=True)
class BoundArgument:
    """The binding of one kernel parameter.

    Attributes:
        name: The kernel's own name of it, or of a member of a structure.
        source: Where its value comes from.
        text: Name of the operator's array or scalar, or the expression.
        is_written: It is one of the operator's outputs.
    """

    name: str
    source: Source
    text: str
    is_written: bool = False

    @property
    def passed(self) -> str:
        """The argument's name in launches: the operator's, or the kernel's for an expression."""
        return f"kernel.{self.name}" if self.source is Source.EXPRESSION else self.text


def passed(step: Launch, bound: Iterable[BoundArgument]) -> Launch:
    """Return a launch with the operator's argument names in place of the kernel's."""
    names = {argument.name: argument.passed for argument in bound}
    return replace(step, arguments=tuple(_passed(name, kind, names) for name, kind in step.arguments))


def _passed(name: str, kind: str, names: Mapping[str, str]) -> tuple[str, str]:
    if is_structure(kind):
        return name, structure_of((names.get(member, member), type_) for member, type_ in members_of(kind))
    return (name if kind == TENSOR_MAP else names.get(name, name)), kind  # a map says itself what it is of
