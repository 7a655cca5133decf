"""Fingerprints of variants: a hash of every fact that determines a variant's record.

A resumed run keeps a record only if its fingerprint equals the variant's current one. The fingerprint covers the fields
of `lab.experiment.variants.Planned` and of all values below it: a field added to one of these types is included from
then on. Only the fields in `IGNORED` are excluded, each with the reason. Facts shared by all variants of a run are in
`lab.stages.provenance.conditions_of`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel

IGNORED: Mapping[tuple[str, str], str] = {
    ("Planned", "position"): "a record that is kept gets its present place; it also decides which variants show how "
    "the work of their problem grows, which is the same for all",
    ("Planned", "label"): "a record that is kept gets its present label",
    ("Planned", "instance"): "it is made of the point's template, parameters and problem, which count",
    ("Planned", "known"): "it follows from the source and the compiler, and is known after the build alone",
    ("Point", "label"): "part of the variant's label",
    ("ProblemCase", "label"): "part of the variant's label",
    ("KernelEntry", "axes"): "values of other variants; this one's are the point's parameters",
    ("KernelEntry", "constraints"): "they choose the points and change none",
    ("KernelEntry", "facts"): "constraints alone use them",
    ("Template", "file"): "where the text was found; what it says counts",
    ("Template", "document"): "the lines of the declaration, for errors; what it says counts",
    ("Template", "roots"): "where includes are found; the rendered source counts",
    ("PlainTemplate", "text"): "the rendered source counts",
    ("PlainTemplate", "tree"): "where includes are found; the rendered source counts",
    ("PlainTemplate", "named"): "it chooses the points and changes none",
    ("Launch", "resident_grid"): "it is made of the declaration and the problem, which count",
    ("FrontMatter", "summary"): "prose",
    ("FrontMatter", "idea"): "prose",
    ("FrontMatter", "requires"): "they choose the points and change none",
    ("FrontMatter", "problem"): "it chooses the points and changes none",
    ("FrontMatter", "abbreviate"): "names of kernels in tuning runs",
    ("Parameter", "default"): "this variant's value is among the point's parameters",
    ("Parameter", "help"): "prose",
    ("Parameter", "values"): "which values are allowed; this variant's is among the point's parameters",
    ("Parameter", "min"): "which values are allowed; this variant's is among the point's parameters",
    ("Parameter", "max"): "which values are allowed; this variant's is among the point's parameters",
    ("Parameter", "words"): "which values are allowed; this variant's is among the point's parameters",
}
"""Type and field, with the reason why the field does not affect a record."""

UNORDERED = frozenset({("Point", "parameters"), ("FrontMatter", "parameters")})
"""Mappings whose order is ignored; all others are ordered: a kernel takes its arguments in their order."""

_TOOLCHAIN = ("name", "version", "identity")
"""Facts that determine a compiler's output, wherever it is installed."""


def fingerprint(value: object) -> str:
    """Return 32 hex digits that depend on every fact in a value, except those in `IGNORED`.

    Raises:
        TypeError: There is a value in it of a type that has no plain form.
    """
    return hashlib.sha256(json.dumps(plain(value)).encode()).hexdigest()[:32]


def plain(value: object) -> Any:  # noqa: ANN401 - JSON
    """Return the canonical JSON form of a value, with all facts that are not ignored.

    Raises:
        TypeError: There is a value in it of a type that has no plain form.
    """
    form: Any
    match value:
        case None | bool() | int() | float() | str():
            form = value
        case Enum():
            form = plain(value.value)
        case bytes() | PurePath():
            form = repr(value)
        case Mapping():  # a problem, too
            form = [[plain(key), plain(element)] for key, element in value.items()]
        case list() | tuple():
            form = [plain(element) for element in value]
        case set() | frozenset():
            form = sorted((plain(element) for element in value), key=json.dumps)
        case BaseModel():
            form = _once(_Same(value))
        case _:
            form = dict(facts(value))
    return form


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """A cache key that is equal only to itself."""

    value: BaseModel

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value


@lru_cache(maxsize=64)  # a declaration has hundreds of facts, and thousands of variants share it
def _once(key: _Same) -> dict[str, Any]:
    return dict(facts(key.value))


def facts(value: object) -> Iterator[tuple[str, Any]]:
    """Yield the name and the plain form of every field of a value that is not ignored.

    Raises:
        TypeError: The value has no fields.
    """
    if hasattr(value, "supports"):  # a toolchain
        yield from ((name, getattr(value, name, "")) for name in _TOOLCHAIN)
        return
    kind = type(value).__name__
    for name in fields_of(type(value)):
        if counts(type(value), name):
            field_value = getattr(value, name)
            ordered = dict(sorted(field_value.items())) if (kind, name) in UNORDERED and field_value else field_value
            yield name, plain(ordered)


def counts(kind: type, name: str) -> bool:
    """Return whether a field affects a record; `IGNORED` names fields of the type or of one of its bases."""
    return not any((base.__name__, name) in IGNORED for base in kind.__mro__)


def fields_of(kind: type) -> tuple[str, ...]:
    """Return the names of a type's fields.

    Raises:
        TypeError: It is neither a dataclass nor a pydantic model.
    """
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    if issubclass(kind, BaseModel):
        return tuple(kind.model_fields)
    raise TypeError(
        f"{kind.__name__} has no plain form: make it a dataclass, or teach lab.experiment.identity about it"
    )
