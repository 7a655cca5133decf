"""Finds the `__global__` functions of a CUDA source and reads their heads.

The source is read as it was written, before preprocessing, since a user's file does not yet have the macros that it
expects. Kernels that a macro writes, and kernels in files that it includes, are therefore not found. Nothing here
fails: a head that cannot be read is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from lab.isa.cuda.tokens import Token, TokenKind, tokens
from lab.isa.cuda.types import TYPE_NAMES, element_type

_OPENING, _CLOSING = "([{", ")]}"
_DEEPEST_ALIAS = 16
_QUALIFIERS = frozenset(
    {"const", "volatile", "restrict", "__restrict__", "__restrict", "__grid_constant__", "struct", "enum", "typename"}
)
_ATTRIBUTES = frozenset(
    {
        "__launch_bounds__",
        "__cluster_dims__",
        "__block_size__",
        "__maxnreg__",
        "__attribute__",
        "__align__",
        "alignas",
        "__declspec",
    }
)
"""Words whose parentheses stand in a kernel's head and hold no parameters."""
_AFTER_PARAMETERS = frozenset({"requires", "noexcept", *_ATTRIBUTES})
_ZERO = re.compile(r"#\s*if\s+(?:0|false)\s*$")
_CONDITION = re.compile(r"#\s*(if|ifdef|ifndef|elif|elifdef|elifndef|else|endif)\b")
_DEFINE = re.compile(r"#\s*define\s+(\w+)[ \t]+(\S.*)$")


@dataclass(frozen=True, slots=True)
class SourceParameter:
    """One parameter of a kernel.

    Attributes:
        name: Its name; empty where it has none.
        c_type: Its type as written, with single blanks and without `__restrict__`: `const float *`.
        pointer: Number of pointer levels; an array counts as one.
        is_const: A pointer's target cannot be written through it; a value is const.
        dtype: What it points to or holds, by NumPy's name or `bfloat16`; None where that is unknown.
        lanes: Elements of a short vector type: 4 for `float4 *`, else 1.
    """

    name: str
    c_type: str
    pointer: int
    is_const: bool
    dtype: str | None
    lanes: int = 1

    @property
    def is_pointer(self) -> bool:
        """Whether it is a pointer."""
        return self.pointer > 0


@dataclass(frozen=True, slots=True)
class TemplateParameter:
    """One parameter of a kernel template.

    Attributes:
        kind: What stands before its name: `typename`, `int`, `typename...`.
        name: Its name; empty where it has none.
        default: Its default as written, or None.
    """

    kind: str
    name: str
    default: str | None = None


@dataclass(frozen=True, slots=True)
class SourceKernel:
    """One `__global__` function that a source defines.

    Attributes:
        name: Its name without namespaces.
        scopes: The namespaces around it, from outside; an anonymous one is empty.
        parameters: In order.
        template: Template parameters; None for a function that is no template.
        launch_bounds: Arguments of `__launch_bounds__` as written; empty where it has none.
        is_extern_c: Whether it is declared `extern "C"`, so that its symbol is its name.
        line: Line of its name, from 1.
        body: Offsets of the braces around its body in the source: first and behind the last.
    """

    name: str
    scopes: tuple[str, ...]
    parameters: tuple[SourceParameter, ...]
    template: tuple[TemplateParameter, ...] | None
    launch_bounds: tuple[str, ...]
    is_extern_c: bool
    line: int
    body: tuple[int, int]

    @property
    def qualified_name(self) -> str:
        """The name as an expression at the end of the file calls it: `ns::add`."""
        return "::".join([*filter(None, self.scopes), self.name])

    @property
    def title(self) -> str:
        """The qualified name with the template's parameters: `ns::add<T, block_size>`."""
        if self.template is None:
            return self.qualified_name
        return f"{self.qualified_name}<{', '.join(one.name or one.kind for one in self.template)}>"

    @property
    def signature(self) -> str:
        """The parameters as written: `(float * c, int n)`."""
        return f"({', '.join(f'{one.c_type} {one.name}'.strip() for one in self.parameters)})"


