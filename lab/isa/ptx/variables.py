"""Parses PTX declarations: registers, parameters and variables with their initialisers."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import prod

from lab.isa.model import Variable
from lab.isa.ptx.ptx_text import IDENTIFIER, Cursor

SPACES = frozenset({"reg", "param", "shared", "local", "global", "const", "tex"})
LINKAGE = frozenset({"extern", "visible", "weak", "common", "attribute"})

TYPES = frozenset(
    {
        *(f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64)), "b128", "pred",
        "f16", "f16x2", "bf16", "bf16x2", "f32", "f64", "tf32", "texref", "samplerref", "surfref",
    }
)  # fmt: skip
"""Types of registers and variables."""

_WORD = re.compile(r"\s*+\.([A-Za-z_][\w:]*+)", re.ASCII)
_ATTRIBUTES = re.compile(r"\s*+\((?>(?:[^();]|\([^();]*+\))*)\)", re.ASCII)
_BANK = re.compile(r"\s*+\[\s*+\d{1,3}\s*+\]", re.ASCII)
_NUMBER = re.compile(r"\s*+(\w++)", re.ASCII)
_NAME = re.compile(rf"\s*+({IDENTIFIER}|_)\s*+(?>(?:<([^<>;]*+)>)?)((?>(?:\s*+\[[^\[\];]*+\])*))", re.ASCII)
_EXTENT = re.compile(r"\[([^\]]*+)\]", re.ASCII)
_EQUALS = re.compile(r"\s*+=", re.ASCII)
_COMMA = re.compile(r"\s*+,", re.ASCII)
_END = re.compile(r"\s*+;", re.ASCII)
_OPEN, _CLOSE = re.compile(r"\s*+\(", re.ASCII), re.compile(r"\s*+\)", re.ASCII)
_SCALAR = re.compile(r"\s*+([^,;{}]++)", re.ASCII)
_BRACE_OR_END = re.compile(r"[{};]")
_VALUE = re.compile(r"[-+~!]*+[\w$%.]++(?>(?:\s*+[-+*/&|^<>%()]++\s*+[\w$%.]*+)*)", re.ASCII)
_TYPE_BYTES = re.compile(r"(?:[usbf]|bf|tf)(\d+)(?:x(\d))?\Z", re.ASCII)
_MOST_ELEMENTS = 1 << 24
_MOST_ALIGNMENT = 1 << 20
_ELEMENT_LIMIT = 1 << 48
_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Prefix:
    """The part of a declaration before its names: `.shared .align 4 .v2 .f32`."""

    space: str
    type: str
    align: int | None
    vector: int
    external: bool
    pointer: bool = False


def read_words(cursor: Cursor) -> list[str]:
    """Read linkage words such as `.visible` and `.attribute(.managed)`, up to any other directive."""
    words: list[str] = []
    while True:
        start = cursor.position
        match = cursor.take(_WORD)
        if match is None or match[1] not in LINKAGE:
            cursor.position = start
            return words
        words.append(match[1])
        if match[1] == "attribute":
            cursor.need(_ATTRIBUTES, "an attribute in parentheses")


def read_declaration(cursor: Cursor, linkage: list[str]) -> list[Variable]:
    """Read one declaration from its state space to its semicolon.

    Args:
        cursor: A cursor before the state space (`.reg`).
        linkage: Linkage words before it.

    Raises:
        ReaderError: The declaration is malformed.
    """
    prefix = _read_prefix(cursor, external="extern" in linkage)
    variables = [_read_variable(cursor, prefix)]
    while cursor.take(_COMMA):
        variables.append(_read_variable(cursor, prefix))
    cursor.need(_END, "';' after the declaration")
    return variables


def read_parameters(cursor: Cursor, *, entry: bool) -> tuple[Variable, ...] | None:
    """Parse a parameter list in parentheses; return None, without advancing, if there is none.

    Args:
        cursor: A cursor before the list.
        entry: The list belongs to an entry, whose parameters are in `.param`. A function's may be in `.reg`.

    Raises:
        ReaderError: The list is malformed.
    """
    if not cursor.take(_OPEN):
        return None
    parameters: list[Variable] = []
    if cursor.take(_CLOSE):
        return ()
    while True:
        start = cursor.position
        prefix = _read_prefix(cursor, external=False)
        if prefix.space not in ({"param"} if entry else {"param", "reg"}):
            cursor.position = start
            cursor.fail(f"a parameter of {'an entry' if entry else 'a function'} cannot be in .{prefix.space}")
        parameters.append(_read_variable(cursor, prefix))
        if cursor.take(_CLOSE):
            return tuple(parameters)
        cursor.need(_COMMA, "',' or ')' in the parameter list")


def _read_prefix(cursor: Cursor, *, external: bool) -> Prefix:
    space, kind, align, vector, pointer = "", "", None, 1, False
    while match := cursor.take(_WORD):
        word = match[1]
        if not space:
            space = word
            if word not in SPACES:
                cursor.fail(f"'.{word}' is not a state space")
            cursor.take(_BANK)
        elif word == "align":
            start = cursor.position
            number = cursor.integer(cursor.need(_NUMBER, "an alignment")[1])
            if number <= 0 or number & (number - 1) or number > _MOST_ALIGNMENT:
                cursor.position = start
                cursor.fail(f"an alignment must be a power of two, at most  {_MOST_ALIGNMENT}")
            align = align if pointer else number  # after `.ptr`, the alignment of the pointer's target
        elif word == "ptr":
            pointer = True
        elif word in {"v2", "v4", "v8"}:
            vector = int(word[1:])
        elif word == "attribute":
            cursor.need(_ATTRIBUTES, "an attribute in parentheses")
        elif not kind:
            kind = word
        # words after the type describe a pointer's target: `.ptr .global`
    if not space or not kind:
        cursor.fail("a declaration needs a state space and a type")
    if kind not in TYPES:
        cursor.fail(f".{kind} is not a type of a variable")
    return Prefix(space, kind, align, vector, external, pointer)


def _read_variable(cursor: Cursor, prefix: Prefix) -> Variable:
    match = cursor.need(_NAME, "a name")
    name, parameterised, extents = match[1], match[2] is not None, match[3]
    shape: list[int | None] = [
        cursor.integer(extent[1]) if extent[1].strip() else None for extent in _EXTENT.finditer(extents)
    ]
    if parameterised:
        shape = [cursor.integer(match[2])]
    if any(extent is not None and extent < 0 for extent in shape):
        cursor.fail(f"{name} has a negative extent")
    count = None if None in shape else prod(extent or 0 for extent in shape)
    if count is not None and count >= _ELEMENT_LIMIT:
        cursor.fail(f"{name} has {count} elements; a variable must have fewer than {_ELEMENT_LIMIT}")
    variable = Variable(
        name=name,
        space=prefix.space,
        type=prefix.type,
        count=count,
        align=prefix.align or _own_alignment(prefix),
        vector=prefix.vector,
        parameterised=parameterised,
        external=prefix.external,
        pointer=prefix.pointer,
        line=cursor.source.line(match.start(1)),
    )
    return _with_initial(cursor, variable, shape) if cursor.take(_EQUALS) else variable


def _own_alignment(prefix: Prefix) -> int | None:
    """Return the natural alignment in bytes: the size of the type or, for a vector, of the vector."""
    match = _TYPE_BYTES.match(prefix.type)
    return prefix.vector * max(int(match[1]) // 8, 1) * int(match[2] or 1) if match else None


def _with_initial(cursor: Cursor, variable: Variable, shape: list[int | None]) -> Variable:
    start = cursor.position
    elements = _read_initial(cursor, [*shape, *([variable.vector] if variable.vector > 1 else [])])
    if not all(map(_VALUE.fullmatch, set(elements))):
        cursor.position = start
        cursor.fail(f"the initialiser of {variable.name} cannot be read")
    count = variable.count
    if count is None:  # the first extent comes from the initialiser
        inner = prod(extent or 1 for extent in shape[1:]) * variable.vector
        count = -(-len(elements) // max(inner, 1)) * prod(extent or 1 for extent in shape[1:])
    if len(elements) > count * variable.vector:
        cursor.position = start
        cursor.fail(f"{variable.name} has {count * variable.vector} elements, but its initialiser has {len(elements)}")
    return replace(variable, count=count, initial=elements)


def _read_initial(cursor: Cursor, shape: list[int | None]) -> tuple[str, ...]:
    if match := cursor.take(_SCALAR):
        return (match[1].strip(),)
    cursor.skip_blanks()
    start, depth = cursor.position, 0
    for match in _BRACE_OR_END.finditer(cursor.text, start):
        depth += {"{": 1, "}": -1, ";": 0}[match[0]]
        if depth == 0 or match[0] == ";":
            break
    else:
        cursor.fail("an initialiser does not end")
    if depth or cursor.text[start] != "{":
        cursor.fail("an initialiser does not end")
    inside = cursor.text[start + 1 : match.start()]
    cursor.position = match.end()
    return _flat(inside) if "{" not in inside else _nested(cursor, inside, shape)


def _flat(text: str) -> tuple[str, ...]:
    elements = [element.strip() for element in text.split(",")]
    return tuple(elements[:-1] if elements[-1] == "" else elements)  # a trailing comma, or `{}`


_TOKEN = re.compile(r"[{}]|[^{},]++", re.ASCII)


def _nested(cursor: Cursor, text: str, shape: list[int | None]) -> tuple[str, ...]:
    """Flatten `{1}, {2, 3}`. Zeros fill a short inner row (PTX ISA, "Initializers")."""
    if len(shape) > _DEPTH:
        cursor.fail(f"more than {_DEPTH} dimensions")
    elements: list[str] = []
    starts: list[int] = []
    for match in _TOKEN.finditer(text):
        piece = match[0].strip()
        if piece == "{":
            starts.append(len(elements))
        elif piece == "}":
            row = prod(extent or 1 for extent in shape[len(starts) :]) if starts and len(starts) < len(shape) else 0
            start = starts.pop() if starts else len(elements)
            missing = start + row - len(elements)
            if missing < 0 or len(elements) + missing > _MOST_ELEMENTS:
                cursor.fail("an initialiser's row does not fit")
            elements.extend(["0"] * missing)
        elif piece:
            elements.append(piece)
    return tuple(elements)
