"""A parser of the notation of mappings.

::

    [local dimensions] | [thread dimensions] => layout: [permutation], offset: elements

Low dimensions stand first. A dimension is its size, or ``(size, extent)`` where it has an extent of its own in the
tensor: a smaller one skips the indices or threads beyond it, a larger one skips data. The permutation names every
dimension once, `i0`, `i1`, … local and `t0`, `t1`, … threads, or numbers them from 0, local ones first; a minus
reverses one. The word `layout:` may be left out, and so may the offset, which is 0 then. Without a permutation the
dimensions stand in the order in which they are given: ``[3] | [4]`` is ``[3] | [4] => [i0, t0]``.

Dimensions in parentheses count one axis of the tensor together, whose extent stands behind a colon and need not be
their product: with ``[3, 2] | [2, 2] => [(t0, i0: 5), t1, i1]``, two threads share 5 columns, three and two.

``thread in block: [3] | [4]`` says what the threads are (`lab.templates.mapping.scopes`): ``thread in warp``, ``thread
in block``, ``thread in grid``, ``thread in grid xy``, ``thread in grid xyz``, ``warp in block``, ``warp in grid`` or
``block in grid``. ``A then B`` applies B to what A gives to each of its threads, whatever those are
(`lab.templates.mapping.composed`): ``block in grid: [64] | [4] then thread in block: [2] | [32] => [t0, i0]``.

Shorthands, with their defaults:

``blocked(items=16, threads=256)``
    A thread has consecutive elements: ``[items] | [threads] => [i0, t0]``.
``cyclic(width=1, items=16, threads=256)``
    A thread has `width` consecutive elements, then the next thread, and again from the first:
    ``[width, items / width] | [threads] => [i0, t0, i1]``.
``cyclic2d(width=(1, 1), items=(1, 4), threads=(32, 8))``
    The same in two directions: ``[wx, ix / wx, wy, iy / wy] | [tx, ty] => [i0, t0, i1, i2, t1, i3]``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal, NoReturn

from lab.base.errors import UserError, did_you_mean
from lab.templates.mapping.composed import ComposedMapping
from lab.templates.mapping.dimension import Dimension, TensorAxis, axis
from lab.templates.mapping.mapping_model import LayoutMapping, ThreadMapping
from lab.templates.mapping.scopes import SCOPES, ThreadScope, check_composition, check_level

MOST: Final = 2**20
"""Limit of accesses and of elements: four times what 1024 threads with 256 registers hold.

A mapping describes a tile; its map is held in memory, and what follows from it is computed in a fraction of a second.
"""

_DIGITS = 9
"""Limit of digits in a number; longer ones are refused before conversion."""

_TOKEN = re.compile(r"\s*(?:(?P<number>[0-9]+)|(?P<word>[A-Za-z_]\w*)|(?P<sign>=>|\S))")
_EXAMPLE = "such as [4, 2] | [32] => [i0, t0, i1]"


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    column: int


class _Reader:
    """A reader of the tokens of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = list(_tokens(text))
        self._at = 0

    @property
    def next(self) -> _Token:
        return self._tokens[self._at]

    def refuse(self, message: str, accepted: str, token: _Token | None = None) -> NoReturn:
        token = token or self.next
        raise UserError(
            f"the mapping is wrong at column {token.column}: {message}",
            code="syntax",
            found=token.text or "the end of the text",
            accepted=accepted,
        )

    def take(self) -> _Token:
        token = self.next
        self._at += token.kind != "end"
        return token

    def maybe(self, text: str) -> bool:
        """Consume this token if it is next."""
        matches = self.next.text == text
        self._at += matches
        return matches

    def expect(self, text: str, message: str) -> None:
        if not self.maybe(text):
            self.refuse(message, repr(text))

    def number(self, least: int, expected: str) -> int:
        token = self.take()
        if token.kind != "number" or len(token.text) > _DIGITS or int(token.text) < least:
            self.refuse(f"expected {expected}", f"an integer from {least} to {MOST}", token)
        return int(token.text)


@lru_cache(maxsize=256)
def parse(text: str) -> ThreadMapping:
    """Parse a mapping, a shorthand or a composition of them.

    Raises:
        UserError: It says what was found at which column, and what would be accepted.
    """
    reader = _Reader(text)
    levels = [_level(reader)]
    while reader.next.text == "then":
        token = reader.take()
        levels.append(_level(reader))
        if (levels[-1].scope is None) != (levels[0].scope is None):
            reader.refuse("one mapping of a composition has a scope and another has none", "a scope for each", token)
    if reader.next.kind != "end":
        reader.refuse("unexpected text after the mapping", "', offset: N', 'then' or the end of the text")
    check_composition([(level.scope, level.threads) for level in levels if level.scope])
    mapping: ThreadMapping = levels[-1]
    _check_size(mapping, text)
    for outer in reversed(levels[:-1]):
        _check_size(outer, text)
        mapping = ComposedMapping(outer, mapping)
        _check_size(mapping, text)
    return mapping


