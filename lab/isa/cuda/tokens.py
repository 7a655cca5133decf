"""Splits CUDA C++ into tokens, before preprocessing.

It handles comments, strings, raw strings, character literals, line continuations and preprocessor lines. It accepts
any text; unknown input becomes single-character tokens.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

_SPLICE = re.compile(r"\\[ \t]*\r?\n")

_TOKEN = re.compile(
    r"""
      (?P<blank>     [^\S\n]++ | //[^\n]*+ | /\*(?>(?:[^*]|\*(?!/))*)(?>(?:\*/)?) )
    | (?P<newline>   \n )
    | (?P<directive> \#(?>(?:[^\n/"]|"(?>(?:[^"\\\n]|\\.)*)"?+|/(?![/*])|/\*(?>(?:[^*]|\*(?!/))*)(?>(?:\*/)?))*) )
    | (?P<string>    (?>(?:u8|[uUL])?)R"(?P<fence>[^()\\\s"]{0,16})\((?s:.*?)(?:\)(?P=fence)"|\Z)
                   | (?>(?:u8|[uUL])?)"(?>(?:[^"\\\n]|\\.)*)"?+ )
    | (?P<char>      (?>(?:u8|[uUL])?)'(?>(?:[^'\\\n]|\\.)*)'?+ )
    | (?P<word>      [^\W\d][\w$]*+ | \$[\w$]*+ )
    | (?P<number>    \.?\d(?>(?:[eEpP][+-]|'\w|[\w.])*) )
    | (?P<punctuation> :: | -> | \.\.\. | . )
    """,
    re.VERBOSE,
)
_ZERO = re.compile(r"#\s*if\s+(?:0|false)\s*$")
_CONDITION = re.compile(r"#\s*(if|ifdef|ifndef|elif|elifdef|elifndef|else|endif)\b")
OPENING, CLOSING = "([{", ")]}"


class TokenKind(StrEnum):
    """The kind of a token. A preprocessor line is one token."""

    DIRECTIVE = "directive"
    STRING = "string"
    CHAR = "char"
    WORD = "word"
    NUMBER = "number"
    PUNCTUATION = "punctuation"


@dataclass(frozen=True, slots=True)
class Token:
    """One token.

    Attributes:
        kind: Its kind.
        text: The token with continued lines joined; for a directive, the line from its ``#`` without a closing comment.
        line: Line on which it begins, from 1.
        start: Offset in the source where it begins.
        end: Offset in the source where it ends.
    """

    kind: TokenKind
    text: str
    line: int
    start: int
    end: int


@lru_cache(maxsize=4)  # a sweep tokenises one source thousands of times
def tokens(text: str) -> tuple[Token, ...]:
    """Split a source into tokens. Never fails: an open comment or string ends with its line or with the text."""
    joined, splices = _join(text)
    line_ends = [match.start() for match in re.finditer("\n", text)]
    return tuple(
        Token(kind, token_text, bisect_right(line_ends, at := _origin(start, splices)) + 1, at, _origin(end, splices))
        for kind, token_text, start, end in _scan(joined)
    )


def condition_word(directive: str) -> str:
    """Return the word of a conditional line, such as `ifdef` or `endif`; empty for another directive."""
    match = _CONDITION.match(directive)
    return match[1] if match else ""


@lru_cache(maxsize=4)  # as of `tokens`
def live_tokens(text: str) -> tuple[Token, ...]:
    """Return the tokens of a source without those hidden by `#if 0`."""
    live: list[Token] = []
    hides: list[bool] = []  # one per open condition
    hidden = 0  # number of open conditions that hide
    for token in tokens(text):
        word = condition_word(token.text) if token.kind is TokenKind.DIRECTIVE else ""
        was_hidden = hidden
        if word.startswith("if"):
            hides.append(bool(_ZERO.match(token.text)))
            hidden += hides[-1]
        elif word.startswith("el") and hides:
            hidden -= hides[-1]
            hides[-1] = False
        elif word == "endif" and hides:
            hidden -= hides.pop()
        if not hidden or not was_hidden:  # both ends of a hidden part are kept
            live.append(token)
    return tuple(live)


def behind(stream: Sequence[Token], opening: int) -> int:
    """Return the position after the bracket that closes the one at `opening`, at most the end.

    Of a condition (`#if … #else`), only the first branch counts, so a brace opened in both branches counts once.
    """
    depth = 0
    later: list[bool] = []  # per open condition, whether a later branch is being read
    skipping = 0  # number of open conditions in a later branch
    for index in range(opening, len(stream)):
        token = stream[index]
        if token.kind is TokenKind.DIRECTIVE:
            word = condition_word(token.text)
            if word.startswith("if"):
                later.append(False)
            elif word.startswith("el"):
                if not later:  # of a condition around the bracket
                    later.append(False)
                skipping += not later[-1]
                later[-1] = True
            elif word == "endif" and later:
                skipping -= later.pop()
        elif token.kind is TokenKind.PUNCTUATION and not skipping:
            depth += (token.text in OPENING) - (token.text in CLOSING)
            if depth <= 0:
                return index + 1
    return len(stream)


def _scan(text: str) -> Iterator[tuple[TokenKind, str, int, int]]:
    at_line_start = True
    position = 0
    while match := _TOKEN.match(text, position):
        kind, token_text, start, position = str(match.lastgroup), match[0], match.start(), match.end()
        if kind == "fence":  # lastgroup of a raw string
            kind = "string"
        if kind == "newline":
            at_line_start = True
            continue
        if kind == "blank":
            continue
        if kind == "directive" and not at_line_start:
            kind, token_text, position = "punctuation", token_text[0], start + 1
        at_line_start = False
        yield TokenKind(kind), token_text.rstrip() if kind == "directive" else token_text, start, position


def _join(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Join continued lines. Also return, per join, its offset in the result and the characters removed so far."""
    fragments, joins, position, removed, length = [], [], 0, 0, 0
    for match in _SPLICE.finditer(text):
        fragments.append(text[position : match.start()])
        length += match.start() - position
        removed += len(match[0])
        joins.append((length, removed))
        position = match.end()
    return "".join([*fragments, text[position:]]), joins


def _origin(offset: int, joins: list[tuple[int, int]]) -> int:
    """Return the source offset of an offset in the joined text."""
    place = bisect_right(joins, (offset, math.inf))
    return offset + (joins[place - 1][1] if place else 0)
