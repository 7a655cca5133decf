"""Reads from the host code of a source how it launches its kernel: `add<float, 4><<<grid, block, bytes>>>(…)`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab.base.elements import ELEMENT_BYTES
from lab.base.errors import Location, UserError
from lab.base.expressions import evaluate
from lab.isa.cuda.kernels import SourceKernel, read_kernels
from lab.isa.cuda.names import definitions
from lab.isa.cuda.tokens import tokens
from lab.isa.cuda.types import element_type

_LAUNCH = r"(?<![\w.]){name} (?:< ([^;{{}}]*?) > )?< < < ([^;{{}}]*?) > > > (\([^;{{}}]*\)) ;"
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_SIZE_OF = re.compile(r"\bsizeof \( ((?:unsigned )?\w+) \)")
_CAST = re.compile(r"\( (?:unsigned|int|unsigned int|size_t|u?int(?:32|64)_t) \) (?=[\w(])")
_QUOTIENT = re.compile(r"\b(?:\w*div_?up\w*|ceil_?div\w*|c?div_?ceil\w*|cdiv) \(", re.IGNORECASE)
_SCOPE = re.compile(r"\b\w+ :(?: :|:) ")
_SUM = re.compile(r"\((\d+(?: [-+*] \d+)+)\)")
_ROUNDED_UP = re.compile(r"\(((?:[^()]|\([^()]*\))+?) \+ (\d+)( - 1)?\) // (\d+)")
_SUFFIX = re.compile(r"\b(\d+)[uUlLzZ]+\b")
_FUNCTIONS = frozenset({"ceil_div", "min", "max"})
_DEEPEST = 8
"""Names in the values of names that are followed: `constexpr int kThreads = 32 * kWarps;`."""


@dataclass(frozen=True, slots=True)
class HostLaunch:
    """The first launch of a kernel in host code, as expressions of an experiment file.

    Attributes:
        template: Arguments of the kernel's template as the host gives them, words behind constants put in.
        grid: The sides of the grid; empty where one of them is not known.
        block: Those of a block, likewise.
        shared: Bytes of dynamic shared memory; empty where there are none, or they are not known.
        shared_words: These bytes as the host has them.
        sizes: What the host passes for parameters of the kernel, of those that it gives a number.
        shares: One variable of the host stands for several of them, so that the grid may name the wrong one.
    """

    template: tuple[str, ...] = ()
    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    shared: str = ""
    shared_words: str = ""
    sizes: Mapping[str, str] = field(default_factory=dict)
    shares: bool = False


def host_launch(text: str, kernel: SourceKernel, names: Collection[str]) -> HostLaunch:
    """Read how host code launches a kernel; nothing is known where it does not, or through another function.

    Args:
        text: The source.
        kernel: One of its kernels.
        names: The problem's fields and the experiment's parameters, which expressions may name.
    """
    host = host_words(text)
    found = re.search(_LAUNCH.format(name=re.escape(kernel.name)), host)
    if found is None:
        return HostLaunch()
    passed = dict(zip((one.name for one in kernel.parameters), _parts(found[3][2:-2]), strict=False))
    sizes = [(word, name) for name, word in reversed(passed.items()) if name in names]
    reader = _Reader(text, host, names, dict(sizes))
    grid, block, shared, *_ = [*_parts(found[2]), "", "", ""]
    return HostLaunch(
        tuple(reader.argument(one) for one in _parts(found[1] or "")),
        reader.sides(grid),
        reader.sides(block),
        reader.expression(shared),
        shared.replace(" ", ""),
        {name: value for name in names if (value := reader.number(passed.get(name, "")))},
        len({word for word, _ in sizes}) < len(sizes),
    )


def host_words(text: str) -> str:
    """Return a source's words outside of kernels, with one blank between them and no comments."""
    bodies = [one.body for one in read_kernels(text)]
    kept = (one for one in tokens(text) if not any(low <= one.start < high for low, high in bodies))
    return " ".join(one.text for one in kept)


