"""Parser of expressions: text to the syntax tree of `lab.base.syntax`.

The grammar is a subset of Python's with two additions that templates have as well: `a ~ b` concatenates strings and
binds between `+` and `*`, and `value | name(…)` calls a function with the value as its first argument and binds
between `*` and signs. `a @ b` is `matmul(a, b)`. Any word but Python's `and`, `or`, `not`, `if` and `else` may be a
name, since kernels have parameters called `in` and `lambda`.

Therefore `ast.parse` is given a skeleton of the text: one token per line, an `n` for each value, and for each operator
a Python operator of the same precedence. The line of a node identifies its token.

Length and nesting are bounded, so that no text takes long to parse or evaluate.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

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
    Literal,
    NameOf,
    Pairs,
    Part,
    Span,
    Unary,
    children,
)

MOST_CHARACTERS: Final = 1000
"""Longest expression, in characters; a longer one is rejected before it is parsed."""

_MOST_NESTING = 50
"""Deepest nesting of brackets."""

_MOST_DEPTH = 100
"""Deepest syntax tree; evaluators may recurse once per level. In `a + b + c`, `a + b` is one level down."""

_MOST_DIGITS = 40
"""Longest number, in characters; a longer one is rejected before it is converted."""

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
_KEYWORDS = frozenset({"and", "or", "not", "in", "if", "else", "is"})

_AS_STRONG = {
    "^": "|",
    "&": "^",
    "<<": "&",
    ">>": "&",
    "+": "<<",
    "-": "<<",
    "~": "+",
    "/": "*",
    "//": "*",
    "%": "*",
    "@": "*",
}
"""Python operators that replace ours in a skeleton, since they have the same precedence."""

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_BEHIND = {
    "": "an operator or the end of the expression",
    "else": "an operator, or 'else' and the value where the condition is false",
}
"""Description of the tokens accepted after a value, by the innermost open construct other than a bracket."""

_INFIX = {*_AS_STRONG, "*", "**", "==", "!=", "<", "<=", ">", ">=", "|", ".", "and", "or", "if", "else"} - {"+", "-"}
"""Operators that need a left operand."""

_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_VALUE = "a number, a text, a name, '(', '[' or '{'"


class NotationError(ValueError):
    """A text is not an expression."""

    def __init__(self, column: int, message: str, accepted: str | None = None) -> None:
        """Describe the mistake.

        Args:
            column: Its column, from 1.
            message: What is wrong, without the location.
            accepted: What is accepted there.
        """
        self.column, self.message, self.accepted = column, message, accepted
        super().__init__(f"column {column}: {message}")


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    column: int
    value: Literal = None

    def refused(self, accepted: str) -> NotationError:
        hint = "; equality is '=='" if self.text in ("=", "is") else ""
        message = "the expression ends" if self.kind == "end" else f"unexpected {self.text[:40]!r}"
        return NotationError(self.column, message, accepted + hint)

    @property
    def name(self) -> str:
        if self.kind != "word" or self.text in _KEYWORDS or self.text in _CONSTANTS:
            raise self.refused("a name")
        return self.text


@lru_cache(maxsize=4096)
def parse(text: str) -> Part:
    """Parse an expression.

    Raises:
        NotationError: The text is not an expression, is too long or is too deeply nested.
    """
    if len(text) > MOST_CHARACTERS:
        raise NotationError(
            MOST_CHARACTERS + 1,
            f"the expression is too long: it has {len(text)} characters",
            f"at most {MOST_CHARACTERS} characters",
        )
    tokens = _tokens(text)
    try:
        root = _Translator(tokens).part(ast.parse(_skeleton(tokens), mode="eval").body)
    except SyntaxError as error:
        token, *behind = tokens[(error.lineno or 1) - 1 :]
        if "invalid syntax" not in error.msg:
            raise NotationError(token.column, error.msg) from error
        wrong = behind[0] if behind and behind[0].text == "=" else token  # Python reports the token before '='
        raise wrong.refused(f"{_VALUE}, or an operator") from error
    except (RecursionError, MemoryError) as error:
        raise _too_deep(1) from error
    _check_depth(root)
    return root


def _check_depth(root: Part) -> None:
    level = [root]
    for _ in range(_MOST_DEPTH):
        level = [inner for outer in level for inner in children(outer)]
    if level:
        raise _too_deep(level[0].column)


def _too_deep(column: int) -> NotationError:
    accepted = f"at most {_MOST_NESTING} nested brackets and {_MOST_DEPTH} nested operations"
    return NotationError(column, "the expression is too deeply nested", accepted)


def _tokens(text: str) -> list[_Token]:
    if brace := _BRACES.search(text):
        raise NotationError(brace.start() + 1, "write the expression without braces")
    tokens = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        word, column = match[kind], match.start(kind) + 1
        value: Literal = _CONSTANTS.get(word)
        if kind == "number":
            value = _number(word, column)
        elif kind == "text":
            value = _unquoted(word, column)
        elif kind == "other" and word in "'\"":
            raise NotationError(column, "the text has no closing quote")
        elif kind == "other":
            raise NotationError(column, f"unexpected {word!r}", _VALUE + ", or an operator")
        tokens.append(_Token(kind, word, column, value))
    return [*tokens, _Token("end", "", len(text.rstrip()) + 1)]


def _skeleton(tokens: list[_Token]) -> str:  # noqa: C901, PLR0912 - a branch for each kind of token
    """Return Python source with the structure of the tokens: the i-th token on line i + 1, in parentheses.

    A pipe becomes an attribute access on its left operand: `-x | abs` becomes `(-n).n`.
    """
    lines, begins, closing, value_next = list[str](), [0], [""], True
    for i, token in enumerate(tokens):
        text = line = token.text
        accepted = _VALUE if value_next else _BEHIND.get(closing[-1], f"an operator, ',' or {closing[-1]!r}")
        is_name = token.kind == "word" and (text not in _KEYWORDS or (value_next and text in ("in", "is")))
        if is_name or token.kind in ("number", "text"):
            if not value_next:
                raise token.refused(accepted)
            line, value_next = "n", False
        elif text in ("(", "[", "{"):
            if not value_next and (text, tokens[i + 1].text) == ("[", "]"):
                raise NotationError(tokens[i + 1].column, "the index between the brackets is missing", _VALUE)
            begins.append(i + 1)
            closing.append(_CLOSING[text])
            if len(closing) > _MOST_NESTING:
                raise _too_deep(token.column)
            value_next = True
        elif text in (")", "]", "}", ""):
            begins.pop()
            if text != closing.pop() or (value_next and not text):
                raise token.refused(accepted)
            value_next = False
        elif text == "is" or (text in (",", ":", "=") and closing[-1] in _BEHIND) or (value_next and text in _INFIX):
            raise token.refused(accepted)
        elif text == "not" and not value_next:
            if tokens[i + 1].text != "in":
                raise tokens[i + 1].refused("'in' after 'not'")
        elif text == "|":
            lines[begins[-1]] = "(" + lines[begins[-1]]
            line, value_next = ").", True
        elif not value_next or text not in ("+", "-"):
            if text == "if":
                closing.append("else")
            elif text == "else" and closing.pop() != text:
                raise token.refused(accepted)
            if text not in ("**", "."):
                begins[-1] = i + 1
            line, value_next = _AS_STRONG.get(text, text), True
        lines.append(line)
    return "(" + "\n".join(lines) + ")"


class _Translator:
    """Translates the AST of a skeleton into a `Part`."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens

    def part(self, node: ast.expr) -> Part:  # noqa: C901, PLR0911, PLR0912 - a case for each kind of node
        token = self._tokens[node.lineno - 1]
        match node:
            case ast.Name():
                if token.kind == "word" and token.text not in _CONSTANTS:
                    return NameOf(token.text, token.column)
                return Constant(token.value, token.column)
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return ListOf(self._parts(elements), token.column)
            case ast.Dict(keys=keys, values=values):
                key_parts = self._parts(
                    key for key in keys if key is not None
                )  # None would be `**`, which no token produces
                return Pairs(tuple(zip(key_parts, self._parts(values), strict=True)), token.column)
            case ast.IfExp(test=test, body=then, orelse=otherwise):
                return Conditional(self.part(test), self.part(then), self.part(otherwise), self._behind(then).column)
            case ast.BoolOp(op=op, values=values):
                return Junction("and" if isinstance(op, ast.And) else "or", self._parts(values), token.column)
            case ast.UnaryOp(operand=operand):
                return Unary(token.text, self.part(operand), token.column)
            case ast.BinOp(left=left, right=right):
                symbol, a, b = self._behind(left), self.part(left), self.part(right)
                if symbol.text == "@":
                    return Application(NameOf("matmul", symbol.column), (a, b), (), symbol.column)
                return Binary(symbol.text, a, b, symbol.column)
            case ast.Compare(left=left, comparators=others):
                symbols = [self._behind(operand) for operand in (left, *others[:-1])]
                words = ["not in" if symbol.text == "not" else symbol.text for symbol in symbols]
                return Chain(self.part(left), tuple(zip(words, self._parts(others), strict=True)), symbols[0].column)
            case ast.Slice():
                start, stop, step = (
                    None if end is None else self.part(end) for end in (node.lower, node.upper, node.step)
                )
                return Span(start, stop, step, token.column)
            case ast.Subscript(value=value, slice=index):
                return ItemOf(self.part(value), self.part(index), self._behind(value).column)
            case ast.Attribute():
                function, piped = self._fact(node)
                return Application(function, piped, (), function.column) if piped else function
            case ast.Call():
                return self._call(node)
            case _:  # a set: our tokens cannot produce anything else
                raise NotationError(token.column, "a set is not supported", "[value, ...] or {key: value, ...}")

    def _parts(self, nodes: Iterable[ast.expr]) -> tuple[Part, ...]:
        return tuple(self.part(node) for node in nodes)

    def _behind(self, node: ast.expr) -> _Token:
        """Return the token after a node and its enclosing parentheses."""
        return next(token for token in self._tokens[_end(node) :] if token.text != ")")

    def _fact(self, node: ast.Attribute) -> tuple[NameOf | FactOf, tuple[Part, ...]]:
        """Return a fact, or the function after a pipe together with its piped argument."""
        dot, value, name = self._behind(node.value), self.part(node.value), self._tokens[_end(node) - 1]
        if dot.text == "|":
            return NameOf(name.name, name.column), (value,)
        return FactOf(value, name.name, dot.column), ()

    def _call(self, node: ast.Call) -> Part:
        behind = self._behind(node.func)
        function, piped = self._fact(node.func) if isinstance(node.func, ast.Attribute) else (self.part(node.func), ())
        if not isinstance(function, NameOf | FactOf) or (piped and self._tokens[_end(node.func)] is not behind):
            raise behind.refused("an operator: only a function, called by name, takes arguments")
        keywords = dict[str, Part]()
        for keyword in node.keywords:
            token = self._tokens[keyword.lineno - 1]
            if token.name in keywords:
                raise NotationError(token.column, f"the argument {token.name} is given twice")
            keywords[token.name] = self.part(keyword.value)
        return Application(function, (*piped, *self._parts(node.args)), tuple(keywords.items()), function.column)


def _end(node: ast.expr) -> int:
    assert node.end_lineno  # noqa: S101 - the parser sets it
    return node.end_lineno


def _number(word: str, column: int) -> int | float:
    if len(word) > _MOST_DIGITS:
        raise NotationError(column, f"the number has {len(word)} characters", f"at most {_MOST_DIGITS} characters")
    try:
        number: int | float = ast.literal_eval(word)
    except SyntaxError:  # 007, 1__0, 1_
        raise NotationError(column, f"{word!r} is not a number", "a number such as 8, 1_000, 0x20, 1.5, 1e-3") from None
    return number


def _unquoted(word: str, column: int) -> str:
    def unescape(escape: re.Match[str]) -> str:
        if escape[1] not in _ESCAPES:
            at = column + 1 + escape.start()
            raise NotationError(at, f"unknown escape {escape[0]!r}", ", ".join("\\" + sign for sign in _ESCAPES))
        return _ESCAPES[escape[1]]

    return re.sub(r"\\(.)", unescape, word[1:-1])
