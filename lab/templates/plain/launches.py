"""Reads from the host code of a source how it launches a kernel: `add<float, 4><<<grid, block, bytes>>>(…)`.

Host code has names of its own: `main` computes `blocks` from `count`, which the kernel knows as `n`. A name that is
passed for a parameter of the kernel stands for that parameter, and any other for what the host gives it once. What
remains unknown, as a result of an occupancy query, is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.base.elements import ELEMENT_BYTES
from lab.base.errors import Location, UserError
from lab.base.expressions import evaluate
from lab.isa.cuda.kernels import SourceKernel, behind, live_tokens, read_kernels, split_at_commas, type_aliases
from lab.isa.cuda.names import definitions
from lab.isa.cuda.tokens import Token, TokenKind, tokens
from lab.isa.cuda.types import TYPE_NAMES, element_type

_MEMBERS = (["x"], ["y"], ["z"])
_MOST_STEPS = 100
"""Names that one expression is followed through."""
_INTEGER = re.compile(r"(0[xX][0-9a-fA-F']+|\d[\d']*)[uUlLzZ]*")
_FRACTION = re.compile(r"(-?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?)[fF]?")
_WORD = re.compile(r"[A-Za-z_]\w*")
_OPERATORS = frozenset("+-*%(),")
_FUNCTIONS = frozenset({"min", "max", "ceil_div"})
_DIVIDES_UP = re.compile(r"(?i)i?_?(ceil_?div(ide)?|div_?(round_?)?up|div_?ceil|cdiv|round_?up_?div|ceiling_?div\w*)")
_ROUNDED = re.compile(r"\((?P<all>.+) \+ (?:(?P<less>\d+)|\(?(?P<side>.+) - 1\)?)\) // (?P<by>\w+|\(.+\))")


@dataclass(frozen=True, slots=True)
class HostLaunch:
    """A launch, in the expressions of experiment files over the kernel's parameters.

    Attributes:
        template: Arguments of the kernel's template, with numbers for constants; one that is unknown is empty.
        grid: Blocks along x, y and z, as far as there are several; empty where they are unknown.
        block: Threads of a block, likewise.
        shared_bytes: Dynamic shared memory of a block; empty where there is none, or nobody knows how much.
        shared_words: These bytes as the host has them.
        values: What the host passes for the kernel's numbers, by their names.
        shares: The host passes one variable for several of them, so that a size in the grid may be the wrong one.
    """

    template: tuple[str, ...] = ()
    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    shared_bytes: str = ""
    shared_words: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    shares: bool = False


class _Unknown(Exception):  # noqa: N818  a way out of an expression, not an error
    """An expression has a part that only the running host knows."""


def read_launch(text: str, kernel: SourceKernel, known: Collection[str]) -> HostLaunch:
    """Read the first launch of a kernel by `<<<…>>>`; nothing is known where the source has none.

    Args:
        text: The source.
        kernel: One of its kernels.
        known: Names that the experiment has: sizes and parameters.
    """
    host = _host(text)
    for at, token in enumerate(host):
        if token.text != kernel.name or not (found := _configuration(host, at)):
            continue
        template, configuration, arguments = found
        passed = list(zip(kernel.parameters, arguments, strict=False))
        sizes = [(word, one.name) for one, part in passed if one.name in known and (word := _variable(part))]
        named = [
            (word, one.name)
            for part, one in zip(template, kernel.template or (), strict=False)
            if one.name in known and (word := _variable(part))
        ]
        called = dict(reversed([*sizes, *named]))  # of two parameters, a variable stands for the first
        names = {name: name for name in known if name not in called.values()} | called
        reader, numbers = _Reader(host, _macros(text), names), _Reader(host, _macros(text), {})
        grid, block, shared, *_ = (*configuration, *_NOTHING)
        return HostLaunch(
            _arguments(text, host, numbers, template),
            reader.sides(grid, is_fixed=False),
            reader.sides(block, is_fixed=True),
            bytes_ if (bytes_ := reader.side(shared, is_fixed=True)) != "0" else "",
            _written(shared),
            {one.name: value for one, part in passed if not one.is_pointer and (value := numbers.number(part))},
            len({word for word, _ in sizes}) < len(sizes),
        )
    return HostLaunch()


def host_words(text: str) -> str:
    """Return a source's words outside of kernels, with one blank between them and no comments."""
    return " ".join(one.text for one in _host(text))


