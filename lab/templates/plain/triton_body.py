"""Which arguments of a Triton function are arrays, and whether its body loads or stores them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

_LOADS = {"load", "gather"}
_ATOMICS = {f"atomic_{name}" for name in ("add", "max", "min", "cas", "xchg", "and", "or", "xor")}


@dataclass
class BodyUse:
    """The uses of one array in a body.

    Attributes:
        loaded: It is read.
        stored: It is written.
        atomic: It is changed by atomic operations.
    """

    loaded: bool = False
    stored: bool = False
    atomic: bool = False

    @property
    def direction(self) -> str:
        """Return the experiment's prefix of the type: `out `, `inout ` or nothing."""
        if self.atomic or (self.loaded and self.stored):
            return "inout "
        return "out " if self.stored else ""


def uses_of(function: ast.FunctionDef) -> dict[str, BodyUse]:
    """Return the arrays among a function's arguments; those of addresses that only other functions see are left out."""
    names = {one.arg for one in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    bases: dict[str, str] = {}
    found: dict[str, BodyUse] = {}
    for node in _in_order(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            base = _base(node.value, bases, names)
            if base is not None and node.targets[0].id not in names:
                bases[node.targets[0].id] = base
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            base = _base(node.args[0], bases, names)
            kind = node.func.attr
            if base is None or kind not in {*_LOADS, "store", *_ATOMICS}:
                continue
            use = found.setdefault(base, BodyUse())
            use.loaded |= kind in _LOADS
            use.stored |= kind == "store"
            use.atomic |= kind in _ATOMICS
    return found


def _in_order(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the nodes of a body as they stand in the text."""
    nodes = [node for one in function.body for node in ast.walk(one) if hasattr(node, "lineno")]
    yield from sorted(nodes, key=lambda node: (node.lineno, node.col_offset))  # type: ignore[attr-defined]


def _base(node: ast.expr, bases: dict[str, str], names: set[str]) -> str | None:
    """Return the argument that an address begins with."""
    match node:
        case ast.Name(id=name):
            return bases.get(name, name if name in names else None)
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            return _base(node.left, bases, names) or _base(node.right, bases, names)
        case ast.Subscript() | ast.Attribute():
            return _base(node.value, bases, names)
        case ast.Call(func=ast.Attribute(attr="make_block_ptr" | "make_tensor_descriptor" | "advance")):
            words = [keyword.value for keyword in node.keywords if keyword.arg == "base"]
            first = node.args[0] if node.args else words[0] if words else None
            return None if first is None else _base(first, bases, names)
        case ast.Call(func=ast.Attribute(attr="to")):
            assert isinstance(node.func, ast.Attribute)  # noqa: S101 - the pattern says so
            return _base(node.func.value, bases, names)
    return None