@dataclass(slots=True)
class _Scope:
    """A brace that is open at the current token."""

    name: str | None = None  # of a namespace
    extern_c: bool = False


@dataclass(slots=True)
class _Scanner:
    """One pass over a source's tokens."""

    stream: Sequence[Token]
    aliases: Mapping[str, str]
    position: int = 0
    scopes: list[_Scope] = field(default_factory=list)
    branches: list[list[_Scope]] = field(default_factory=list)
    head: int = 0  # where the declaration at the current token begins
    body_end: int = 0  # behind the body of the last kernel
    in_other_branch: bool = False  # of a condition that begins in that body
    found: list[SourceKernel] = field(default_factory=list)

    def scan(self) -> list[SourceKernel]:
        while self.position < len(self.stream):
            token = self.stream[self.position]
            if self.position < self.body_end:
                self._pass_body(token)
            elif token.kind is TokenKind.DIRECTIVE:
                self._branch(token.text)
                self.head = self.position = self.position + 1
            elif token.text == "{":
                self._open()
            elif token.text == "}":
                self.scopes = self.scopes[:-1]
                self.head = self.position = self.position + 1
            elif token.text == ";":
                self.head = self.position = self.position + 1
            elif token.text == "__global__":
                self._kernel()
            else:
                self.position += 1
        return self.found

    def _pass_body(self, token: Token) -> None:
        """Go on within a kernel's body. The other branch of a condition may hold another head of the same body."""
        if token.kind is TokenKind.DIRECTIVE:
            match = _CONDITION.match(token.text)
            self.in_other_branch |= match is not None and match[1].startswith("el")
        if token.text == "__global__" and self.in_other_branch:
            self.head = self.position
            self._kernel()
        else:
            self.position += 1
            self.head = self.position

    def _branch(self, directive: str) -> None:
        """Give both branches of a condition the braces that are open before it."""
        match = _CONDITION.match(directive)
        word = match[1] if match else ""
        if word.startswith("if"):
            self.branches.append(list(self.scopes))
        elif word.startswith("el") and self.branches:
            self.scopes = list(self.branches[-1])
        elif word == "endif" and self.branches:
            self.branches.pop()

    def _open(self) -> None:
        """Enter a namespace or an `extern "C"` block, or skip any other braces."""
        head = self.stream[self.head : self.position]
        texts = [token.text for token in head]
        if "namespace" in texts:
            names = [token.text for token in head[texts.index("namespace") + 1 :] if token.kind is TokenKind.WORD]
            self.scopes = [*self.scopes, _Scope(name="::".join(name for name in names if name != "inline"))]
            self.head = self.position = self.position + 1
        elif texts == ["extern", '"C"']:
            self.scopes = [*self.scopes, _Scope(extern_c=True)]
            self.head = self.position = self.position + 1
        else:  # a body, a class, an initialiser: kernels are none of their members
            self.position = behind(self.stream, self.position)
            self.head = self.position if self._ends_declaration() else self.head

    def _ends_declaration(self) -> bool:
        following = self.stream[self.position : self.position + 1]
        return not following or following[0].text not in (",", "(", ")", "=", ">")

    def _kernel(self) -> None:
        head = self.stream[self.head : self.position]
        self.position += 1
        opening = self._find_parameters()
        if opening is None:
            return
        name = self.stream[opening - 1]
        closing = behind(self.stream, opening)
        between = self.stream[self.position : opening - 1]
        brace = closing
        while brace < len(self.stream) and self.stream[brace].text not in ("{", ";", "}"):
            brace += 1
        self.position = closing
        if brace >= len(self.stream) or self.stream[brace].text != "{":
            return  # declared here, defined elsewhere
        end = behind(self.stream, brace)
        texts = [token.text for token in head]
        template = _template(head)
        own = {one.name for one in template or ()}
        known = {name: meaning for name, meaning in self.aliases.items() if name not in own}
        self.found.append(
            SourceKernel(
                name=name.text,
                scopes=tuple(scope.name for scope in self.scopes if scope.name is not None),
                parameters=tuple(_parameters(self.stream[opening + 1 : closing - 1], known)),
                template=template,
                launch_bounds=_launch_bounds([*head, *between, *self.stream[closing:brace]]),
                is_extern_c='"C"' in texts or any(scope.extern_c for scope in self.scopes),
                line=name.line,
                body=(self.stream[brace].start, self.stream[end - 1].end),
            )
        )
        self.head = self.position = brace + 1
        self.body_end, self.in_other_branch = max(end, self.body_end), False

    def _find_parameters(self) -> int | None:
        """Return the position of the parenthesis behind the kernel's name, skipping attributes, or None."""
        at = self.position
        while at < len(self.stream) and self.stream[at].text not in ("{", "}", ";", "="):
            if self.stream[at].text == "[":
                at = behind(self.stream, at)
            elif self.stream[at].text == "(":
                if self._names_a_function(at):
                    return at
                at = behind(self.stream, at)
            else:
                at += 1
        self.position = at  # what was read is not read again
        return None

    def _names_a_function(self, opening: int) -> bool:
        """Return whether the parenthesis follows the kernel's name, rather than an attribute's or a macro's."""
        before = self.stream[opening - 1]
        if before.kind is not TokenKind.WORD or before.text in _ATTRIBUTES:
            return False
        end = behind(self.stream, opening)
        following = self.stream[end] if end < len(self.stream) else None
        return following is None or following.kind is not TokenKind.WORD or following.text in _AFTER_PARAMETERS


