"""Polynomials of sizes as the expressions of experiment files, and back."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from lab.isa.cuda.body.limits import Limits
from lab.isa.cuda.body.polynomials import Monomial, Polynomial, atom, number


class Texts:
    """Writes polynomials of one kernel, and reads the host's expressions as such."""

    def __init__(self, limits: Limits, names: Mapping[str, str]) -> None:
        """Begin.

        Args:
            limits: What knows the kernel's atoms.
            names: What the experiment calls members of structures: `A_width` for `A.width`.
        """
        self._limits, self._names = limits, names

    def text(self, value: Polynomial) -> str:
        """Return the expression of a polynomial of sizes."""
        terms = sorted(value.terms.items(), key=lambda term: (term[1] < 0, -len(term[0]), term[0]))
        words = ""
        for monomial, factor in terms:
            sign = " - " if factor < 0 else " + "
            words += (sign if words else "-" if factor < 0 else "") + self._term(monomial, abs(factor))
        return words or "0"

    def _term(self, monomial: Monomial, factor: int) -> str:
        if not monomial:
            return str(factor)
        parts = [self._atom(name, alone=len(monomial) == 1 and factor == 1) for name in monomial]
        return " * ".join([*([str(factor)] if factor != 1 else []), *parts])

    def _atom(self, name: str, *, alone: bool) -> str:
        meaning = self._limits.meaning(name)
        if meaning is None or not meaning.operation:
            return self._names.get(name, name)
        left, right = map(self.text, meaning.operands)
        if meaning.operation == "ceil":
            return f"ceil_div({left}, {right})"
        operator = "//" if meaning.operation == "/" else "%"
        left, right = (side if side.isidentifier() or side.isdecimal() else f"({side})" for side in (left, right))
        quotient = f"{left} {operator} {right}"
        return quotient if alone else f"({quotient})"

    def polynomial(self, text: str) -> Polynomial | None:
        """Return the polynomial of an expression; None where it is something else."""
        try:
            return self._node(ast.parse(text, mode="eval").body)
        except (SyntaxError, ValueError, RecursionError):
            return None

    def _node(self, node: ast.expr) -> Polynomial:  # noqa: PLR0911 - an operator each
        if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
            return number(node.value)
        if isinstance(node, ast.Name):
            own = {called: path for path, called in self._names.items()}
            return atom(own.get(node.id, node.id))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._node(node.operand)
        if isinstance(node, ast.BinOp):
            left, right = self._node(node.left), self._node(node.right)
            match node.op:
                case ast.Add():
                    return left + right
                case ast.Sub():
                    return left - right
                case ast.Mult():
                    return left * right
                case ast.FloorDiv():
                    return self._limits.operation("/", left, right)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ceil_div":
            left, right = map(self._node, node.args)
            return self._limits.operation("ceil", left, right)
        raise ValueError(ast.dump(node))