def _check_size(mapping: ThreadMapping, text: str) -> None:
    for quantity, count in (("accesses", mapping.items * mapping.threads), ("elements", mapping.offset + mapping.size)):
        if count > MOST:
            raise UserError(
                f"the mapping has {count} {quantity}", code="out-of-range", found=text, accepted=f"at most {MOST}"
            )


def _level(reader: _Reader) -> LayoutMapping:
    scope = _scope(reader)
    mapping = _shorthand(reader) if reader.next.kind == "word" else _mapping(reader)
    if scope is None:
        return mapping
    check_level(scope, mapping.threads)
    return replace(mapping, scope=scope)


def _scope(reader: _Reader) -> ThreadScope | None:
    unit = reader.next
    if unit.text not in {scope.unit for scope in SCOPES.values()}:
        return None
    reader.take()
    reader.expect("in", f"after {unit.text} must stand in what they are counted")
    whole_token = reader.take()
    name = f"{unit.text} in {whole_token.text}"
    name = f"{name} {reader.take().text}" if reader.next.kind == "word" else name
    scope = SCOPES.get(name)
    if scope is None:
        fitting = ", ".join(
            known.removeprefix(f"{unit.text} in ") for known, scope in SCOPES.items() if scope.unit == unit.text
        )
        reader.refuse(f"'{name}' is not a scope", fitting, whole_token)
    reader.expect(":", "the mapping must follow the scope")
    return scope


def _tokens(text: str) -> Iterator[_Token]:
    end = len(text.rstrip())
    at = 0
    while at < end:
        match = _TOKEN.match(text, at)
        assert match is not None  # noqa: S101 - the last alternative matches any sign
        kind = match.lastgroup or ""
        yield _Token(kind, match[kind], match.start(kind) + 1)
        at = match.end()
    yield _Token("end", "", end + 1)


def _mapping(reader: _Reader) -> LayoutMapping:
    local = _sizes(reader, "local")
    reader.expect("|", "thread dimensions must follow")
    threads = _sizes(reader, "thread")
    dimensions = _dimensions(local, threads)
    axes = tuple(axis(dimension) for dimension in dimensions.values())
    if reader.next.kind == "end" or reader.next.text == "then":
        return LayoutMapping(axes)
    reader.expect("=>", "the layout must follow")
    if reader.next.text != "offset":
        if reader.maybe("layout"):
            reader.expect(":", "the permutation must follow")
        axes = _axes(reader, dimensions)
        if not reader.maybe(",") and reader.next.text != "offset":
            return LayoutMapping(axes)
    reader.expect("offset", "only an offset can follow the layout")
    reader.expect(":", "the number of elements must follow")
    return LayoutMapping(axes, reader.number(0, "an offset"))


def _sizes(reader: _Reader, kind: str) -> list[tuple[int, int]]:
    reader.expect("[", f"{kind} dimensions must stand here in brackets, {_EXAMPLE}")
    sizes: list[tuple[int, int]] = []
    while not sizes or reader.maybe(","):
        if reader.maybe("("):
            size = reader.number(1, "a size")
            reader.expect(",", "a size needs an extent in the tensor")
            sizes.append((size, reader.number(1, "an extent")))
            reader.expect(")", "the closing parenthesis of a size and an extent is missing")
        else:
            size = reader.number(1, f"the size of a {kind} dimension")
            sizes.append((size, size))
    reader.expect("]", f"the closing bracket of the {kind} dimensions is missing")
    return sizes


def _dimensions(local: Sequence[tuple[int, int]], threads: Sequence[tuple[int, int]]) -> dict[str, Dimension]:
    """Return every dimension by its name, in the order of the numbers allowed in a permutation."""
    kinds: tuple[tuple[Literal["i", "t"], Sequence[tuple[int, int]]], ...] = (("i", local), ("t", threads))
    dimensions = [Dimension(kind, number, *size) for kind, sizes in kinds for number, size in enumerate(sizes)]
    return {dimension.name: dimension for dimension in dimensions}


