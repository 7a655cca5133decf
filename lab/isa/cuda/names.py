"""Which names a CUDA source uses, defines and leaves to whoever compiles it."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from lab.isa.cuda.kernels import live_tokens, read_kernels
from lab.isa.cuda.tokens import Token, TokenKind
from lab.isa.cuda.types import TYPE_NAMES

KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """
        alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t
        class compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield
        decltype default delete do double dynamic_cast else enum explicit export extern false float for friend
        goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
        protected public register reinterpret_cast requires return short signed sizeof static static_assert
        static_cast struct switch template this thread_local throw true try typedef typeid typename union
        unsigned using virtual void volatile wchar_t while xor xor_eq restrict defined
        """,
    )
)
"""Words of C++ that no macro may be called."""

_BUILTINS = frozenset(
    re.findall(
        r"\w+",
        """
        threadIdx blockIdx blockDim gridDim clusterIdx clusterDim warpSize nullptr NULL assert printf std cuda
        cub thrust nvcuda cooperative_groups cg main INFINITY NAN FLT_MAX FLT_MIN FLT_EPSILON DBL_MAX DBL_MIN
        DBL_EPSILON INT_MAX INT_MIN UINT_MAX LONG_MAX LLONG_MAX CHAR_BIT SIZE_MAX M_PI M_PI_F M_E HUGE_VALF
        CUDART_INF_F CUDART_PI_F CUDART_NAN_F CUDART_INF CUDART_PI final override asm volatile x y z w
        fragment matrix_a matrix_b accumulator row_major col_major mem_row_major mem_col_major precision
        bmmaBitOpXOR bmmaBitOpAND bmmaAccumulateOpPOPC
        """,
    )
)
_DEFINE = re.compile(r"#\s*define\s+([^\W\d]\w*)(\([^)]*\)?)?[ \t]*(.*)$")
_GUARD = re.compile(r"#\s*(?:ifndef\s+(\w+)|if\s+!\s*defined\s*\(?\s*(\w+))")
_CONDITION = re.compile(r"#\s*(if|ifdef|ifndef|elif|elifdef|elifndef)\b(.*)$")
_READS = re.compile(r"#\s*(?:if|elif|pragma\s+unroll)\b(.*)$")
_END = re.compile(r"#\s*endif\b")
_WORD = re.compile(r"[^\W\d]\w*")
_INCLUDES_CUTLASS = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"](?:cute|cutlass)/", re.MULTILINE)
_OF_CUTLASS = re.compile(r"_\d+|X|SM\d+_\w+|[A-Z]\w*[a-z]\w*")
"""How names of CUTLASS and CuTe look: `_128`, `SM90_64x64x16_F16F16F16_SS`, `TiledCopy`."""
_DECLARES = ("=", ";", ",", "[", "{", ")", ":", "(")


@dataclass(frozen=True, slots=True)
class Definition:
    """A macro that a source defines.

    Attributes:
        name: The macro.
        value: What it stands for; empty where it stands for nothing.
        line: Line of the `#define`, from 1.
        guarded: It is a default, which a macro from outside replaces: it stands in `#ifndef NAME`.
        function_like: It takes arguments.
    """

    name: str
    value: str
    line: int
    guarded: bool
    function_like: bool


@dataclass(frozen=True, slots=True)
class ExpectedMacro:
    """A macro that a source leaves to whoever compiles it.

    Attributes:
        name: The macro.
        default: Its value where nobody defines it; None where it then does not compile.
        line: Line of its first use, or of its default, from 1.
    """

    name: str
    default: str | None
    line: int


@lru_cache(maxsize=64)  # of the files that one source includes
def used_names(text: str) -> frozenset[str]:
    """Return every word of a source outside of comments and strings, those of preprocessor lines included."""
    found: set[str] = set()
    for token in live_tokens(text):
        if token.kind is TokenKind.WORD:
            found.add(token.text)
        elif token.kind is TokenKind.DIRECTIVE:
            found.update(_WORD.findall(_uncommented(token.text)))
    return frozenset(found)


@lru_cache(maxsize=64)  # of the files that one source includes
def definitions(text: str) -> tuple[Definition, ...]:
    """Return the macros that a source defines, in order."""
    found = []
    guards: list[str] = []
    for token in live_tokens(text):
        if token.kind is not TokenKind.DIRECTIVE:
            continue
        line = _uncommented(token.text)
        if _CONDITION.match(line) and not line.lstrip("# \t").startswith("el"):
            guard = _GUARD.match(line)
            guards.append((guard[1] or guard[2]) if guard else "")
        elif _END.match(line) and guards:
            guards.pop()
        elif match := _DEFINE.match(line):
            found.append(Definition(match[1], match[3].strip(), token.line, match[1] in guards, match[2] is not None))
    return tuple(found)


@lru_cache(maxsize=256)  # of one source, each parameter of a sweep
def declared_line(text: str, name: str) -> int | None:
    """Return the line on which a source declares a constant or a variable of a name, or None.

    Parameters of functions and of templates are not meant: a macro of their name is another matter.
    """
    stream = [token for token in live_tokens(text) if token.kind is not TokenKind.DIRECTIVE]
    for at in range(1, len(stream) - 1):
        if stream[at].text != name or not _is_declared(stream, at) or stream[at + 1].text not in ("=", ";", "[", "{"):
            continue
        if not _is_parameter(stream, at):
            return stream[at].line
    return None


@lru_cache(maxsize=256)  # of one source, each parameter of a sweep
def parameter_line(text: str, name: str) -> int | None:
    """Return the line on which some function has a parameter of a name, or None."""
    stream = [token for token in live_tokens(text) if token.kind is not TokenKind.DIRECTIVE]
    for at in range(1, len(stream) - 1):
        if stream[at].text != name or stream[at + 1].text not in (",", ")", "=", "["):
            continue
        if _is_declared(stream, at) and _is_parameter(stream, at):
            return stream[at].line
    return None


def _is_parameter(stream: Sequence[Token], at: int) -> bool:
    """Return whether a declaration stands among the parameters of a function or of a template."""
    depth = angles = 0
    while at > 0:
        at -= 1
        text = stream[at].text
        if text in (")", "("):
            depth += 1 if text == ")" else -1
            if depth < 0:
                return at > 0 and stream[at - 1].text not in ("for", "if", "while", "switch")
        elif text in ("<", ">"):
            angles += 1 if text == ">" else -1
            if angles < 0:
                return at > 0 and stream[at - 1].text == "template"
        elif text in (";", "{", "}") and depth == 0:
            return False
    return False


@lru_cache(maxsize=256)  # of one source, each parameter of a sweep
def template_line(text: str, name: str) -> int | None:
    """Return the line on which some template has a parameter of a name, or None."""
    stream = [token for token in live_tokens(text) if token.kind is not TokenKind.DIRECTIVE]
    for at in range(2, len(stream) - 1):
        behind_type = stream[at - 1].kind is TokenKind.WORD or stream[at - 1].text == "..."
        if stream[at].text == name and behind_type and stream[at + 1].text in (",", ">", "="):
            opening = _opening_angle(stream, at)
            if opening > 0 and stream[opening - 1].text == "template":
                return stream[at].line
    return None


def _opening_angle(stream: Sequence[Token], at: int) -> int:
    """Return where the angle bracket opens that a token stands in, or 0."""
    angles = 0
    for place in range(at - 1, max(at - 256, 0), -1):
        text = stream[place].text
        if text in (";", "{", "}"):
            return 0
        angles += (text == ">") - (text == "<")
        if angles < 0:
            return place
    return 0


def expected_macros(text: str) -> tuple[ExpectedMacro, ...]:
    """Return the macros that a source seems to expect, in the order of the source.

    These are defaults in `#ifndef NAME`, and words in kernels and `#if` conditions that the source does not declare
    and that neither C++ nor CUDA's headers know. What is only asked for by `#ifdef` may as well stay undefined. It is a
    guess: it cannot see what the source includes.
    """
    stream = live_tokens(text)
    defined = {one.name: one for one in definitions(text)}
    found = {
        one.name: ExpectedMacro(one.name, one.value, one.line)
        for one in defined.values()
        if one.guarded and one.value and not one.function_like
    }
    code = [token for token in stream if token.kind is not TokenKind.DIRECTIVE]
    declared = {code[at].text for at in range(1, len(code)) if _is_declared(code, at)}
    declared |= {_named(code, at) for at in range(len(code) - 1) if code[at].text in _NAMING}
    declared |= _bound(code) | _behind_bodies(code) | _pointers_to_arrays(code)
    kernels = read_kernels(text)
    for kernel in kernels:
        declared |= {one.name for one in kernel.parameters} | {one.name for one in kernel.template or ()}
    declared |= {kernel.name for kernel in kernels}
    known = declared | set(defined)
    if _INCLUDES_CUTLASS.search(text):
        known |= {token.text for token in code if _OF_CUTLASS.fullmatch(token.text)}
    for at, token in enumerate(code):
        inside = any(kernel.body[0] <= token.start < kernel.body[1] for kernel in kernels)
        if inside and token.text not in known and _is_free(code, at):
            found.setdefault(token.text, ExpectedMacro(token.text, None, token.line))
    for kernel in kernels:
        for word in _words(*kernel.launch_bounds, *(one.c_type for one in kernel.parameters)):
            if word not in known and _is_unknown(word):
                found.setdefault(word, ExpectedMacro(word, None, kernel.line))
    for token in stream:
        if token.kind is TokenKind.DIRECTIVE and (match := _READS.match(_uncommented(token.text))):
            for word in _WORD.findall(match[1]):
                if word not in known and _is_unknown(word):
                    found.setdefault(word, ExpectedMacro(word, None, token.line))
    return tuple(sorted(found.values(), key=lambda one: one.line))


_NAMING = ("struct", "class", "enum", "union", "namespace", "goto", "typename", "concept", "using")
_ATTRIBUTES = ("alignas", "__align__", "__attribute__", "__declspec")


def _named(stream: Sequence[Token], at: int) -> str:
    """Return the word that `struct` and the like at a place name, behind attributes: `struct alignas(16) Tile`."""
    place = at + 1
    while place + 1 < len(stream) and stream[place].text in _ATTRIBUTES and stream[place + 1].text == "(":
        place = _closing(stream, place + 1) + 1
    return stream[place].text if place < len(stream) else ""


def _pointers_to_arrays(stream: Sequence[Token]) -> set[str]:
    """Return the names in declarators in brackets: `float (*row)[33] = tile;`, `int (&pair)[2] = pairs[i];`."""
    texts = [token.text for token in stream]
    return {
        texts[at + 2]
        for at in range(1, len(texts) - 4)
        if texts[at] == "(" and texts[at + 1] in ("*", "&") and texts[at + 3 : at + 5] == [")", "["]
        if stream[at - 1].kind is TokenKind.WORD or texts[at - 1] == ">"
    }


def _bound(stream: Sequence[Token]) -> set[str]:
    """Return the names of structured bindings: `auto [a, b]`."""
    found: set[str] = set()
    for at in range(2, len(stream)):
        if stream[at].text == "[" and "auto" in (stream[at - 1].text, stream[at - 2].text):
            end = next((i for i in range(at, len(stream)) if stream[i].text == "]"), len(stream))
            found |= {token.text for token in stream[at:end] if token.kind is TokenKind.WORD}
    return found


def _behind_bodies(stream: Sequence[Token]) -> set[str]:
    """Return the variables of types whose body stands before them, `union { A a; } held;`, and enumerations' values."""
    found: set[str] = set()
    opened: list[tuple[int, str]] = []  # the braces that are open, and what type's body begins there
    for at, token in enumerate(stream):
        if token.text == "{":
            opened.append((at, _type_opened(stream, at)))
        elif token.text == "}" and opened:
            begin, kind = opened.pop()
            end = next((i for i in range(at, len(stream)) if stream[i].text in (";", "(")), at) if kind else at
            found |= {one.text for one in stream[at + 1 : end] if one.kind is TokenKind.WORD}
            if kind == "enum":
                found |= {stream[i].text for i in range(begin + 1, at) if stream[i - 1].text in ("{", ",")}
    return found


