"""Reads expressions: text to the parts of `lab.base.syntax`.

The grammar, from what binds least to what binds most::

    expression   either "if" either "else" expression | either
    either       both ("or" both)*
    both         inverse ("and" inverse)*
    inverse      "not" inverse | comparison
    comparison   binary (("==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "not" "in") binary)*
    binary       operands with ^, then &, then << >>, then + -, then ~, then * / // % @ between them
    piped        signed ("|" name ["(" arguments ")"])*
    signed       ("-" | "+") signed | power
    power        postfix ["**" signed]
    postfix      atom ("." name | "[" indices "]" | "(" arguments ")")*
    atom         number | text | name | "true" | "false" | "none" | "(" … ")" | "[" … "]" | "{" key ":" value … "}"

This is Python's grammar of expressions, less what a bench does not need, with two additions that templates have as
well: `a ~ b` joins texts, and `value | name` calls a function with the value as its first argument. `a @ b` is
`matmul(a, b)`.

Length and nesting are bounded, so that no text takes long to read or to evaluate.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NoReturn

from lab.base.syntax import (
    Application,
    Binary,
    Chain,
    Conditional,
    Constant,
    FactOf,
    ItemOf,
    Junction,
    ListOf,
    NameOf,
    Pairs,
    Part,
    Span,
    Unary,
    children,
)

MOST_CHARACTERS: Final = 1000
"""Of an expression. A longer one is refused before it is read."""

_MOST_NESTING = 50
"""Parentheses within parentheses, signs before signs: each takes several calls of this module."""

_MOST_DEPTH = 100
"""Parts within parts. Of `a + b + c`, `a + b` is a part within; evaluators may call themselves for each."""

_MOST_DIGITS = 40
"""Characters of a number; a longer one is refused before it is converted."""

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+
        |(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9][0-9_]*)?)
    |(?P<text>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    |(?P<word>[^\W\d]\w*)
    |(?P<sign>\*\*|//|<<|>>|==|!=|<=|>=|[-+*/%@~^&|<>()\[\]{}.,:=])
    |(?P<other>\S)
    )""",
    re.VERBOSE,
)
_BRACES = re.compile(r"\{[{%#]|[}%#]\}")
_CONSTANTS: dict[str, bool | None] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "none": None,
    "None": None,
}
_WORDS = frozenset({"and", "or", "not", "in", "if", "else", "is", *_CONSTANTS})
"""Words that are no names."""

_ALSO_NAMES = ("in", "is")
"""Words that are names where a value is expected: kernels have parameters that are called `in`."""

_LEVELS: dict[str, int] = {
    "^": 1,
    "&": 2,
    "<<": 3,
    ">>": 3,
    "+": 4,
    "-": 4,
    "~": 5,
    "*": 6,
    "/": 6,
    "//": 6,
    "%": 6,
    "@": 6,
}
"""How strongly an operator binds."""

_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "in", "not in"})
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_VALUE = "a number, a text, a name, '(', '[' or '{'"


class NotationError(ValueError):
    """A text is not an expression."""

    def __init__(self, column: int, message: str, accepted: str | None = None) -> None:
        """Describe the mistake.

        Args:
            column: Where it is, from 1.
            message: What is wrong, without the place.
            accepted: What is accepted there.
        """
        self.column, self.message, self.accepted = column, message, accepted
        super().__init__(f"column {column}: {message}")


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    column: int


@lru_cache(maxsize=4096)
def parse(text: str) -> Part:
    """Read an expression.

    Raises:
        NotationError: The text is none, or it is too long or too deeply nested.
    """
    if len(text) > MOST_CHARACTERS:
        raise NotationError(
            MOST_CHARACTERS + 1,
            f"the expression is too long: it has {len(text)} characters",
            f"at most {MOST_CHARACTERS} characters",
        )
    reader = _Reader(text)
    part = reader.expression()
    if reader.next.kind != "end":
        reader.refuse("an operator or the end of the expression" + _hint(reader.next.text))
    _check_depth(part)
    return part


def _check_depth(part: Part) -> None:
    level = [part]
    for _ in range(_MOST_DEPTH):
        level = [inner for one in level for inner in children(one)]
        if not level:
            return
    raise NotationError(
        level[0].column, "the expression is too deeply nested", f"at most {_MOST_DEPTH} operations one within the other"
    )


def _hint(found: str) -> str:
    return {"=": "; equality is '=='", "is": "; equality is '=='"}.get(found, "")


def _tokens(text: str) -> list[_Token]:
    if brace := _BRACES.search(text):
        raise NotationError(brace.start() + 1, "write the expression without braces")
    end, at, found = len(text.rstrip()), 0, []
    while at < end:
        match = _TOKEN.match(text, at)
        assert match is not None  # noqa: S101 - the last alternative matches any sign
        kind = match.lastgroup or ""
        token = _Token(kind, match[kind], match.start(kind) + 1)
        if kind == "other":
            unclosed = token.text in "'\""
            message = "the text has no closing quote" if unclosed else f"unexpected {token.text!r}"
            raise NotationError(token.column, message, None if unclosed else _VALUE + ", or an operator")
        found.append(token)
        at = match.end()
    return [*found, _Token("end", "", end + 1)]


