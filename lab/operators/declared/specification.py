"""Reads what a file says of an argument: ``out float32[n, m]``, ``int32[nnz] uniform 0 n``, ``float32 = 2 * alpha``.

The form is ``[in|out [partial]|inout|scratch] [unordered] TYPE[SHAPE] [FILL]`` for an array, and ``TYPE [=
EXPRESSION]`` for a scalar. A shape lists expressions, slowest dimension first, as NumPy and C do. Elements of a
`partial` output may stay unwritten, and those of an `unordered` one may stand in any order. A fill is one of `FILLS`,
the name of an .npy file, or ``= EXPRESSION``. Behind these, `lab.operators.declared.mapped` reads that a kernel takes a
tensor map of the array. A structure that is passed by value is a mapping from its members to such texts.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NoReturn

from lab.base.elements import C_NAMES
from lab.base.errors import Code, Location, UserError, did_you_mean
from lab.base.expressions import names_in
from lab.operators.base import STORED_AS
from lab.operators.declared import mapped
from lab.operators.declared.elements import ELEMENT_TYPES, ElementKind, ElementType
from lab.operators.declared.mapped import MappedView

FORM: Final = (
    "[in|out [partial]|inout|scratch] [unordered] TYPE[SHAPE] [FILL] for an array, "
    "with as map[BOX] behind it for a tensor map, TYPE [= EXPRESSION] for a scalar"
)

_MOST_DIMENSIONS = 8
_MOST_CHARACTERS = 2000
_DIRECTED = re.compile(r"\s*(in|out|inout|scratch)\s+(?=[\w{])")
_PARTIAL = re.compile(r"partial\b(?!\s*\[)\s*")
_UNORDERED = re.compile(r"unordered\b(?!\s*\[)\s*")
_NAME = re.compile(r"[^\W\d]\w*")
_TYPE = re.compile(r"\s*(\w+)\s*")
_PARAMETER = re.compile(r"\s*\{\s*([^\W\d]\w*)\s*\}\s*")
_VALUE = re.compile(r"\s*=(?!=)\s*")
_WORDS = re.compile(r"""'[^']*'|"[^"]*"|\S""")
_FILE = re.compile(r"""([^'"]+\.npy)|'([^']+\.npy)'|"([^"]+\.npy)\"""")
_OPENING, _CLOSING = "([", ")]"
_UNPASSED = (*STORED_AS, "complex64", "complex128")
"""Types whose values cannot be passed by value."""


