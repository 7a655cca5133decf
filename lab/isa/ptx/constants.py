"""Integer constants of PTX: literals and constant expressions (source: PTX ISA, "Constants")."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Final

from lab.base.warp import WARP_SIZE

_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,19}|0[xX][0-9a-fA-F]{1,16}|0[bB][01]{1,64}|0[0-7]{1,22})U?\Z", re.ASCII)


def integer(text: str) -> int:
    """Return the value of an integer literal or a constant expression such as ``4*8+1`` or ``WARP_SZ``.

    Raises:
        ValueError: The text is neither.
    """
    literal = text.strip()
    return _literal(literal) if _INTEGER.match(literal) else _expression(literal)


def _literal(text: str) -> int:
    literal = text.removesuffix("U")
    sign = -1 if literal.startswith("-") else 1
    digits = literal.removeprefix("-")
    octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
    return sign * int(digits, 8 if octal else 0)


_LITERAL = re.compile(r"\w++", re.ASCII)
_ALLOWED = re.compile(r"[\w\s+\-*/%&|^~<>()]++\Z", re.ASCII)
_LONGEST = 200
_UNARY: Final[dict[type[ast.unaryop], Callable[[int], int]]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
_BITS_64 = (1 << 64) - 1


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # towards zero, as in C


_BINARY: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _quotient,
    ast.Mod: lambda a, b: a - b * _quotient(a, b),
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: lambda a, b: (a << (b & 63)) & _BITS_64,
    ast.RShift: lambda a, b: a >> (b & 63),
}


def _expression(text: str) -> int:
    """Return the value of a constant expression. Python and PTX agree on the precedence of these operators."""
    if len(text) > _LONGEST or not _ALLOWED.match(text):
        raise ValueError(text[:80])

    def decimal(match: re.Match[str]) -> str:
        if match[0] == "WARP_SZ":
            return str(WARP_SIZE)
        if not _INTEGER.match(match[0]):
            raise ValueError(text[:80])
        return str(_literal(match[0]))

    try:
        return _evaluate(ast.parse(_LITERAL.sub(decimal, text), mode="eval").body, text)
    except (SyntaxError, ZeroDivisionError, RecursionError, MemoryError) as error:
        raise ValueError(text[:80]) from error


def _evaluate(node: ast.expr, text: str) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _UNARY:
            return _UNARY[type(sign)](_evaluate(operand, text))
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _BINARY:
            return _BINARY[type(operation)](_evaluate(left, text), _evaluate(right, text))
    raise ValueError(text[:80])