def _type_opened(stream: Sequence[Token], at: int) -> str:
    """Return `union`, `struct`, `class` or `enum` where a brace opens the body of one, else nothing."""
    for place in range(at - 1, max(at - 16, -1), -1):
        if stream[place].text in (";", "{", "}", ")", "="):
            return ""
        if stream[place].text in ("union", "struct", "class", "enum"):
            is_enum = place > 0 and stream[place - 1].text == "enum"  # `enum class`
            return "enum" if is_enum else stream[place].text
    return ""


def _words(*texts: str) -> list[str]:
    return [word for text in texts for word in _WORD.findall(text)]


def _uncommented(directive: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?(?:\*/|\Z)", " ", directive, flags=re.DOTALL)


def _is_unknown(word: str) -> bool:
    """Return whether neither C++ nor CUDA's headers know a word, as far as its form tells."""
    return not (
        word in KEYWORDS
        or word in _BUILTINS
        or word in TYPE_NAMES
        or word.startswith(("__", "cuda", "CUDA", "cu_", "nv"))
        or word.endswith("_t")
    )


def _is_declared(stream: Sequence[Token], at: int) -> bool:
    """Return whether a word stands behind a type, as a name does that is declared there: `int *name`, `T name`."""
    token, before = stream[at], stream[at - 1]
    if token.kind is not TokenKind.WORD or token.text in KEYWORDS:
        return False
    following = stream[at + 1].text if at + 1 < len(stream) else ";"
    if following not in _DECLARES:
        return False
    if before.kind is TokenKind.WORD:
        return before.text not in (
            "return",
            "case",
            "goto",
            "else",
            "do",
            "throw",
            "new",
            "delete",
            "sizeof",
            "typename",
        )
    if before.text in ("*", "&", ">") and at > 1:  # `float *p`, but not `a * b`
        if _behind_a_type(stream, at - 1) and following in ("=", ";", ",", "[", ")", "{", ":"):
            return True
        if following == "=" and _begins_a_statement(stream, at - 1):  # no product is assigned to
            return True
    while at > 1 and stream[at - 1].text in ("*", "&"):  # `float *p = a, *q = b`
        at -= 1
    return stream[at - 1].text == "," and _continues_a_declaration(stream, at)


def _behind_a_type(stream: Sequence[Token], at: int) -> bool:
    """Return whether the `*`, `&` or `>` at a place ends a type: `float *`, `vec<int> &`, but not `a >` or `a *`."""
    while at > 0 and stream[at].text in ("*", "&", "const", "__restrict__"):
        at -= 1
    if stream[at].text != ">":
        return stream[at].text in TYPE_NAMES or stream[at].text.endswith("_t")
    opening = _opening_angle(stream, at)
    inside = stream[opening + 1 : at]
    return (
        opening > 0
        and stream[opening - 1].kind is TokenKind.WORD
        and all(token.kind in (TokenKind.WORD, TokenKind.NUMBER) or token.text in (",", "::", "*") for token in inside)
    )


def _begins_a_statement(stream: Sequence[Token], at: int) -> bool:
    """Return whether a statement begins with the word in front of the `*` or `&` at a place, `T *`."""
    while at > 0 and stream[at].text in ("*", "&", "const", "__restrict__"):
        at -= 1
    before = stream[at - 1].text if at else ";"
    return stream[at].kind is TokenKind.WORD and before in (";", "{", "}", "const", "static", "constexpr")


def _continues_a_declaration(stream: Sequence[Token], at: int) -> bool:
    """Return whether a word behind a comma continues `int i = 0, *j = {};`, rather than the arguments of a call."""
    start = _statement_start(stream, at)
    if start is None or stream[start].text in ("using", "return") or _is_template_argument(stream, at):
        return False
    first = start
    while first < at and stream[first].text not in _BEHIND_A_NAME:
        is_aligned = stream[first].text in _ATTRIBUTES and stream[first + 1].text == "("
        first = _closing(stream, first + 1) + 1 if is_aligned else first + 1
    return start < first - 1 < at and _is_declared(stream, first - 1)


_BEHIND_A_NAME = ("=", ",", "[", "{", "(", ".", "->")


def _is_template_argument(stream: Sequence[Token], at: int) -> bool:
    """Return whether a token stands in `Load<int, threads>`, and not behind the comparison of `i = a < b, j = 2`."""
    opening = _opening_angle(stream, at)
    if opening <= 0 or stream[opening - 1].kind is not TokenKind.WORD:
        return False
    end = next((token.text for token in stream[at:] if token.text in (">", ">>", ";", "{", "}")), ";")
    return end.startswith(">")


def _statement_start(stream: Sequence[Token], at: int) -> int | None:
    """Return where the statement begins that a token stands in, outside of brackets; None within a call's."""
    place = at - 1
    while place >= 0:
        text = stream[place].text
        if text in (";", "{"):
            return place + 1
        if text in ("(", "["):
            return place + 1 if place and stream[place - 1].text == "for" else None
        if text in (")", "]", "}"):
            opening = _opening(stream, place)
            if text == "}" and not (opening and _opens_a_value(stream[opening - 1])):
                return place + 1
            place = opening
        place -= 1
    return 0


def _opening(stream: Sequence[Token], at: int) -> int:
    """Return where the bracket opens that closes at a place, or 0."""
    depth = 0
    for place in range(at, -1, -1):
        depth += (stream[place].text in (")", "]", "}")) - (stream[place].text in ("(", "[", "{"))
        if depth == 0:
            return place
    return 0


def _closing(stream: Sequence[Token], at: int) -> int:
    """Return where the bracket closes that opens at a place, or the last place."""
    depth = 0
    for place in range(at, len(stream)):
        depth += (stream[place].text in ("(", "[", "{")) - (stream[place].text in (")", "]", "}"))
        if depth == 0:
            return place
    return len(stream) - 1


def _opens_a_value(before: Token) -> bool:
    """Return whether a brace behind a token opens a value, `= {}`, `a[4]{}`, `a{}`, and no body."""
    return before.text in ("=", "]", ",", "{") or (before.kind is TokenKind.WORD and before.text not in KEYWORDS)


def _is_free(stream: Sequence[Token], at: int) -> bool:
    """Return whether a word of a kernel's body may be a macro that nobody has defined."""
    token = stream[at]
    if token.kind is not TokenKind.WORD or keyword.iskeyword(token.text) or not _is_unknown(token.text):
        return False
    before = stream[at - 1].text if at else ""
    following = stream[at + 1].text if at + 1 < len(stream) else ""
    return before not in (".", "->", "::") and following not in ("(", "::")