class Direction(StrEnum):
    """What a kernel does with an argument."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"
    SCRATCH = "scratch"  # written, and what it holds afterwards is not compared


class FillKind(StrEnum):
    """What an array holds before the launch."""

    NORMAL = "normal"
    UNIFORM = "uniform"
    ZEROS = "zeros"
    ONES = "ones"
    RANGE = "range"
    FILE = "file"
    VALUES = "values"


FILLS: Final[Mapping[str, tuple[FillKind, tuple[str, ...], tuple[int, ...]]]] = {
    "normal": (FillKind.NORMAL, ("MEAN", "DEVIATION"), (0, 2)),
    "uniform": (FillKind.UNIFORM, ("LOW", "HIGH"), (2,)),
    "zeros": (FillKind.ZEROS, (), (0,)),
    "ones": (FillKind.ONES, (), (0,)),
    "range": (FillKind.RANGE, (), (0,)),
}
"""By name: the kind, its operands, and how many of them are accepted. Operands are expressions without blanks."""

_FOREIGN_FILLS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("random", "rand", "rng"), "uniform 0 1"),
    **dict.fromkeys(("randn", "gaussian", "gauss"), "normal"),
    **dict.fromkeys(("randint", "integers"), "uniform 0 100"),
    **dict.fromkeys(("arange", "iota", "linspace"), "range"),
    **dict.fromkeys(("zero", "0"), "zeros"),
    **dict.fromkeys(("one", "1"), "ones"),
}
"""What other libraries call contents."""

_ACCEPTED_FILLS = "normal, normal MEAN DEVIATION, uniform LOW HIGH, zeros, ones, range, FILE.npy, = EXPRESSION"


@dataclass(frozen=True, slots=True)
class Fill:
    """What an array holds before the launch.

    Attributes:
        kind: How it is made.
        operands: Expressions; of a file, its path; of values, their one expression.
        is_default: The file says nothing of the contents.
    """

    kind: FillKind
    operands: tuple[str, ...] = ()
    is_default: bool = False

    def __str__(self) -> str:
        if self.kind is FillKind.FILE:
            quote = '"' if "'" in self.operands[0] else "'"
            return f"{quote}{self.operands[0]}{quote}"
        return f"= {self.operands[0]}" if self.kind is FillKind.VALUES else " ".join((self.kind, *self.operands))


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a kernel.

    Attributes:
        name: Its name.
        dtype: Element type, a key of `ELEMENT_TYPES`; or a parameter in braces, ``{T}``, whose value is one.
        direction: What the kernel does with it; `Direction.IN` for scalars.
        shape: Expressions of the dimensions, slowest first; None for a scalar.
        fill: What an array holds before the launch; None for scalars and for arrays that hold poison.
        value: Expression of a scalar's value; None where it is the problem's or parameter's of that name.
        structure: The kernel's argument that it is a member of; empty where it is one by itself.
        view: What the kernel takes in place of a pointer to the array: a tensor map of it; None for a pointer.
        is_partial: Elements of an output that nobody writes are meant. They are not compared.
        is_unordered: Elements of an output may stand in any order.
    """

    name: str
    dtype: str
    direction: Direction = Direction.IN
    shape: tuple[str, ...] | None = None
    fill: Fill | None = None
    value: str | None = None
    structure: str = ""
    view: MappedView | None = None
    is_partial: bool = False
    is_unordered: bool = False

    @property
    def element(self) -> ElementType:
        """Return its element type."""
        return ELEMENT_TYPES[self.dtype]

    @property
    def type_parameter(self) -> str:
        """Return the parameter whose value is its element type; empty where the type is known."""
        return self.dtype[1:-1] if self.dtype.startswith("{") else ""

    def typed(self, dtype: str) -> Argument:
        """Return it with its element type in place of the parameter.

        Raises:
            UserError: Its contents do not suit that type.
        """
        return parse(self.name, str(self).replace(self.dtype, dtype, 1), self.structure)

    @property
    def is_array(self) -> bool:
        """Whether it is an array."""
        return self.shape is not None

    @property
    def is_mapped(self) -> bool:
        """Whether the kernel takes a tensor map of it."""
        return self.view is not None

    @property
    def is_written(self) -> bool:
        """Return whether it is an output, which is compared."""
        return self.direction in (Direction.OUT, Direction.INOUT)

    @property
    def expressions(self) -> tuple[str, ...]:
        """Return every expression in it, which are over the problem and parameters."""
        fill = self.fill.operands if self.fill is not None and self.fill.kind is not FillKind.FILE else ()
        value = () if self.value is None else (self.value,)
        return (*(self.shape or ()), *fill, *value, *(self.view.expressions if self.view is not None else ()))

    def __str__(self) -> str:
        """Return the canonical text, which `parse` reads back."""
        if self.shape is None:
            return self.dtype if self.value is None else f"{self.dtype} = {self.value}"
        return f"{self._direction}{self.undirected}"

    @property
    def undirected(self) -> str:
        """Return the canonical text of an array without its direction."""
        assert self.shape is not None  # noqa: S101 - scalars have no direction
        fill = "" if self.fill is None or self.fill.is_default else f" {self.fill}"
        view = "" if self.view is None else f" {self.view}"
        return f"{self.dtype}[{', '.join(self.shape)}]{fill}{view}"

    @property
    def _direction(self) -> str:
        if self.direction is Direction.IN:
            return ""
        words = (self.direction, "partial" if self.is_partial else "", "unordered" if self.is_unordered else "")
        return "".join(f"{word} " for word in words if word)