def extents_in(text: str, known: Collection[str]) -> Callable[[Sequence[Token]], str]:
    """Return what turns the extent of an array of a source into that of an experiment file; empty where it is unknown.

    Args:
        text: The source.
        known: Names that the experiment has.
    """
    return _Reader(_host(text), _macros(text), {name: name for name in known}).extent


def _host(text: str) -> list[Token]:
    """Return the tokens outside of kernels and of preprocessor lines."""
    bodies = [one.body for one in read_kernels(text)]
    return [
        one
        for one in live_tokens(text)
        if one.kind is not TokenKind.DIRECTIVE and not any(low <= one.start < high for low, high in bodies)
    ]


def _macros(text: str) -> dict[str, list[Token]]:
    return {one.name: list(tokens(one.value)) for one in definitions(text) if one.value and not one.function_like}


_Parts = list[list[Token]]
_NOTHING: _Parts = [[], [], []]


def _configuration(host: Sequence[Token], at: int) -> tuple[_Parts, _Parts, _Parts] | None:
    """Return what stands in ``<…>``, ``<<<…>>>`` and ``(…)`` behind a kernel's name; None where it is no launch."""
    texts = [one.text for one in host]
    opening = next((i for i in range(at + 1, len(texts)) if texts[i : i + 3] == ["<"] * 3 or texts[i] in ";{}"), -1)
    if opening < 0 or texts[opening] != "<":
        return None
    closing = next((i for i in range(opening, len(texts)) if texts[i : i + 4] == [">", ">", ">", "("]), -1)
    if closing < 0:
        return None
    template = split_at_commas(host[at + 2 : opening - 1]) if texts[at + 1] == "<" and opening > at + 1 else []
    if not template and opening != at + 1:
        return None
    passed = split_at_commas(host[closing + 4 : behind(host, closing + 3) - 1])
    return template, split_at_commas(host[opening + 3 : closing]), passed


def _variable(part: Sequence[Token]) -> str:
    """Return the variable that an argument is, such as `rows` of `(int)rows`; empty where it is none."""
    end = _behind_cast(part, 0) if part else 0
    rest = [one.text for one in part[end:]]
    if rest[:1] == ["("] and behind(part, end) == len(part):
        rest = rest[1:-1]
    return rest[0] if len(rest) == 1 and _WORD.fullmatch(rest[0]) else ""


def _arguments(text: str, host: Sequence[Token], numbers: _Reader, template: _Parts) -> tuple[str, ...]:
    """Return arguments of a template: numbers, else types; empty where a template of the host leaves one open."""
    aliases = type_aliases(live_tokens(text)) if template else {}
    open_ = {
        host[at + 1].text
        for at in range(len(host) - 2)
        if host[at].text in ("typename", "class") and host[at + 2].text in (",", ">", "=")
    }

    def argument(part: Sequence[Token]) -> str:
        written = _written(part)
        if number := {"true": "1", "false": "0"}.get(written, "") or numbers.number(part):
            return number
        return aliases.get(written, "" if open_ & {one.text for one in part} else written)

    return tuple(map(argument, template))


def _written(part: Sequence[Token]) -> str:
    """Return words as one text with the blanks that it needs."""
    return re.sub(r"(?<!\w) | (?!\w)", "", " ".join(one.text for one in part))