class _Reader:
    """Reads the tokens of one text by recursive descent."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._nesting = 0

    @property
    def next(self) -> _Token:
        return self._tokens[self._at]

    def take(self) -> _Token:
        token = self.next
        self._at += token.kind != "end"
        return token

    def ahead(self, *texts: str) -> bool:
        """Whether one of these signs or words is next; a quoted text is never one of them."""
        return self.next.kind in ("sign", "word") and self.next.text in texts

    def maybe(self, *texts: str) -> bool:
        found = self.ahead(*texts)
        self._at += found
        return found

    def refuse(self, accepted: str, token: _Token | None = None) -> NoReturn:
        token = token or self.next
        found = "the expression ends" if token.kind == "end" else f"unexpected {token.text[:40]!r}"
        raise NotationError(token.column, found, accepted)

    def expect(self, text: str, instead: str = "") -> None:
        if not self.maybe(text):
            self.refuse(instead or repr(text))

    def nested(self, read: Callable[[], Part]) -> Part:
        """Read a part one level deeper."""
        self._nesting += 1
        if self._nesting > _MOST_NESTING:
            message = "the expression is too deeply nested"
            raise NotationError(self.next.column, message, f"at most {_MOST_NESTING} levels")
        part = read()
        self._nesting -= 1
        return part

    # ---- what binds least

    def expression(self) -> Part:
        return self.nested(self._conditional)

    def _conditional(self) -> Part:
        then = self._joined("or")
        column = self.next.column
        if not self.maybe("if"):
            return then
        test = self._joined("or")
        self.expect("else", "'else' and the value where the condition is false")
        return Conditional(test, then, self.expression(), column)

    def _joined(self, word: str) -> Part:
        """Operands with `or` between them; those of `or` are operands with `and` between them."""
        column = self.next.column
        parts = [self._joined("and") if word == "or" else self._inverse()]
        while self.maybe(word):
            parts.append(self._joined("and") if word == "or" else self._inverse())
        return parts[0] if len(parts) == 1 else Junction(word, tuple(parts), column)

    def _inverse(self) -> Part:
        column = self.next.column
        if self.maybe("not"):
            return Unary("not", self.nested(self._inverse), column)
        return self._comparison()

    def _comparison(self) -> Part:
        first, column, others = self._binary(1), self.next.column, list[tuple[str, Part]]()
        while symbol := self._comparing():
            others.append((symbol, self._binary(1)))
        return Chain(first, tuple(others), column) if others else first

    def _comparing(self) -> str:
        """Take a comparison's symbol; empty where none is next."""
        if self.maybe("not"):
            self.expect("in", "'in' after 'not'")
            return "not in"
        return self.take().text if self.ahead(*_COMPARISONS) else ""

    # ---- arithmetic

    def _binary(self, least: int) -> Part:
        """Operands with operators between them that bind at least as strongly as `least`."""
        left = self._piped()
        while self.next.kind == "sign" and (level := _LEVELS.get(self.next.text, 0)) >= least:
            token = self.take()
            right = self._binary(level + 1)
            if token.text == "@":
                left = Application(NameOf("matmul", token.column), (left, right), (), token.column)
            else:
                left = Binary(token.text, left, right, token.column)
        return left

    def _piped(self) -> Part:
        part = self._signed()
        while self.maybe("|"):
            name = self._name("the name of a function, as in 'names | length'")
            function = NameOf(name.text, name.column)
            arguments, keywords = self._arguments() if self.maybe("(") else ((), ())
            part = Application(function, (part, *arguments), keywords, name.column)
        return part

    def _signed(self) -> Part:
        token = self.next
        if self.maybe("-", "+"):
            return Unary(token.text, self.nested(self._signed), token.column)
        return self._power()

    def _power(self) -> Part:
        base, column = self._postfix(), self.next.column
        return Binary("**", base, self.nested(self._signed), column) if self.maybe("**") else base

    # ---- what binds most

    def _postfix(self) -> Part:
        part = self._atom()
        while True:
            column = self.next.column
            if self.maybe("."):
                part = FactOf(part, self._name("the name of a fact").text, column)
            elif self.maybe("["):
                part = ItemOf(part, self._indices(), column)
            elif self.ahead("("):
                if not isinstance(part, NameOf | FactOf):
                    self.refuse("an operator: only functions, called by their names, take arguments")
                self.take()
                part = Application(part, *self._arguments(), part.column)
            else:
                return part

    def _atom(self) -> Part:
        token = self.next
        part: Part | None = None
        if token.kind == "number":
            part = Constant(_number(self.take()), token.column)
        elif token.kind == "text":
            part = Constant(_unquoted(self.take()), token.column)
        elif token.kind == "word" and token.text in _CONSTANTS:
            part = Constant(_CONSTANTS[self.take().text], token.column)
        elif self.ahead(*_ALSO_NAMES):
            part = NameOf(self.take().text, token.column)
        elif token.kind == "word":
            part = NameOf(self._name(_VALUE).text, token.column)
        return part or self._enclosed(token)

    def _enclosed(self, token: _Token) -> Part:
        if self.maybe("("):
            parts, alone = self._listed(")")
            return parts[0] if alone else ListOf(parts, token.column)
        if self.maybe("["):
            return ListOf(self._listed("]")[0], token.column)
        if self.maybe("{"):
            return Pairs(self._pairs(), token.column)
        return self.refuse(_VALUE)

    def _name(self, accepted: str) -> _Token:
        if self.next.kind != "word" or self.next.text in _WORDS:
            self.refuse(accepted)
        return self.take()

    def _listed(self, closing: str) -> tuple[tuple[Part, ...], bool]:
        """Read values up to a closing sign. Also says whether there is one value without a comma after it."""
        parts, comma = list[Part](), False
        while not self.maybe(closing):
            parts.append(self.expression())
            comma = self.maybe(",")
            if not comma:
                self.expect(closing, f"an operator, ',' or {closing!r}")
                break
        return tuple(parts), len(parts) == 1 and not comma

    def _pairs(self) -> tuple[tuple[Part, Part], ...]:
        pairs = list[tuple[Part, Part]]()
        while not self.maybe("}"):
            key = self.expression()
            self.expect(":", "an operator, or ':' and a value")
            pairs.append((key, self.expression()))
            if not self.maybe(","):
                self.expect("}", "an operator, ',' or '}'")
                break
        return tuple(pairs)

    def _arguments(self) -> tuple[tuple[Part, ...], tuple[tuple[str, Part], ...]]:
        """Read arguments up to the closing parenthesis; those with a name come last."""
        arguments, keywords = list[Part](), dict[str, Part]()
        while not self.maybe(")"):
            token, behind = self.next, self._tokens[min(self._at + 1, len(self._tokens) - 1)]
            if token.kind == "word" and (behind.kind, behind.text) == ("sign", "="):
                name = self._name("the name of an argument").text
                self.take()
                if name in keywords:
                    raise NotationError(token.column, f"the argument {name} is given twice")
                keywords[name] = self.expression()
            elif keywords:
                self.refuse("an argument with its name, since the one before it has one")
            else:
                arguments.append(self.expression())
            if not self.maybe(","):
                self.expect(")", "an operator, ',' or ')'")
                break
        return tuple(arguments), tuple(keywords.items())

    def _indices(self) -> Part:
        """Read what stands between brackets behind a value."""
        column, parts, comma = self.next.column, list[Part](), False
        while not self.maybe("]"):
            parts.append(self._index())
            comma = self.maybe(",")
            if not comma:
                self.expect("]", "an operator, ':', ',' or ']'")
                break
        if not parts:
            raise NotationError(column, "there is no index between the brackets", _VALUE)
        return parts[0] if len(parts) == 1 and not comma else ListOf(tuple(parts), column)

    def _index(self) -> Part:
        column = self.next.column
        start = None if self.ahead(":") else self.expression()
        if not self.maybe(":"):
            assert start is not None  # noqa: S101 - without an index a colon was next
            return start
        stop = None if self.ahead(":", ",", "]") else self.expression()
        step = self.expression() if self.maybe(":") and not self.ahead(",", "]") else None
        return Span(start, stop, step, column)


def _number(token: _Token) -> int | float:
    if len(token.text) > _MOST_DIGITS:
        raise NotationError(
            token.column, f"the number has {len(token.text)} characters", f"at most {_MOST_DIGITS} characters"
        )
    try:
        whole = token.text[:2].lower() in ("0x", "0o", "0b") or not re.search(r"[.eE]", token.text)
        return int(token.text, 0) if whole else float(token.text)
    except ValueError:  # 007, 1__0, 1_
        raise NotationError(token.column, f"{token.text!r} is no number", "a number such as 8, 1_000, 0x20, 1.5, 1e-3")  # noqa: B904 - Python's own words add nothing


def _unquoted(token: _Token) -> str:
    def meant(escape: re.Match[str]) -> str:
        if escape[1] not in _ESCAPES:
            column = token.column + 1 + escape.start()
            raise NotationError(column, f"unknown escape {escape[0]!r}", ", ".join("\\" + sign for sign in _ESCAPES))
        return _ESCAPES[escape[1]]

    return re.sub(r"\\(.)", meant, token.text[1:-1])
