"""PTX text without comments: lines of positions, a cursor, and operand lists.

Repetitions in patterns are possessive (``*+``), or their groups atomic, where they could otherwise be retried, so that
no input, however broken, takes more than linear time per statement.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NoReturn

from lab.base.errors import Location, ReaderError
from lab.isa.ptx.constants import integer

IDENTIFIER = r"(?:[A-Za-z][\w$]*+|[_$%][\w$]++)"
"""Source: PTX ISA, "Identifiers". The sink `_` is an operand, not an identifier."""

_COMMENT = re.compile(r'//[^\n]*+|/\*(?>(?:[^*]|\*(?!/))*)\*/|"[^"\n]*+"|/\*|"')


def _blank(match: re.Match[str]) -> str:
    """Blank a comment but keep its line ends, so that line numbers stay right; keep strings."""
    text = match[0]
    if text.startswith('"') or text == "/*":
        return text
    return "\n" * text.count("\n") or " "


class PtxText:
    """A listing without its comments.

    Attributes:
        text: The listing with comments blanked. Strings and line numbers are those of the original.
        file: The listing's name, for messages.
    """

    def __init__(self, text: str, file: str) -> None:
        """Strip comments.

        Args:
            text: The listing.
            file: Its name, for messages.

        Raises:
            ReaderError: A block comment or a string does not end.
        """
        self.file = file
        text = text.rstrip("\0").removeprefix("\ufeff")
        self.text = _COMMENT.sub(_blank, text) if "/" in text or '"' in text else text
        self._line_ends = [match.start() for match in re.finditer("\n", self.text)]
        for match in _COMMENT.finditer(self.text):
            if match[0] == '"' or match[0].startswith("/"):
                raise self.error(match.start(), "a string or a comment does not end")

    def line(self, position: int) -> int:
        """Return the line of a position, from 1."""
        return bisect_right(self._line_ends, position - 1) + 1

    def error(self, position: int, message: str) -> ReaderError:
        """Return an error that names the line of a position."""
        return ReaderError(message, Location(self.file, self.line(position)))


_BLANK = re.compile(r"\s*+", re.ASCII)
_NEXT_WORDS = re.compile(r"\s*+([^\n]{0,40})", re.ASCII)


class Cursor:
    """A position in a `PtxText` that advances as patterns match."""

    def __init__(self, source: PtxText) -> None:
        """Start at the beginning."""
        self.source, self.text, self.position = source, source.text, 0

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Match a pattern at the cursor and advance past it; return None and stay otherwise."""
        match = pattern.match(self.text, self.position)
        if match:
            self.position = match.end()
        return match

    def need(self, pattern: re.Pattern[str], expected: str) -> re.Match[str]:
        """Match a pattern at the cursor and advance past it.

        Raises:
            ReaderError: It does not match; the message names the expected and the actual text.
        """
        return self.take(pattern) or self.fail(f"expected {expected}")

    def skip_blanks(self) -> bool:
        """Move to the next character that is not white space; return False at the end of the text."""
        self.take(_BLANK)
        return self.position < len(self.text)

    def fail(self, message: str) -> NoReturn:
        """Raise an error about the text at the cursor."""
        self.skip_blanks()
        match = _NEXT_WORDS.match(self.text, self.position)
        words = match[1].strip() if match else ""
        behind = f", found {words!r}" if words else ", found the end of the text"
        raise self.source.error(min(self.position, max(len(self.text) - 1, 0)), message + behind)

    def integer(self, text: str) -> int:
        """Return the value of an integer literal or constant expression.

        Raises:
            ReaderError: The text is neither.
        """
        try:
            return integer(text)
        except ValueError:
            self.fail(f"{text.strip()[:40]!r} is not an integer")


# An operand is a constant expression over names and numbers, or an address, a vector, or a parameter list of them.
# The expression must be complete: two names in a row mean that a semicolon is missing.
_ATOM = rf"(?:{IDENTIFIER}(?>(?:\.\w++)*)|\d(?>(?:[eE][+-]\d|[\w.])*)|_|\([^()\[\]{{}},;]*+\))"
_UNARY = r"(?>(?:[-+!~]\s*+)*)"
_OPERATOR = r"(?:<<|>>|[=!<>]=|&&|\|\||%(?=[\s\d(])|[-+*/&|^<>?:])"
_EXPRESSION = rf"{_UNARY}{_ATOM}(?>(?:\s*+{_OPERATOR}\s*+{_UNARY}{_ATOM})*)"
_ADDRESS = rf"\[\s*+{_EXPRESSION}\s*+(?>(?:,\s*+(?:{_EXPRESSION}|\{{[^{{}}\[\]]*+\}})\s*+)*)\]"
_ITEM = rf"(?:{_EXPRESSION}|{_ADDRESS})"
_ITEMS = rf"(?>(?:{_ITEM}\s*+(?>(?:,\s*+{_ITEM}\s*+)*))?)"
_OPERAND = re.compile(
    rf"(?:{_EXPRESSION}(?>(?:\s*+\[[^\[\]{{}};]*+\])?)|{_ADDRESS}|\{{\s*+{_ITEMS}\}}|\(\s*+{_ITEMS}\))", re.ASCII
)
_PIECE = re.compile(
    r"\s*+((?>(?:\{[^{}]*+\}|\[(?>(?:[^\[\]{}]|\{[^{}]*+\})*)\]|\([^()]*+\)|[^,{}\[\]()])+))(,|\Z)", re.ASCII
)


class OperandReader:
    """Splits operand lists, and caches well-formed operands."""

    def __init__(self) -> None:
        """Create a reader with an empty cache."""
        self._known: dict[str, str] = {}

    def split(self, text: str) -> tuple[str, ...] | None:
        """Split at top-level commas.

        Args:
            text: The text between an opcode and the semicolon.

        Returns:
            The operands, without white space at either end and with single spaces inside; None if the text is not an
            operand list.
        """
        if not text or text.isspace():
            return ()
        if "{" not in text and "(" not in text:
            operands = self._known
            try:
                return tuple([operands[piece] for piece in text.split(",")])
            except KeyError:
                pass
        pieces = self._pieces(text)
        return None if pieces is None else self._clean(pieces)

    def _pieces(self, text: str) -> list[str] | None:
        """Return the raw text between top-level commas, or None if brackets do not match."""
        pieces, position, separator = [], 0, ","
        while separator == ",":
            match = _PIECE.match(text, position)
            if match is None:
                return None
            pieces.append(match[1])
            position, separator = match.end(), match[2]
        return pieces

    def _clean(self, pieces: list[str]) -> tuple[str, ...] | None:
        cleaned = []
        for piece in pieces:
            operand = self._known.get(piece)
            if operand is None:
                operand = " ".join(piece.split())
                if not _OPERAND.fullmatch(operand):
                    return None
                self._known[piece] = self._known[f" {piece}"] = operand
            cleaned.append(operand)
        return tuple(cleaned)