def base_name(expression: str) -> str:
    """Return the name that a C++ expression of a kernel begins with: ``ns::add`` of ``ns::add<float, 128>``."""
    return expression.partition("<")[0].strip()


def read_kernels(text: str, macros: Mapping[str, str] | None = None) -> tuple[SourceKernel, ...]:
    """Return the kernels that a source defines, in order; those that differ in the condition around them, too.

    Args:
        text: CUDA C++.
        macros: Values of macros, which may stand for types: `{"real": "float"}`.
    """
    return _kernels(text, tuple((macros or {}).items()))


@lru_cache(maxsize=16)
def _kernels(text: str, macros: tuple[tuple[str, str], ...]) -> tuple[SourceKernel, ...]:
    stream = live_tokens(text)
    return tuple(_Scanner(stream, {**type_aliases(stream), **dict(macros)}).scan())


@lru_cache(maxsize=4)  # as of `tokens`
def live_tokens(text: str) -> tuple[Token, ...]:
    """Return the tokens of a source without those that `#if 0` hides."""
    live: list[Token] = []
    hides: list[bool] = []  # one for each open condition
    hidden = 0  # how many of them hide
    for token in tokens(text):
        match = _CONDITION.match(token.text) if token.kind is TokenKind.DIRECTIVE else None
        word = match[1] if match else ""
        was_hidden = hidden
        if word.startswith("if"):
            hides.append(bool(_ZERO.match(token.text)))
            hidden += hides[-1]
        elif word.startswith("el") and hides:
            hidden -= hides[-1]
            hides[-1] = False
        elif word == "endif" and hides:
            hidden -= hides.pop()
        if not hidden or not was_hidden:  # both ends of a hidden part stay
            live.append(token)
    return tuple(live)


def type_aliases(stream: Sequence[Token]) -> dict[str, str]:
    """Return the names that the source gives to types, by `typedef`, `using` and `#define`."""
    found: dict[str, str] = {}
    for at, token in enumerate(stream):
        if token.kind is TokenKind.DIRECTIVE:
            if match := _DEFINE.match(token.text):
                found.setdefault(match[1], match[2])
        elif token.text in ("typedef", "using"):
            statement = []
            for other in stream[at + 1 : at + 32]:
                if other.text in (";", "{", "}") or other.kind is TokenKind.DIRECTIVE:
                    break
                statement.append(other.text)
            if token.text == "using" and statement[1:2] == ["="]:
                found.setdefault(statement[0], " ".join(statement[2:]))
            elif token.text == "typedef" and len(statement) > 1:
                found.setdefault(statement[-1], " ".join(statement[:-1]))
    return found