def _axes(reader: _Reader, dimensions: Mapping[str, Dimension]) -> tuple[TensorAxis, ...]:
    reader.expect("[", "the permutation must stand here in brackets")
    remaining = dict(dimensions)
    axes: list[TensorAxis] = []
    while not axes or reader.maybe(","):
        if reader.maybe("("):
            together = [_named(reader, dimensions, remaining)]
            while reader.maybe(","):
                together.append(_named(reader, dimensions, remaining))
            reader.expect(":", "the extent of the axis must follow its dimensions")
            axes.append(TensorAxis(tuple(together), reader.number(1, "the extent of an axis")))
            reader.expect(")", "the closing parenthesis of an axis is missing")
        else:
            axes.append(axis(_named(reader, dimensions, remaining)))
    closing = reader.next
    reader.expect("]", "the closing bracket of the layout is missing")
    if remaining:
        reader.refuse("the layout must name every dimension once", f"also {', '.join(remaining)}", closing)
    return tuple(axes)


def _named(reader: _Reader, dimensions: Mapping[str, Dimension], remaining: dict[str, Dimension]) -> Dimension:
    """Read a dimension by its name or number, and remove it from the remaining ones."""
    reversed_ = reader.maybe("-")
    token = reader.take()
    name = dict(zip(map(str, range(len(dimensions))), dimensions, strict=True)).get(token.text, token.text)
    if name not in dimensions:
        reader.refuse("no such dimension", ", ".join(remaining) or "']'", token)
    if name not in remaining:
        reader.refuse(f"{token.text} appears twice in the layout", ", ".join(remaining) or "the end", token)
    return replace(remaining.pop(name), reversed=reversed_)


# ---- shorthands


Value = int | tuple[int, int]


def _shorthand(reader: _Reader) -> LayoutMapping:
    token = reader.take()
    if token.text not in _SHORTHANDS:
        near = did_you_mean(token.text, _SHORTHANDS)
        reader.refuse(
            f"no such shorthand{f', {near}' if near else ''}",
            f"{', '.join(_SHORTHANDS)}; {', '.join(SCOPES)}; or {_EXAMPLE}",
            token,
        )
    make, defaults = _SHORTHANDS[token.text]
    values = dict(defaults)
    if reader.maybe("(") and not reader.maybe(")"):
        _arguments(reader, values)
        reader.expect(")", "the closing parenthesis is missing")
    for name, width, items in _pairs(values):
        if items % width:
            reader.refuse(
                f"{items} {name} cannot be divided into widths of {width}", "a width that divides items", token
            )
    return _mapping(_Reader(make(values)))


def _arguments(reader: _Reader, values: dict[str, Value]) -> None:
    names: set[str] = set()
    while not names or reader.maybe(","):
        token = reader.take()
        if token.text not in values or token.text in names:
            reader.refuse("unknown or repeated argument", ", ".join(n for n in values if n not in names), token)
        names.add(token.text)
        reader.expect("=", "a value must follow")
        if isinstance(values[token.text], int):
            values[token.text] = reader.number(1, f"a value of {token.text}")
        else:
            reader.expect("(", f"{token.text} needs a value for each direction, such as (4, 1)")
            low = reader.number(1, f"a value of {token.text}")
            reader.expect(",", f"{token.text} needs two values")
            values[token.text] = low, reader.number(1, f"a value of {token.text}")
            reader.expect(")", f"{token.text} needs two values")


def _both(value: Value) -> tuple[int, int]:
    return (value, 1) if isinstance(value, int) else value


def _pairs(values: dict[str, Value]) -> Iterator[tuple[str, int, int]]:
    for width, items in zip(_both(values.get("width", 1)), _both(values["items"]), strict=True):
        yield "items", width, items


def _blocked(values: dict[str, Value]) -> str:
    return f"[{values['items']}] | [{values['threads']}] => [i0, t0]"


def _cyclic(values: dict[str, Value]) -> str:
    width, items = _both(values["width"])[0], _both(values["items"])[0]
    return f"[{width}, {items // width}] | [{values['threads']}] => [i0, t0, i1]"


def _cyclic2d(values: dict[str, Value]) -> str:
    (wx, wy), (ix, iy), (tx, ty) = (_both(values[name]) for name in ("width", "items", "threads"))
    return f"[{wx}, {ix // wx}, {wy}, {iy // wy}] | [{tx}, {ty}] => [i0, t0, i1, i2, t1, i3]"


_SHORTHANDS: Final[dict[str, tuple[Callable[[dict[str, Value]], str], dict[str, Value]]]] = {
    "blocked": (_blocked, {"items": 16, "threads": 256}),
    "cyclic": (_cyclic, {"width": 1, "items": 16, "threads": 256}),
    "cyclic2d": (_cyclic2d, {"width": (1, 1), "items": (1, 4), "threads": (32, 8)}),
}