def parse_all(
    given: object, at: Callable[..., Location | None] = lambda *_: None, *, writes: bool = True
) -> tuple[tuple[Argument, ...], tuple[UserError, ...]]:
    """Read all arguments of a kernel, in its order.

    Args:
        given: A mapping from names to texts, as YAML gives it; to mappings of that form for structures.
        at: Where an argument stands, or a member of one, for errors.
        writes: One of them must be written.

    Returns:
        The arguments that could be read, and every mistake.
    """
    if not isinstance(given, dict) or not given:
        accepted = 'a mapping in the order of the kernel\'s parameters, such as {c: "out float32[n]", n: int32}'
        found = UserError("wrong value", code="wrong-value", at=at(), key="arguments", found=given, accepted=accepted)
        return (), (found,)
    made, mistakes = dict[str, Argument](), list[UserError]()
    for place, text in places(given):
        structure, name = "" if len(place) == 1 else place[0], place[-1]
        if name in made or (structure and name in given):
            key = f"arguments.{'.'.join(place)}"
            accepted = f"another name, such as {name}_: those of members need not be the source's"
            mistakes.append(
                UserError(
                    f"two arguments are called {name}", code="duplicate", at=at(*place), key=key, accepted=accepted
                )
            )
            continue
        try:
            made[name] = parse(name, text, structure)
        except UserError as error:
            mistakes.append(error.placed(at(*place), error.key))
    if writes and not mistakes and not any(argument.is_written for argument in made.values()):
        accepted = (
            "out or inout in front of the type of at least one array; a kernel that only prints has no result to check "
            "or to time against, so let it store one, or execute it and see what it prints: lab emulate KERNEL.cu"
        )
        mistakes.append(
            UserError("the kernel writes no argument", code="missing-key", at=at(), key="arguments", accepted=accepted)
        )
    return tuple(made.values()), tuple(mistakes)


def places(given: Mapping[object, object]) -> Iterator[tuple[tuple[str, ...], object]]:
    """Walk over what a file says of arguments and of members of structures, each with its keys below `arguments`."""
    for name, value in given.items():
        if isinstance(value, dict) and value:
            yield from (((str(name), str(member)), text) for member, text in value.items())
        else:
            yield (str(name),), value


def parse(name: str, text: object, structure: str = "") -> Argument:
    """Read one argument, or a member of a structure.

    Raises:
        UserError: The text is not of the form. The message names the column, the key is ``arguments.NAME`` or
            ``arguments.STRUCTURE.NAME``.
    """
    path = f"{structure}.{name}" if structure else name
    if structure and not _NAME.fullmatch(structure):
        accepted = "letters, digits and _, a letter first"
        raise UserError(
            "not a name of an argument", code="wrong-value", key=f"arguments.{path}", found=structure, accepted=accepted
        )
    if not isinstance(text, str):
        raise UserError("wrong type", code="wrong-type", key=f"arguments.{path}", found=text, accepted=f"text: {FORM}")
    return replace(_Reader(name, text, path).argument(), structure=structure)