class _Reader:
    """Turns expressions of host code into those of experiment files."""

    def __init__(self, host: Sequence[Token], macros: Mapping[str, Sequence[Token]], names: Mapping[str, str]) -> None:
        """Prepare.

        Args:
            host: The host code.
            macros: What its macros stand for.
            names: What names of the host are called in the experiment; other names are followed.
        """
        self._host, self._macros, self._names = host, macros, names
        self._texts = [one.text for one in host]
        self._steps = 0

    def sides(self, part: Sequence[Token], *, is_fixed: bool) -> tuple[str, ...]:
        """Return the sides of a grid or a block, as `side` does; nothing where one is unknown."""
        sides = [self.side(one, is_fixed=is_fixed) for one in self._listed(part)]
        while len(sides) > 1 and sides[-1] == "1":
            sides.pop()
        return tuple(sides) if all(sides) else ()

    def side(self, part: Sequence[Token], *, is_fixed: bool) -> str:
        """Return an expression; empty where it is unknown.

        Args:
            part: The host's.
            is_fixed: What is computed from numbers alone is so whatever the sizes are; otherwise, it is unknown.
        """
        found = self.extent(part)
        if set(_WORD.findall(found)) - _FUNCTIONS or found.isdigit():
            return found
        return _number(found) if is_fixed else ""

    def extent(self, part: Sequence[Token]) -> str:
        """Return an expression, of numbers alone, too; empty where it is unknown."""
        self._steps = 0
        try:
            return self._expression(part)
        except _Unknown:
            return ""

    def number(self, part: Sequence[Token]) -> str:
        """Return the number that an expression is, as experiment files have it; empty where it is none."""
        self._steps = 0
        try:
            written = "".join(one.text for one in part)
            if len(part) == 1 and _WORD.fullmatch(written):
                written = "".join(one.text for one in self._value(written))
            if match := _FRACTION.fullmatch(written):
                return match[1]
            return _number(self._expression(part))
        except _Unknown:
            return ""

    def _listed(self, part: Sequence[Token]) -> list[Sequence[Token]]:
        """Return the sides that `dim3(…)`, a `dim3` of the host or one number has."""
        texts = [one.text for one in part]
        if texts[:1] == ["dim3"] and len(part) > 2 and behind(part, 1) == len(part):  # noqa: PLR2004  `dim3 ( )`
            return list(split_at_commas(part[2:-1]))
        if len(part) == 1 and texts[0] not in self._names and (found := self._dimensions(texts[0])):
            return found
        return [part]

    def _dimensions(self, name: str) -> list[Sequence[Token]]:
        """Return the sides of a `dim3` that the host declares once; nothing where there is none, or sides change."""
        found: list[list[Sequence[Token]]] = []
        for at in range(1, len(self._host) - 3):
            if self._host[at].text != name:
                continue
            if self._host[at + 1].text == "." and self._host[at + 3].text == "=":
                return []
            opening = at + 1
            while opening < len(self._host) - 1 and self._host[opening].text in ("=", "dim3"):
                opening += 1
            if self._host[opening].text in ("(", "{") and "dim3" in self._statement(at, opening):
                found.append(list(split_at_commas(self._host[opening + 1 : behind(self._host, opening) - 1])))
        return found[0] if len(found) == 1 else []

    def _statement(self, at: int, end: int) -> list[str]:
        """Return the words from the beginning of a statement to a place in it."""
        begin = at
        while begin > 0 and self._texts[begin - 1] not in (";", "{", "}"):
            begin -= 1
        return self._texts[begin:end]

    def _expression(self, part: Sequence[Token]) -> str:
        """Return an expression.

        Raises:
            _Unknown: A part of it is.
        """
        self._steps += 1
        if self._steps > _MOST_STEPS or not part:
            raise _Unknown
        words, at = [], 0
        while at < len(part):
            at, word = self._word(part, at)
            words.append(word)
        return _simplified(_joined(words))

    def _word(self, part: Sequence[Token], at: int) -> tuple[int, str]:
        """Return where the next word begins, and what the one at a place becomes."""
        texts = [one.text for one in part[at : at + 2]]
        if end := _behind_cast(part, at):
            return end, ""
        if texts[0] == "(" and not (at and part[at - 1].kind is TokenKind.WORD):
            end = behind(part, at)
            return end, self._within(part[at + 1 : end - 1])
        if sign := _sign(texts):
            return at + len(sign.replace("//", "/")), sign
        if number := _INTEGER.fullmatch(texts[0]):
            return at + 1, number[1].replace("'", "")
        if texts == ["sizeof", "("]:
            end = behind(part, at + 1)
            return end, _bytes_of(" ".join(one.text for one in part[at + 2 : end - 1]))
        return self._name(part, at)

    def _name(self, part: Sequence[Token], at: int) -> tuple[int, str]:
        text, following = part[at].text, [one.text for one in part[at + 1 : at + 3]]
        if text in self._names:
            return at + 1, self._names[text]
        if following[:1] == ["("]:
            return at + 1, self._called(text)
        if following[:1] == ["."] and following[1:] in _MEMBERS and (sides := self._dimensions(text)):
            place = _MEMBERS.index(following[1:])
            return at + 3, self._within(sides[place]) if place < len(sides) else "1"
        if part[at].kind is not TokenKind.WORD or following[:1] in (["."], ["->"], ["::"], ["["]):
            raise _Unknown
        return at + 1, self._within(self._value(text))

    @staticmethod
    def _called(name: str) -> str:
        if name in _FUNCTIONS:
            return name
        if _DIVIDES_UP.fullmatch(name):
            return "ceil_div"
        raise _Unknown

    def _within(self, part: Sequence[Token]) -> str:
        found = self._expression(part)
        return found if re.fullmatch(r"\w+|\w+\([^()]*\)", found) else f"({found})"

    def _value(self, name: str) -> Sequence[Token]:
        """Return what the host gives a name.

        Raises:
            _Unknown: It gives it nothing or several values, or lets a function write there.
        """
        found: list[Sequence[Token]] = [self._macros[name]] if name in self._macros else []
        texts = self._texts
        for at in range(1, len(texts) - 2):
            if texts[at] != name or texts[at - 1] in (".", "->", ">"):
                continue
            behind_it = texts[at + 1] + texts[at + 2]
            before = texts[at - 2 : at]
            if re.fullmatch(r"[-+*/%]=|\+\+|--", behind_it) or before in (
                ["+", "+"],
                ["-", "-"],
                ["(", "&"],
                [",", "&"],
            ):
                raise _Unknown
            if behind_it[0] == "=" and behind_it != "==":
                found.append(self._initial(at + 2))
            elif behind_it[0] == "{" and self._host[at - 1].kind is TokenKind.WORD:
                found.append(self._host[at + 2 : behind(self._host, at + 1) - 1])
        if len({_written(one) for one in found}) != 1:
            raise _Unknown
        return found[0]

    def _initial(self, begin: int) -> Sequence[Token]:
        """Return the tokens of a value, up to the comma or semicolon behind it."""
        end = begin
        while end < len(self._host) and self._host[end].text not in (";", ",", ")"):
            end = behind(self._host, end) if self._host[end].text in ("(", "[", "{") else end + 1
        return self._host[begin:end]


