"""Values that templates and expressions access by facts: thread mappings and einsums."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, ClassVar

from lab.base.errors import UserError
from lab.base.facts import Count, FactValue, OperandError, Text, Value
from lab.operators import einsum
from lab.operators.einsum import Einsum
from lab.templates.mapping.mapping_model import ThreadMapping
from lab.templates.mapping.text import parse

_MOST_WORDS = 1000
"""Limit of characters in a text inserted into CUDA code, such as a variable or a condition."""

Listed = tuple[Value, ...]


def _facts(*names: str) -> Mapping[str, Callable[[Any], Value]]:
    return {name: operator.attrgetter(name) for name in names}


# ---- mappings


def _vectors(mapping: ThreadMapping, width: Count) -> bool:
    return mapping.vectors(width)


def _widest(mapping: ThreadMapping, most: int) -> int:
    return mapping.widest(most)


def _requests(mapping: ThreadMapping, vector: Count = 1) -> int:
    return mapping.requests(vector)


def _sectors(
    mapping: ThreadMapping,
    element_bytes: Count,
    vector: Count = 1,
    *,
    row: Count | None = None,
    transposed: bool = False,
) -> float:
    _check_vector(mapping, vector)
    return mapping.sectors(element_bytes, vector, row=row, transposed=transposed)


def _conflicts(
    mapping: ThreadMapping,
    element_bytes: Count,
    vector: Count = 1,
    *,
    row: Count,
    pitch: Count,
    transposed: bool = False,
    loads: bool = True,
) -> float:
    _check_vector(mapping, vector)
    return mapping.conflicts(element_bytes, vector, row=row, pitch=pitch, transposed=transposed, loads=loads)


def _check_vector(mapping: ThreadMapping, vector: int) -> None:
    if vector > mapping.items:
        raise OperandError(f"a vector of {vector} elements", accepted=f"at most {mapping.items}, the items of a thread")


def _index(mapping: ThreadMapping, local: Listed | str = "i", thread: Text = "t") -> str:
    return mapping.index(_local(mapping, local), _code(thread))


def _guard(mapping: ThreadMapping, local: Listed | str = "i", thread: Text = "t", *, also: Text = "") -> str:
    return mapping.guard(_local(mapping, local), _code(thread), also=_code(also))


def _local(mapping: ThreadMapping, local: str | Listed) -> str | tuple[str, ...]:
    """Return the name of the local index, or the names of the local dimensions' indices."""
    if isinstance(local, str):
        return _code(local)
    expected = len(mapping.levels[-1].of_kind("i"))
    if len(local) != expected or not all(isinstance(name, str) for name in local):
        accepted = f"a name, or a list of {expected} names, one for each local dimension"
        raise OperandError(f"{len(local)} local indices", accepted=accepted)
    return tuple(map(_code, local))


def _scope(mapping: ThreadMapping) -> str:
    return str(mapping.scope or "")


def _code(text: str) -> str:
    if len(text) > _MOST_WORDS:
        raise OperandError(f"a text of {len(text)} characters", accepted=f"at most {_MOST_WORDS}")
    return text


class MappingFacts(FactValue):
    """A mapping of threads to data (`lab.templates.mapping.mapping_model.ThreadMapping`)."""

    __slots__ = ()
    kind: ClassVar[str] = "mapping"
    facts: ClassVar[Mapping[str, Callable[[Any], Value]]] = {
        **_facts("threads", "items", "size", "offset", "guarded", "complete", "injective"),
        "scope": _scope,
    }
    methods: ClassVar[Mapping[str, Callable[..., Value]]] = {
        "vectors": _vectors,
        "widest": _widest,
        "requests": _requests,
        "sectors": _sectors,
        "conflicts": _conflicts,
        "index": _index,
        "guard": _guard,
    }

    @classmethod
    def read(cls, text: str) -> ThreadMapping:
        """Return the mapping that the notation describes."""
        return parse(text)


# ---- einsums


def _tensor(name: str) -> str:
    if name not in ("A", "B", "C"):
        raise OperandError(f"there is no tensor {name!r}", accepted="'A', 'B' or 'C'")
    return name


def _operand(name: str) -> str:
    if name not in ("A", "B"):
        raise OperandError(f"there is no operand {name!r}", accepted="'A' or 'B'")
    return name


def _indices(contraction: Einsum, indices: Listed) -> tuple[str, ...]:
    for index in indices:
        if index not in contraction.indices:
            raise OperandError(f"the einsum has no index {index!r}", accepted=", ".join(contraction.indices))
    return tuple(indices)


def _of(contraction: Einsum, tensor: Text) -> tuple[str, ...]:
    return contraction.of(_tensor(tensor))


def _along_depth(contraction: Einsum, operand: Text) -> bool:
    return contraction.along_depth(_operand(operand))


def _leads(contraction: Einsum, tensor: Text) -> bool:
    return contraction.vectors(_tensor(tensor))


def _stride(contraction: Einsum, tensor: Text, index: Text) -> str:
    _indices(contraction, (index,))
    return contraction.stride(_tensor(tensor), index)


def _place(contraction: Einsum, number: Text, indices: Listed, tensor: Text) -> str:
    return contraction.place(_code(number), _indices(contraction, indices), _tensor(tensor))


def _digit(contraction: Einsum, number: Value, indices: Listed, index: Text) -> str:
    if isinstance(number, bool) or not isinstance(number, int | str):
        raise OperandError("a number that is neither a variable nor a constant", accepted="a text or a whole number")
    if index not in _indices(contraction, indices):
        raise OperandError(f"{index!r} is not among the indices", accepted=", ".join(indices))
    return contraction.digit(_code(str(number)), tuple(indices), index)


class EinsumFacts(FactValue):
    """A contraction's indices (`lab.operators.einsum.Einsum`)."""

    __slots__ = ()
    kind: ClassVar[str] = "einsum"
    facts: ClassVar[Mapping[str, Callable[[Any], Value]]] = _facts(
        "A", "B", "C", "indices", "batch", "first", "second", "rows", "columns", "depth", "arguments"
    )
    methods: ClassVar[Mapping[str, Callable[..., Value]]] = {
        "of": _of,
        "along_depth": _along_depth,
        "vectors": _leads,
        "stride": _stride,
        "place": _place,
        "digit": _digit,
    }

    @classmethod
    def read(cls, text: str) -> Einsum:
        """Return the einsum that the text describes."""
        return _einsum(text)


@lru_cache(maxsize=256)
def _einsum(text: str) -> Einsum:
    return einsum.parse(text)


# ---- transport to the process that renders

KINDS: Mapping[str, type[FactValue]] = {fact_class.kind: fact_class for fact_class in (MappingFacts, EinsumFacts)}


def packed(value: object) -> object:
    """Return a value in JSON form: a fact value becomes ``{"mapping": text}``.

    Raises:
        UserError: Templates know no such value.
    """
    if isinstance(value, FactValue):
        return {value.kind: value.text}
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    raise UserError("templates know no such value", code="unknown-name", found=type(value).__name__)


def unpacked(value: Any) -> Value:  # noqa: ANN401 - what JSON can hold
    """Return the value that `packed` encoded."""
    if isinstance(value, dict):
        ((kind, text),) = value.items()
        return KINDS[kind](text)
    return value