class _Reader:
    """Reads one text from left to right."""

    def __init__(self, name: str, text: str, path: str) -> None:
        self._name, self._text, self._path, self._at = name, text, path, 0
        if not _NAME.fullmatch(name):
            self.refuse("not a name of an argument", "letters, digits and _, a letter first", code="wrong-value")
        if len(text) > _MOST_CHARACTERS:
            self.refuse(f"the text has {len(text)} characters", f"at most {_MOST_CHARACTERS}")

    def refuse(
        self,
        message: str,
        accepted: str,
        *,
        code: Code = "syntax",
        at: int | None = None,
        suggestion: str | None = None,
    ) -> NoReturn:
        column = (self._at if at is None else at) + 1
        place = f" (column {column})" if self._text.strip() else ""
        raise UserError(
            f"{message}{place}",
            code=code,
            key=f"arguments.{self._path}",
            found=self._text[:200],
            accepted=accepted,
            suggestion=suggestion,
        )

    def argument(self) -> Argument:
        directed = _DIRECTED.match(self._text)
        direction = Direction.IN
        if directed:
            direction, self._at = Direction(directed[1]), directed.end()
        self._at += len(self._text[self._at :]) - len(self._text[self._at :].lstrip())
        partial = _PARTIAL.match(self._text, self._at)
        if partial and direction is not Direction.OUT:
            accepted = "out partial TYPE[SHAPE]: what is inout keeps its contents where nobody writes"
            self.refuse("only an output can be partial", accepted)
        self._at = partial.end() if partial else self._at
        unordered = _UNORDERED.match(self._text, self._at)
        if unordered and direction is Direction.IN:
            self.refuse("only an output can be unordered", "out unordered TYPE[SHAPE], or inout unordered TYPE[SHAPE]")
        self._at = unordered.end() if unordered else self._at
        dtype = self._dtype()
        if self._text[self._at : self._at + 1] == "[":
            shape = self._list("the shape", "a dimension")
            marked = mapped.MARK.search(self._text, self._at)
            view = self._view(marked, shape) if marked else None
            self._text = self._text[: marked.start()] if marked else self._text
            if unordered and len(shape) > 1:
                self.refuse("an unordered output has one dimension", f"{dtype}[n]", at=unordered.start())
            fill = self._fill(direction, dtype)
            made = Argument(self._name, dtype, direction, shape, fill, view=view)
            return replace(made, is_partial=bool(partial), is_unordered=bool(unordered))
        if direction is not Direction.IN:
            self.refuse(f"a scalar cannot be {direction}", f"an array: {direction} {dtype}[SHAPE]", at=0)
        if dtype in _UNPASSED:
            self.refuse(f"a scalar of type {dtype} cannot be passed", f"an array of one element: {dtype}[1]")
        return Argument(self._name, dtype, value=self._value())

    def _dtype(self) -> str:
        if followed := _PARAMETER.match(self._text, self._at):
            self._at = followed.end()
            return f"{{{followed[1]}}}"
        found = _TYPE.match(self._text, self._at)
        if found is None:
            self.refuse("there is no type", ", ".join(ELEMENT_TYPES), code="unsupported")
        word = found[1]
        if word not in ELEMENT_TYPES:
            words = re.findall(r"\w+", self._text[self._at :].split("[")[0])  # of `const unsigned char *`, uint8
            known = {**C_NAMES, "float2": "complex64", "double2": "complex128"}
            meant = next((known[two] for two in map(" ".join, itertools.pairwise(words)) if two in known), None)
            meant = meant or next((known[one] for one in words if one in known), None)
            suggestion = f"did you mean '{meant}'?" if meant else did_you_mean(word, ELEMENT_TYPES)
            if suggestion is None and self._text[self._at :].strip().isidentifier():  # `M: m`, a value without its type
                suggestion = f"a scalar's type comes before its value: int32 = {word}"
            at = self._at + found.start(1) - found.start()
            self.refuse(
                f"unknown type {word!r}", ", ".join(ELEMENT_TYPES), code="unknown-name", at=at, suggestion=suggestion
            )
        self._at = found.end()
        if self._text[self._at : self._at + 1] in ("*", "&"):
            self.refuse("a pointer has no shape", f"{word}[SHAPE], such as {word}[n] or {word}[m, n]", code="mismatch")
        return word

    def _list(self, what: str, part: str) -> tuple[str, ...]:
        """Read a list in brackets, such as a shape."""
        opening = self._at
        found = mapped.bracketed(self._text, opening)
        if found is None:
            self.refuse(f"{what} has no closing ']'", "dimensions between [ and ]", at=opening)
        parts, self._at = found
        if len(parts) > _MOST_DIMENSIONS:
            self.refuse(f"{len(parts)} dimensions", f"at most {_MOST_DIMENSIONS}", code="mismatch", at=opening)
        return tuple(self._expression(text, place, part) for place, text in parts)

    def _view(self, marked: re.Match[str], shape: tuple[str, ...]) -> MappedView:
        """Read what stands behind `as map` or `as im2col`, and go back to where the contents would stand."""
        start, self._at, of_pixels = self._at, marked.end(), marked[1] == "im2col"
        if self._path != self._name:
            self.refuse("a tensor map is no member of a structure", "an argument of its own", at=marked.start())
        box = self._list("the box", "a size of the box")
        patterns = mapped.PARTS | (mapped.IM2COL_PARTS if of_pixels else {})
        sides = dict.fromkeys(patterns, tuple[str, ...]())
        for word, pattern in patterns.items():
            if found := pattern.match(self._text, self._at):
                self._at = found.end()
                sides[word] = self._list(f"what follows {word!r}", "a dimension")
        extents, strides = sides["of"], sides["strides"]
        if len(extents) != len(strides):
            self.refuse(f"{len(extents)} extents and {len(strides)} strides", "of [EXTENTS] strides [STRIDES]")
        if strides and strides[-1] != "1":
            self.refuse("the last dimension of a tensor map is contiguous", "1 as the last of the strides")
        corners: tuple[tuple[str, ...], ...] = ()
        if of_pixels:
            corners = self._corners(sides, len(extents or shape), marked.end())
            if len(box) != 2:  # noqa: PLR2004 - pixels, channels
                self.refuse(
                    f"{len(box)} sizes of im2col", "two: the pixels and the channels of a copy", at=marked.end()
                )
        elif len(box) != len(extents or shape):
            accepted = f"{len(extents or shape)} sizes, one for each dimension"
            self.refuse(f"the box has {len(box)} dimensions", accepted, code="mismatch", at=marked.end())
        swizzle = "0"
        if given := mapped.SWIZZLE.match(self._text, self._at):
            swizzle, self._at = self._expression(given[1], given.start(1), "the swizzle"), given.end()
        if rest := self._text[self._at :].strip():
            self.refuse(f"unexpected {rest[:40]!r}", mapped.IM2COL_FORM if of_pixels else mapped.FORM)
        self._at = start
        return MappedView(box, extents, strides, swizzle, corners)

    def _corners(self, given: Mapping[str, tuple[str, ...]], rank: int, at: int) -> tuple[tuple[str, ...], ...]:
        """Return the corners and the steps of a map for im2col: of each dimension of space 0, 0 and 1 by default."""
        if rank not in mapped.IM2COL_DIMENSIONS:
            accepted = "3 to 5 dimensions: images, one to three of space, and channels"
            self.refuse(f"im2col of {rank} dimensions", accepted, code="mismatch", at=at)
        found = []
        for word in mapped.IM2COL_PARTS:
            part = given[word] or ("1" if word == "steps" else "0",) * (rank - 2)
            if len(part) != rank - 2:
                accepted = f"{rank - 2}, one for each dimension of space, the slowest first"
                self.refuse(f"{len(part)} numbers behind {word!r}", accepted, at=at)
            found.append(part)
        return tuple(found)

    def _expression(self, text: str, place: int, what: str) -> str:
        if not text.strip():
            self.refuse(f"{what} is missing", "an expression over the problem and the parameters", at=place)
        try:
            names_in(text.strip(), at=Location("arguments"), key=f"arguments.{self._path}")
        except UserError as error:
            at = place + len(text) - len(text.lstrip())
            accepted = error.accepted if isinstance(error.accepted, str) else "an expression"
            self.refuse(f"{what}: {error.message}", accepted, at=at, suggestion=error.suggestion)
        return text.strip()

    def _value(self) -> str | None:
        assigned = _VALUE.match(self._text, self._at)
        if assigned is None:
            if self._text[self._at :].strip():
                accepted = f"[SHAPE] for an array, '= EXPRESSION' for a scalar: {FORM}"
                self.refuse(f"unexpected {self._text[self._at :].strip()[:40]!r}", accepted)
            return None
        return self._expression(self._text[assigned.end() :], assigned.end(), "the value")

    def _fill(self, direction: Direction, dtype: str) -> Fill | None:
        start = self._at
        rest = self._text[start:].strip()
        if not rest:
            empty = direction in (Direction.OUT, Direction.SCRATCH) or dtype not in ELEMENT_TYPES
            return None if empty else _default(dtype)
        self._at += len(self._text[start:]) - len(self._text[start:].lstrip())
        if direction is Direction.OUT:
            accepted = f"nothing: what is only written holds NaN before. For an array that is also read: inout … {rest}"
            self.refuse("an output has no contents of its own", accepted)
        if assigned := _VALUE.match(self._text, start):
            text = self._text[assigned.end() :]
            if not text.strip():
                self.refuse("the value is missing", "an expression over the problem and the parameters")
            return Fill(FillKind.VALUES, (text.strip(),))  # over arrays, read with the references
        words = self._words(start)
        first, _ = words[0]
        if file := _FILE.fullmatch(first):
            if len(words) > 1:
                self.refuse(f"unexpected {words[1][0]!r}", _ACCEPTED_FILLS, at=words[1][1])
            return Fill(FillKind.FILE, (next(path for path in file.groups() if path),))
        if first not in FILLS:
            meant = _FOREIGN_FILLS.get(first.split("(")[0].lower())
            suggestion = f"did you mean {meant!r}?" if meant else did_you_mean(first, FILLS)
            self.refuse(f"unknown contents {first[:40]!r}", _ACCEPTED_FILLS, code="unknown-name", suggestion=suggestion)
        kind, operands, counts = FILLS[first]
        if len(words) - 1 not in counts:
            form = " ".join((first, *operands))
            count = len(words) - 1
            parts = " ".join(text for text, _ in words[1:]).replace(",", " ").strip("()").split()
            suggestion = f"write {' '.join((first, *parts))}" if len(parts) in counts and len(parts) != count else None
            self.refuse(
                f"{first} has {count} operand{'' if count == 1 else 's'}",
                f"{form}: expressions without blanks, or in ( )",
                suggestion=suggestion,
            )
        if kind is FillKind.NORMAL and dtype in ELEMENT_TYPES and ELEMENT_TYPES[dtype].is_exact:
            self.refuse(f"{dtype} has no normal numbers", "uniform LOW HIGH, zeros, ones, range, FILE.npy")
        return Fill(kind, tuple(self._expression(text, place, "an operand") for text, place in words[1:]))

    def _words(self, start: int) -> list[tuple[str, int]]:
        """Split at blanks outside parentheses and quotes; each word with its place."""
        words: list[tuple[str, int]] = []
        depth, end = 0, -1
        for found in _WORDS.finditer(self._text, start):
            sign = found[0]
            if depth == 0 and (found.start() != end or not words):
                words.append((sign, found.start()))
            else:
                text, place = words[-1]
                words[-1] = (self._text[place : found.start()] + sign if depth else text + sign, place)
            depth = max(0, depth + (sign in _OPENING) - (sign in _CLOSING))
            end = found.end()
        return words


def _default(dtype: str) -> Fill:
    """Standard normal numbers; integers from 0 to 99, and bool 0 or 1."""
    kind = ELEMENT_TYPES[dtype].kind
    if kind is ElementKind.BOOL:
        return Fill(FillKind.UNIFORM, ("0", "2"), is_default=True)
    if kind is ElementKind.INTEGER:
        return Fill(FillKind.UNIFORM, ("0", "100"), is_default=True)
    return Fill(FillKind.NORMAL, is_default=True)