def behind(stream: Sequence[Token], opening: int) -> int:
    """Return the position behind the bracket that closes the one at `opening`, at most the end.

    Of a condition (`#if … #else`), only the first branch is counted, so that a brace which both open counts once.
    """
    depth = 0
    later: list[bool] = []  # for each open condition, whether a later branch is being read
    skipping = 0  # how many of them are
    for at in range(opening, len(stream)):
        token = stream[at]
        if token.kind is TokenKind.DIRECTIVE:
            match = _CONDITION.match(token.text)
            word = match[1] if match else ""
            if word.startswith("if"):
                later.append(False)
            elif word.startswith("el"):
                if not later:  # of a condition that the bracket stands in
                    later.append(False)
                skipping += not later[-1]
                later[-1] = True
            elif word == "endif" and later:
                skipping -= later.pop()
        elif token.kind is TokenKind.PUNCTUATION and not skipping:
            depth += (token.text in _OPENING) - (token.text in _CLOSING)
            if depth <= 0:
                return at + 1
    return len(stream)


def split_at_commas(stream: Sequence[Token]) -> list[list[Token]]:
    """Split at the commas outside of brackets. Angle brackets count, since this is a list of declarations or types."""
    parts: list[list[Token]] = [[]]
    depth = angles = 0
    for token in stream:
        if token.kind is TokenKind.PUNCTUATION:
            depth += (token.text in _OPENING) - (token.text in _CLOSING)
            if depth == 0:
                angles = max(0, angles + (token.text == "<") - (token.text == ">"))
            if token.text == "," and depth == 0 and angles == 0:
                parts.append([])
                continue
        parts[-1].append(token)
    return parts


def _parameters(stream: Sequence[Token], aliases: Mapping[str, str]) -> list[SourceParameter]:
    parts = [_undirected(part) for part in split_at_commas(stream)]
    if len(parts) == 1 and [token.text for token in parts[0]] in ([], ["void"]):
        return []
    return [read_parameter(part, aliases) for part in parts]


def _undirected(stream: Sequence[Token]) -> list[Token]:
    return [token for token in stream if token.kind is not TokenKind.DIRECTIVE]


def read_parameter(stream: Sequence[Token], aliases: Mapping[str, str]) -> SourceParameter:
    """Read the declaration of a parameter, or of a member of a structure, from its tokens."""
    declared = _without_attributes(_before_default(stream))
    name = _name_position(declared)
    extents = [token for token in declared if token.text == "["]
    rest = [token for at, token in enumerate(declared) if at != name]
    kept, depth = [], 0  # the type without array extents
    for token in rest:
        depth += (token.text == "[") - (token.text == "]")
        if depth == 0 and token.text != "]":
            kept.append(token.text)
    meant = _with_pointers(kept, aliases)
    pointer = meant.count("*") + bool(extents)
    first_star = meant.index("*") if "*" in meant else len(meant)
    pointee = meant[:first_star]
    element = element_type(" ".join(pointee), aliases) if pointer <= 1 and "(" not in meant else None
    return SourceParameter(
        name=declared[name].text if name is not None else "",
        c_type=_spelled([text for text in kept if not text.strip("_").startswith("restrict")])
        + ("*" if extents else ""),
        pointer=pointer,
        is_const="const" in pointee,
        dtype=element.dtype if element else None,
        lanes=element.lanes if element else 1,
    )


def _with_pointers(texts: Sequence[str], aliases: Mapping[str, str]) -> list[str]:
    """Replace a name of a pointer type by its meaning: `in_ptr` by `const float *`.

    A `const` in front of such a name makes the pointer constant, not what it points to.
    """
    for _ in range(_DEEPEST_ALIAS):
        named = next((text for text in texts if text in aliases), None)
        meaning = re.findall(r"\w+|\S", aliases[named]) if named is not None else []
        if "*" not in meaning and not (len(meaning) == 1 and meaning[0] in aliases):
            break
        outside = [text for text in texts if text not in (named, "const")] if "*" in meaning else []
        texts = [*meaning, *outside]
    return list(texts)


def _before_default(stream: Sequence[Token]) -> list[Token]:
    at = next((i for i, token in enumerate(stream) if token.text == "="), len(stream))
    return list(stream[:at])