def _parts(listed: str) -> list[str]:
    """Split words at the commas that stand in no bracket."""
    parts, depth = [""], 0
    for word in listed.split():
        depth += (word in "([{<") - (word in ")]}>")
        if word == "," and not depth:
            parts.append("")
        else:
            parts[-1] += f" {word}"
    return [one.strip() for one in parts if one.strip()]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Turns words of the host into expressions.

    Attributes:
        text: The source.
        host: Its words outside of kernels.
        names: What expressions may name.
        known_as: Variables of the host that it passes for a parameter of the kernel: the parameter.
    """

    text: str
    host: str
    names: Collection[str]
    known_as: Mapping[str, str]

    def argument(self, given: str) -> str:
        """Return an argument of a template: a number where it is one, else as it stands."""
        return {"true": "1", "false": "0"}.get(given, "") or self.number(given) or given.replace(" ", "")

    def number(self, given: str) -> str:
        """Return the number that host code has for a variable or an expression, or nothing."""
        found = self._resolved(given, frozenset()) if given else ""
        return found if found.isdecimal() else ""

    def sides(self, given: str) -> tuple[str, ...]:
        """Return the sides of a grid or a block: of `dim3(a, b)`, of a variable of that type, or of one number."""
        if re.fullmatch(r"\w+", given):
            declared = re.search(rf"\bdim3 (?:[^;]*?[,)}}] )?{given} (?:= (?:dim3 )?)?([({{][^;]*)", self.host)
            given = _enclosed(declared[1]) if declared else given
        elif made := re.fullmatch(r"dim3 ([({].*)", given):
            given = _enclosed(made[1])
        sides = [self.expression(one) for one in _parts(given)]
        while len(sides) > 1 and sides[-1] == "1":
            sides.pop()
        return tuple(sides) if sides and all(sides) else ()

    def expression(self, given: str) -> str:
        """Return an expression over the names that may stand in one; nothing where it says something else."""
        return self._resolved(given, frozenset(self.names))

    def _resolved(self, given: str, names: frozenset[str]) -> str:
        words = _SUFFIX.sub(r"\1", _CAST.sub("", _SCOPE.sub("", given)))
        words = _SIZE_OF.sub(_bytes, _QUOTIENT.sub("ceil_div (", words))
        for _ in range(_DEEPEST):
            open_ = [one for one in _WORD.findall(words) if one not in names and one not in _FUNCTIONS]
            if not open_:
                break
            words = _WORD.sub(lambda found: self._value(found[0], names), words)
        else:
            return ""
        return _shown(re.sub(r"(?<!/) / (?!/)", " // ", words), is_number=not set(_WORD.findall(words)) & names)

    def _value(self, word: str, names: frozenset[str]) -> str:
        """Return what stands for a word of the host; the word itself where it has several values, or none."""
        if word in _FUNCTIONS:
            return word
        if names and word in self.known_as:
            return self.known_as[word]
        if word in names:
            return word
        values = {one.value.strip() for one in definitions(self.text) if one.name == word and not one.function_like}
        values |= {one.strip() for one in re.findall(rf"(?<!\. )\b{word} = ([^;,={{}}]+?) [;,]", self.host)}
        is_changed = re.search(rf"& {word} [,)]|\b{word} (?:[-+*/] =|\+ \+|- -)|(?:\+ \+|- -) {word}\b", self.host)
        [value] = values if len(values) == 1 and not is_changed else [""]
        value = _SIZE_OF.sub(_bytes, _SCOPE.sub("", value))
        return f"( {value} )" if value and word not in _WORD.findall(value) else word


def _enclosed(bracket: str) -> str:
    """Return what stands between the bracket that a text begins with and its end."""
    depth = 0
    words = bracket.split()
    for at, word in enumerate(words):
        depth += (word in "([{") - (word in ")]}")
        if not depth:
            return " ".join(words[1:at])
    return ""


def _bytes(found: re.Match[str]) -> str:
    element = element_type(found[1])
    return str(ELEMENT_BYTES[element.dtype] * element.lanes) if element else found[0]


def _shown(words: str, *, is_number: bool) -> str:
    """Return an expression as a person writes it, and a number where it is one; nothing where it cannot be read."""
    tidy = re.sub(r"\( (\w+) \)", r"\1", words).replace("< <", "<<").replace("> >", ">>")
    tidy = re.sub(r" ?([(,)]) ?", r"\1", tidy).replace(",", ", ")
    tidy = re.sub(r"\)(?=[-+*/])", ") ", re.sub(r"(?<=[-+*/])\(", " (", tidy))
    if is_number:
        return _number(tidy)
    tidy = _ROUNDED_UP.sub(_covering, _SUM.sub(lambda found: _number(found[1]), tidy))
    tidy = re.sub(r"(?<!\w)\((ceil_div\([^()]*\))\)", r"\1", tidy)
    return tidy[1:-1] if re.fullmatch(r"\((?:[^()]|\([^()]*\))*\)", tidy) else tidy


def _covering(found: re.Match[str]) -> str:
    """Return `ceil_div(n, 64)` for `(n + 64 - 1) // 64` and `(n + 63) // 64`."""
    added = int(found[2]) - (1 if found[3] else 0)
    return f"ceil_div({found[1]}, {found[4]})" if added == int(found[4]) - 1 else found[0]


def _number(expression: str) -> str:
    try:
        value = evaluate(expression, {}, at=Location(Path()), key="")
    except UserError:
        return ""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""