def _behind_cast(part: Sequence[Token], at: int) -> int:
    """Return what follows `(int)`, `unsigned` of `unsigned(…)`, `static_cast<int>` or `ns::`; 0 where nothing is."""
    texts = [one.text for one in part[at:]]
    if texts[0] == "static_cast":
        return at + texts.index(">") + 1 if ">" in texts else 0
    if texts[0] == "(":
        end = next((i for i, text in enumerate(texts) if text == ")"), 0)
        inside = texts[1:end]
        return at + end + 1 if inside and all(one in TYPE_NAMES or one.endswith("_t") for one in inside) else 0
    if texts[1:2] == ["::"] and _WORD.fullmatch(texts[0]):
        return at + 2
    return at + 1 if texts[0] in TYPE_NAMES and texts[1:2] == ["("] else 0


def _sign(texts: Sequence[str]) -> str:
    """Return the operator or bracket that words begin with, as experiment files write it; empty where there is none."""
    if texts in (["<", "<"], [">", ">"]):
        return "".join(texts)
    if texts[0] == "/":
        return "//"
    return texts[0] if texts[0] in _OPERATORS else ""


def _bytes_of(c_type: str) -> str:
    """Return the size of a type as a number.

    Raises:
        _Unknown: It is a structure, or a variable.
    """
    found = element_type(c_type)
    if found is None or found.dtype not in ELEMENT_BYTES:
        raise _Unknown
    return str(ELEMENT_BYTES[found.dtype] * found.lanes)


def _joined(words: Sequence[str]) -> str:
    """Return words as one text, with blanks around operators."""
    text = " ".join(word for word in words if word)
    text = re.sub(r"\( ", "(", text)
    text = re.sub(r" ([),])", r"\1", text)
    return re.sub(r"(\w) \(", r"\1(", text)


def _simplified(text: str) -> str:
    """Return an expression with `ceil_div` for what rounds a quotient up, and a number for what has numbers alone."""
    while text[:1] == "(" and text[-1:] == ")" and _is_whole(text[1:-1]):
        text = text[1:-1]
    if (found := _ROUNDED.fullmatch(text)) and _is_whole(found["all"]) and _is_whole(found["by"].strip("()")):
        by = _simplified(found["by"])
        if found["side"] == by or (found["less"] and by == str(int(found["less"]) + 1)):
            return f"ceil_div({_simplified(found['all'])}, {by})"
    return (re.fullmatch(r"\d+(?: \* \d+)+|\d+ << \d{1,2}", text) and _number(text)) or text


def _number(expression: str) -> str:
    """Return the whole number that an expression is; empty where it names something, or is none."""
    try:
        value = evaluate(expression, {}, at=Location(Path()), key="")
    except UserError:
        return ""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _is_whole(text: str) -> bool:
    """Return whether brackets open before they close, and all close."""
    depth = 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if depth < 0:
            return False
    return depth == 0
