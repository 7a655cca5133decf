"""Parses argument declarations: ``out float32[n, m]``, ``int32[nnz] uniform 0 n``, ``float32 = 2 * alpha``.

The form is ``[in|out [partial]|inout|scratch] [unordered] TYPE[SHAPE] [FILL]`` for an array, and ``TYPE [=
EXPRESSION]`` for a scalar. A shape lists expressions, slowest dimension first, as NumPy and C do. Elements of a
`partial` output may stay unwritten, and those of an `unordered` one may be in any order. A fill is one of `FILLS`, the
name of an .npy file, or ``= EXPRESSION``. After these, `lab.operators.declared.mapped` parses a tensor map of the
array. A structure passed by value is a mapping from its members to such texts.
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
    """The direction of a kernel argument."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"
    SCRATCH = "scratch"  # written, and what it holds afterwards is not compared


class FillKind(StrEnum):
    """The kind of an array's initial contents."""

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
"""The kind, operands and accepted operand counts of each fill; operands are expressions without blanks."""

_FOREIGN_FILLS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("random", "rand", "rng"), "uniform 0 1"),
    **dict.fromkeys(("randn", "gaussian", "gauss"), "normal"),
    **dict.fromkeys(("randint", "integers"), "uniform 0 100"),
    **dict.fromkeys(("arange", "iota", "linspace"), "range"),
    **dict.fromkeys(("zero", "0"), "zeros"),
    **dict.fromkeys(("one", "1"), "ones"),
}
"""Other libraries' names for contents."""

_ACCEPTED_FILLS = "normal, normal MEAN DEVIATION, uniform LOW HIGH, zeros, ones, range, FILE.npy, = EXPRESSION"