def _without_attributes(stream: Sequence[Token]) -> list[Token]:
    """Drop `[[…]]`, `__attribute__((…))`, `__align__(…)` and `__grid_constant__`."""
    kept: list[Token] = []
    at = 0
    while at < len(stream):
        text = stream[at].text
        following = stream[at + 1].text if at + 1 < len(stream) else ""
        if text == "[" and following == "[":
            at = behind(stream, at)
        elif text in _ATTRIBUTES and following == "(":
            at = behind(stream, at + 1)
        else:
            if text != "__grid_constant__":
                kept.append(stream[at])
            at += 1
    return kept


def _name_position(stream: Sequence[Token]) -> int | None:
    """Return where the declared name stands: the last word that is no part of the type; None where there is none."""
    end = next((i for i, token in enumerate(stream) if token.text == "[" and i > 0), len(stream))
    for at, token in enumerate(stream[:-1]):  # (*name)(…), (&name)[…]
        if token.text == "(" and stream[at + 1].text in ("*", "&"):
            inner = [i for i in range(at, behind(stream, at)) if stream[i].kind is TokenKind.WORD]
            return inner[0] if inner else None
    words = [i for i in range(end) if stream[i].kind is TokenKind.WORD and stream[i].text not in _QUALIFIERS]
    if not words or words[-1] != end - 1:
        return None
    last = words[-1]
    before = stream[last - 1].text if last else ""
    has_type = len(words) > 1 or before in ("*", "&", ">")
    return last if has_type and before != "::" and stream[last].text not in TYPE_NAMES else None


def _spelled(texts: Sequence[str]) -> str:
    """Join a type's tokens as a person writes them: `const vec<float> *`."""
    joined = " ".join(texts)
    joined = re.sub(r" ?(::|<|>|\(|\)) ?", r"\1", joined)
    return re.sub(r">(?=\w|\*|&)", "> ", joined).replace(" ,", ",").replace(" ...", "...").strip()


def _written(stream: Sequence[Token]) -> str:
    """Join tokens with a blank wherever the source has one."""
    pieces = [(" " if at and stream[at - 1].end < token.start else "") + token.text for at, token in enumerate(stream)]
    return "".join(pieces)


def _template(head: Sequence[Token]) -> tuple[TemplateParameter, ...] | None:
    """Return the parameters of the last `template <…>` of a head; None where there is none."""
    found, at = None, 0
    while at + 1 < len(head):
        if head[at].text == "template" and head[at + 1].text == "<":
            end = _behind_angles(head, at + 1)
            found, at = head[at + 2 : end - 1], end
        else:
            at += 1
    return None if found is None else tuple(_template_parameter(part) for part in split_at_commas(found) if part)


def _behind_angles(stream: Sequence[Token], opening: int) -> int:
    """Return the position behind the angle bracket that closes the one at `opening`, at most the end."""
    angles, at = 0, opening
    while at < len(stream):
        if stream[at].text == "(":  # (4 > 2)
            at = behind(stream, at)
            continue
        angles += (stream[at].text == "<") - (stream[at].text == ">")
        at += 1
        if angles == 0:
            break
    return at


def _template_parameter(stream: Sequence[Token]) -> TemplateParameter:
    declared = _before_default(stream)
    default = stream[len(declared) + 1 :]
    words = [i for i, token in enumerate(declared) if token.kind is TokenKind.WORD]
    named = len(words) > 1 and words[-1] == len(declared) - 1 and declared[words[-1]].text not in TYPE_NAMES
    kind = declared[: words[-1]] if named else declared
    return TemplateParameter(
        kind=_spelled([token.text for token in kind]),
        name=declared[words[-1]].text if named else "",
        default=_written(default) if default else None,
    )


def _launch_bounds(stream: Sequence[Token]) -> tuple[str, ...]:
    for at, token in enumerate(stream[:-1]):
        if token.text == "__launch_bounds__" and stream[at + 1].text == "(":
            parts = split_at_commas(stream[at + 2 : behind(stream, at + 1) - 1])
            return tuple(_written(part) for part in parts if part)
    return ()
