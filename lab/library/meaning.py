"""One walk over an expression of sizes, for every meaning that a library gives it.

A library's expressions are specialised to one kernel (`specialise`), written in C (`emit`) and computed for many sizes
at once (`arrays`). Each of these is a `Meaning`: what it makes of a constant, a name, an operation. All of them compute
with 64-bit integers, with `//` and `%` rounding towards minus infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from jinja2 import nodes

from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar, environment

Value = TypeVar("Value")

FUNCTIONS = {"ceil_div": 2, "min": 2, "max": 2, "abs": 1}
"""What an expression of sizes may call, with how many arguments."""

_BINARY: dict[type[nodes.BinExpr], str] = {
    nodes.Add: "+",
    nodes.Sub: "-",
    nodes.Mul: "*",
    nodes.Div: "/",
    nodes.FloorDiv: "//",
    nodes.Mod: "%",
    nodes.Pow: "**",
    nodes.And: "and",
    nodes.Or: "or",
}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "lteq": "<=", "gt": ">", "gteq": ">=", "in": "in", "notin": "not in"}
_ENVIRONMENT = environment()


class Meaning(Generic[Value]):
    """What the parts of an expression mean. A method returns None for what the meaning cannot express."""

    def constant(self, value: Scalar) -> Value | None:
        """A number, a boolean or a word."""
        del value
        return None

    def name(self, name: str) -> Value | None:
        """A size, a factor, or what else the expression may refer to."""
        del name
        return None

    def negative(self, value: Value) -> Value | None:
        """``-value``."""
        del value
        return None

    def inverse(self, value: Value) -> Value | None:
        """``not value``."""
        del value
        return None

    def binary(self, symbol: str, left: Value, right: Value) -> Value | None:
        """``left symbol right``; the symbol is an arithmetic one, `and` or `or`."""
        del symbol, left, right
        return None

    def comparison(self, first: Value, others: Sequence[tuple[str, Value]]) -> Value | None:
        """A chain, ``first < second <= third``: every other operand with the symbol in front of it."""
        del first, others
        return None

    def choice(self, test: Value, then: Callable[[], Value], otherwise: Callable[[], Value]) -> Value | None:
        """``then if test else otherwise``; either side is made only if it is asked for."""
        del test, then, otherwise
        return None

    def call(self, function: str, arguments: Sequence[Value]) -> Value | None:
        """One of `FUNCTIONS` with its arguments."""
        del function, arguments
        return None

    def item(self, value: Value, index: Value) -> Value | None:
        """``value[index]``."""
        del value, index
        return None


def interpreted(expression: str, meaning: Meaning[Value], *, at: Location, key: str) -> Value:
    """Return what an expression means.

    Args:
        expression: A Jinja expression that `lab.base.expressions` accepts.
        meaning: The meaning of its parts.
        at: Where it stands, for errors.
        key: Its key, for errors.

    Raises:
        UserError: The meaning cannot express one of the operations.
    """
    output = _ENVIRONMENT.parse("{{ (" + expression + ") }}").body[0]
    assert isinstance(output, nodes.Output)  # noqa: S101 - what two braces are to Jinja
    return _read(output.nodes[0], meaning, at, key)


def _read(node: nodes.Node, meaning: Meaning[Value], at: Location, key: str) -> Value:
    def read(part: nodes.Node) -> Value:
        return _read(part, meaning, at, key)

    found: Value | None = None
    match node:
        case nodes.Const(value=bool() | int() | float() | str() as constant):
            found = meaning.constant(constant)
        case nodes.Name(name=name):
            found = meaning.name(name)
        case nodes.Neg():
            found = meaning.negative(read(node.node))
        case nodes.Not():
            found = meaning.inverse(read(node.node))
        case nodes.BinExpr() if type(node) in _BINARY:
            found = meaning.binary(_BINARY[type(node)], read(node.left), read(node.right))
        case nodes.Compare():
            others = [(_COMPARISONS[operand.op], read(operand.expr)) for operand in node.ops]
            found = meaning.comparison(read(node.expr), others)
        case nodes.CondExpr(expr2=nodes.Expr() as otherwise):
            found = meaning.choice(read(node.test), lambda: read(node.expr1), lambda: read(otherwise))
        case nodes.Call(node=nodes.Name(name=name)) if len(node.args) == FUNCTIONS.get(name):
            found = meaning.call(name, [read(argument) for argument in node.args])
        case nodes.Getitem():
            found = meaning.item(read(node.node), read(node.arg))
    if found is None:
        accepted = f"+ - * // %, comparisons, and, or, not, if else, {', '.join(FUNCTIONS)}"
        message = "a library's launch cannot compute this"
        raise UserError(message, at=at, key=key, found=type(node).__name__, accepted=accepted)
    return found