@dataclass(frozen=True, slots=True)
class Fill:
    """The initial contents of an array.

    Attributes:
        kind: How it is made.
        operands: Expressions; of a file, its path; of values, their one expression.
        is_default: The file does not declare the contents.
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
        fill: An array's initial contents; None for scalars and for poisoned arrays.
        value: Expression of a scalar's value; None if the problem or a parameter of that name has it.
        structure: The kernel's argument it is a member of; empty if it is an argument itself.
        view: The tensor map the kernel takes instead of a pointer to the array; None for a pointer.
        is_partial: Unwritten elements of an output are intended and not compared.
        is_unordered: Elements of an output may be in any order.
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
        """Return the parameter that determines its element type; empty if the type is fixed."""
        return self.dtype[1:-1] if self.dtype.startswith("{") else ""

    def typed(self, dtype: str) -> Argument:
        """Return the argument with its element type in place of the parameter.

        Raises:
            UserError: Its contents do not suit that type.
        """
        return parse(self.name, str(self).replace(self.dtype, dtype, 1), self.structure)

    @property
    def is_array(self) -> bool:
        """Return whether it is an array."""
        return self.shape is not None

    @property
    def is_mapped(self) -> bool:
        """Return whether the kernel takes a tensor map of it."""
        return self.view is not None

    @property
    def is_written(self) -> bool:
        """Return whether it is an output, which is compared."""
        return self.direction in (Direction.OUT, Direction.INOUT)

    @property
    def expressions(self) -> tuple[str, ...]:
        """Return every expression in it, over the problem and parameters."""
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
    section: object, at: Callable[..., Location | None] = lambda *_: None, *, writes: bool = True
) -> tuple[tuple[Argument, ...], tuple[UserError, ...]]:
    """Parse all arguments of a kernel, in its order.

    Args:
        section: A mapping from names to texts, as YAML gives it; to mappings of that form for structures.
        at: Returns the location of an argument or a member, for errors.
        writes: At least one of them must be written.

    Returns:
        The arguments that could be parsed, and every mistake.
    """
    if not isinstance(section, dict) or not section:
        accepted = 'a mapping in the order of the kernel\'s parameters, such as {c: "out float32[n]", n: int32}'
        mistake = UserError(
            "wrong value", code="wrong-value", at=at(), key="arguments", found=section, accepted=accepted
        )
        return (), (mistake,)
    arguments, mistakes = dict[str, Argument](), list[UserError]()
    for place, text in places(section):
        structure, name = "" if len(place) == 1 else place[0], place[-1]
        if name in arguments or (structure and name in section):
            key = f"arguments.{'.'.join(place)}"
            accepted = f"another name, such as {name}_: those of members need not be the source's"
            mistakes.append(
                UserError(
                    f"two arguments have the name {name}", code="duplicate", at=at(*place), key=key, accepted=accepted
                )
            )
            continue
        try:
            arguments[name] = parse(name, text, structure)
        except UserError as error:
            mistakes.append(error.placed(at(*place), error.key))
    if writes and not mistakes and not any(argument.is_written for argument in arguments.values()):
        accepted = (
            "out or inout in front of the type of at least one array; a kernel that only prints has no result to check "
            "or to time against, so let it store one, or execute it and see what it prints: lab emulate KERNEL.cu"
        )
        mistakes.append(
            UserError("the kernel writes no argument", code="missing-key", at=at(), key="arguments", accepted=accepted)
        )
    return tuple(arguments.values()), tuple(mistakes)


def places(section: Mapping[object, object]) -> Iterator[tuple[tuple[str, ...], object]]:
    """Iterate over the arguments and members of structures, each with its keys below `arguments`."""
    for name, value in section.items():
        if isinstance(value, dict) and value:
            yield from (((str(name), str(member)), text) for member, text in value.items())
        else:
            yield (str(name),), value


def parse(name: str, text: object, structure: str = "") -> Argument:
    """Parse one argument, or a member of a structure.

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
    """Parses one text from left to right."""

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
            array_argument = Argument(self._name, dtype, direction, shape, fill, view=view)
            return replace(array_argument, is_partial=bool(partial), is_unordered=bool(unordered))
        if direction is not Direction.IN:
            self.refuse(f"a scalar cannot be {direction}", f"an array: {direction} {dtype}[SHAPE]", at=0)
        if dtype in _UNPASSED:
            self.refuse(f"a scalar of type {dtype} cannot be passed", f"an array of one element: {dtype}[1]")
        return Argument(self._name, dtype, value=self._value())

    def _dtype(self) -> str:
        if followed := _PARAMETER.match(self._text, self._at):
            self._at = followed.end()
            return f"{{{followed[1]}}}"
        match = _TYPE.match(self._text, self._at)
        if match is None:
            self.refuse("the type is missing", ", ".join(ELEMENT_TYPES), code="unsupported")
        word = match[1]
        if word not in ELEMENT_TYPES:
            words = re.findall(r"\w+", self._text[self._at :].split("[")[0])  # of `const unsigned char *`, uint8
            type_names = {**C_NAMES, "float2": "complex64", "double2": "complex128"}
            equivalent = next(
                (type_names[two] for two in map(" ".join, itertools.pairwise(words)) if two in type_names), None
            )
            equivalent = equivalent or next(
                (type_names[candidate] for candidate in words if candidate in type_names), None
            )
            suggestion = f"did you mean '{equivalent}'?" if equivalent else did_you_mean(word, ELEMENT_TYPES)
            if suggestion is None and self._text[self._at :].strip().isidentifier():  # `M: m`, a value without its type
                suggestion = f"a scalar's type comes before its value: int32 = {word}"
            at = self._at + match.start(1) - match.start()
            self.refuse(
                f"unknown type {word!r}", ", ".join(ELEMENT_TYPES), code="unknown-name", at=at, suggestion=suggestion
            )
        self._at = match.end()
        if self._text[self._at : self._at + 1] in ("*", "&"):
            self.refuse("a pointer has no shape", f"{word}[SHAPE], such as {word}[n] or {word}[m, n]", code="mismatch")
        return word

    def _list(self, label: str, element_label: str) -> tuple[str, ...]:
        """Parse a bracketed list, such as a shape."""
        opening = self._at
        split = mapped.bracketed(self._text, opening)
        if split is None:
            self.refuse(f"{label} has no closing ']'", "dimensions between [ and ]", at=opening)
        parts, self._at = split
        if len(parts) > _MOST_DIMENSIONS:
            self.refuse(f"{len(parts)} dimensions", f"at most {_MOST_DIMENSIONS}", code="mismatch", at=opening)
        return tuple(self._expression(text, place, element_label) for place, text in parts)

    def _view(self, marked: re.Match[str], shape: tuple[str, ...]) -> MappedView:
        """Parse a tensor map after `as map` or `as im2col`, and return to where the contents would start."""
        start, self._at, of_pixels = self._at, marked.end(), marked[1] == "im2col"
        if self._path != self._name:
            self.refuse("a tensor map cannot be a member of a structure", "an argument of its own", at=marked.start())
        box = self._list("the box", "a size of the box")
        patterns = mapped.PARTS | (mapped.IM2COL_PARTS if of_pixels else {})
        sides = dict.fromkeys(patterns, tuple[str, ...]())
        for word, pattern in patterns.items():
            if match := pattern.match(self._text, self._at):
                self._at = match.end()
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
        if swizzled := mapped.SWIZZLE.match(self._text, self._at):
            swizzle, self._at = self._expression(swizzled[1], swizzled.start(1), "the swizzle"), swizzled.end()
        if unexpected := self._text[self._at :].strip():
            self.refuse(f"unexpected {unexpected[:40]!r}", mapped.IM2COL_FORM if of_pixels else mapped.FORM)
        self._at = start
        return MappedView(box, extents, strides, swizzle, corners)

    def _corners(self, sides: Mapping[str, tuple[str, ...]], rank: int, at: int) -> tuple[tuple[str, ...], ...]:
        """Return the corners and steps of an im2col map; the defaults per spatial dimension are 0, 0 and 1."""
        if rank not in mapped.IM2COL_DIMENSIONS:
            accepted = "3 to 5 dimensions: images, one to three of space, and channels"
            self.refuse(f"im2col of {rank} dimensions", accepted, code="mismatch", at=at)
        corners = []
        for word in mapped.IM2COL_PARTS:
            numbers = sides[word] or ("1" if word == "steps" else "0",) * (rank - 2)
            if len(numbers) != rank - 2:
                accepted = f"{rank - 2}, one for each dimension of space, the slowest first"
                self.refuse(f"{len(numbers)} numbers behind {word!r}", accepted, at=at)
            corners.append(numbers)
        return tuple(corners)

    def _expression(self, text: str, place: int, label: str) -> str:
        if not text.strip():
            self.refuse(f"{label} is missing", "an expression over the problem and the parameters", at=place)
        try:
            names_in(text.strip(), at=Location("arguments"), key=f"arguments.{self._path}")
        except UserError as error:
            at = place + len(text) - len(text.lstrip())
            accepted = error.accepted if isinstance(error.accepted, str) else "an expression"
            self.refuse(f"{label}: {error.message}", accepted, at=at, suggestion=error.suggestion)
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
        remaining = self._text[start:].strip()
        if not remaining:
            empty = direction in (Direction.OUT, Direction.SCRATCH) or dtype not in ELEMENT_TYPES
            return None if empty else _default(dtype)
        self._at += len(self._text[start:]) - len(self._text[start:].lstrip())
        if direction is Direction.OUT:
            accepted = (
                f"nothing: what is only written holds NaN before. For an array that is also read: inout … {remaining}"
            )
            self.refuse("an output cannot have initial contents", accepted)
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
            equivalent = _FOREIGN_FILLS.get(first.split("(")[0].lower())
            suggestion = f"did you mean {equivalent!r}?" if equivalent else did_you_mean(first, FILLS)
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
            self.refuse(f"{dtype} does not support normal numbers", "uniform LOW HIGH, zeros, ones, range, FILE.npy")
        return Fill(kind, tuple(self._expression(text, place, "an operand") for text, place in words[1:]))

    def _words(self, start: int) -> list[tuple[str, int]]:
        """Split at blanks outside parentheses and quotes; return each word with its position."""
        words: list[tuple[str, int]] = []
        depth, end = 0, -1
        for match in _WORDS.finditer(self._text, start):
            sign = match[0]
            if depth == 0 and (match.start() != end or not words):
                words.append((sign, match.start()))
            else:
                text, place = words[-1]
                words[-1] = (self._text[place : match.start()] + sign if depth else text + sign, place)
            depth = max(0, depth + (sign in _OPENING) - (sign in _CLOSING))
            end = match.end()
        return words


def _default(dtype: str) -> Fill:
    """Return the default fill: normal numbers, integers from 0 to 99, or booleans."""
    kind = ELEMENT_TYPES[dtype].kind
    if kind is ElementKind.BOOL:
        return Fill(FillKind.UNIFORM, ("0", "2"), is_default=True)
    if kind is ElementKind.INTEGER:
        return Fill(FillKind.UNIFORM, ("0", "100"), is_default=True)
    return Fill(FillKind.NORMAL, is_default=True)
