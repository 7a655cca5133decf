"""A launch's expressions at many sizes at once, in NumPy's 64-bit integers."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping

import numpy as np
from jinja2 import nodes
from numpy.typing import NDArray

from lab.base.errors import Location
from lab.library.package import LibraryKernel
from lab.library.specialise import tree, unsupported

Values = NDArray[np.int64]

_BINARY: dict[type[nodes.BinExpr], Callable[[Values, Values], Values]] = {
    nodes.Add: operator.add,
    nodes.Sub: operator.sub,
    nodes.Mul: operator.mul,
    nodes.FloorDiv: operator.floordiv,
    nodes.Mod: operator.mod,
    nodes.And: np.logical_and,
    nodes.Or: np.logical_or,
}
_COMPARISONS: dict[str, Callable[[Values, Values], Values]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "lteq": np.less_equal,
    "gt": np.greater,
    "gteq": np.greater_equal,
}
_FUNCTIONS: dict[str, Callable[..., Values]] = {
    "ceil_div": lambda a, b: -(-a // b),
    "min": np.minimum,
    "max": np.maximum,
    "abs": np.abs,
}


def blocks(kernel: LibraryKernel, sizes: Values) -> Values:
    """Blocks of a kernel's largest launch.

    Args:
        kernel: Its launches' expressions.
        sizes: n x 3: m, n, k; leading dimensions are the least there are.

    Raises:
        UserError: an expression has an operation that is none on sizes.
    """
    m, n, k = sizes.T
    names = {"m": m, "n": n, "k": k, "lda": m, "ldb": n, "ldc": m, "alpha": np.ones_like(m), "beta": np.ones_like(m)}
    found = np.zeros(len(sizes), dtype=np.int64)
    for launch in kernel.launches:
        grid = [np.broadcast_to(over(axis, names), found.shape) for axis in launch.grid]
        there = over(launch.when, names) if launch.when else True
        found = np.maximum(found, np.where(there, grid[0] * grid[1] * grid[2], 0))
    return np.maximum(found, 1)


def over(expression: str, names: Mapping[str, Values]) -> Values:
    """An expression's values.

    Raises:
        UserError: it has an operation that is none on sizes.
    """
    return _over(tree(expression), names, expression)


def _over(node: nodes.Node, names: Mapping[str, Values], whole: str) -> Values:
    def value(part: nodes.Node) -> Values:
        return _over(part, names, whole)

    found: Values | None = None
    match node:
        case nodes.Const(value=bool() | int() | float() as constant):
            found = np.asarray(constant)
        case nodes.Name(name=name):
            found = names.get(name)
        case nodes.BinExpr() if type(node) in _BINARY:
            found = _BINARY[type(node)](value(node.left), value(node.right))
        case nodes.Neg():
            found = -value(node.node)
        case nodes.Not():
            found = np.logical_not(value(node.node))
        case nodes.Compare() if all(operand.op in _COMPARISONS for operand in node.ops):
            parts = [value(node.expr), *(value(operand.expr) for operand in node.ops)]
            held = [_COMPARISONS[o.op](a, b) for o, a, b in zip(node.ops, parts, parts[1:], strict=False)]
            found = functools.reduce(np.logical_and, held)
        case nodes.CondExpr() if node.expr2 is not None:
            found = np.where(value(node.test), value(node.expr1), value(node.expr2))
        case nodes.Call(node=nodes.Name(name=name)) if name in _FUNCTIONS:
            found = _FUNCTIONS[name](*map(value, node.args))
    if found is None:
        raise unsupported(node, Location("<library>"), whole)
    return found
