"""Which arguments of a Triton function are arrays, and whether its body loads or stores them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_LOADS = {"load", "gather"}
_ATOMICS = {f"atomic_{name}" for name in ("add", "max", "min", "cas", "xchg", "and", "or", "xor")}


@dataclass
class BodyUse:
    """The uses of one array in a body.

    Attributes:
        loaded: It is read.
        stored: It is written.
        atomic: It is changed by atomic operations.
        is_index: What is read there is part of an address.
        lengths: The elements that each access reaches: an argument that the mask compares the offset with, the axis of
            the program's number that is the offset, or None for an access of another form.
        places: The offset and the mask of each access, as the source has them; a name where the pointer moves.
    """

    loaded: bool = False
    stored: bool = False
    atomic: bool = False
    is_index: bool = False
    lengths: set[str | int | None] = field(default_factory=set)
    places: set[str] = field(default_factory=set)

    @property
    def length(self) -> str | int | None:
        """Return what all accesses reach; None where that is unknown."""
        return next(iter(self.lengths)) if len(self.lengths) == 1 else None

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
    values: dict[str, ast.expr] = {}  # what variables were given last
    moved = {word.id for node in ast.walk(function) if isinstance(node, ast.Assign | ast.AugAssign)
             for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
             for word in ast.walk(target) if isinstance(word, ast.Name)}  # fmt: skip
    for node in _in_order(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            base = _base(node.value, bases, names)
            if base is not None and node.targets[0].id not in names:
                bases[node.targets[0].id] = base
            values[node.targets[0].id] = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            base = _base(node.args[0], bases, names)
            kind = node.func.attr
            if base is None or kind not in {*_LOADS, "store", *_ATOMICS}:
                continue
            use = found.setdefault(base, BodyUse())
            use.loaded |= kind in _LOADS
            use.stored |= kind == "store"
            use.atomic |= kind in _ATOMICS
            use.lengths.add(_length(node, values, names - moved))
            use.places.add(base if base in moved else _place(node, base))
            for name in {inner.id for inner in ast.walk(node.args[0]) if isinstance(inner, ast.Name)} & values.keys():
                source = _loaded_from(values[name], bases, names)
                if source in found:
                    found[source].is_index = True
    return found


def _place(access: ast.Call, base: str) -> str:
    """Return the offset and the mask of an access; see `BodyUse.places`."""
    mask = next((ast.unparse(keyword.value) for keyword in access.keywords if keyword.arg == "mask"), "")
    offset = re.sub(rf"(?<!\w){base}(?!\w)", "", ast.unparse(access.args[0]))
    return f"{offset}, {mask}"


def _length(access: ast.Call, values: Mapping[str, ast.expr], names: set[str]) -> str | int | None:
    """Return what an access reaches; see `BodyUse.lengths`."""
    match access.args[0]:
        case ast.BinOp(left=ast.Name(id=base), op=ast.Add(), right=ast.Name(id=offset)) if base in names:
            pass
        case _:
            return None
    mask = next((keyword.value for keyword in access.keywords if keyword.arg == "mask"), None)
    if isinstance(mask, ast.Name):
        mask = values.get(mask.id)
    match mask, values.get(offset):
        case ast.Compare(left=ast.Name(id=left), ops=[ast.Lt()], comparators=[ast.Name(id=size)]), _ if left == offset:
            return size if size in names else None
        case None, ast.Call(func=ast.Attribute(attr="program_id"), args=[ast.Constant(value=int(axis))], keywords=[]):
            return axis
    return None


def _loaded_from(value: ast.expr, bases: Mapping[str, str], names: set[str]) -> str | None:
    """Return the array that an expression loads."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "to":
        value = value.func.value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _LOADS:
        return _base(value.args[0], bases, names) if value.args else None
    return None


def _in_order(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the nodes of a body as they stand in the text."""
    nodes = [node for one in function.body for node in ast.walk(one) if hasattr(node, "lineno")]
    yield from sorted(nodes, key=lambda node: (node.lineno, node.col_offset))  # type: ignore[attr-defined]


def _base(node: ast.expr, bases: Mapping[str, str], names: set[str]) -> str | None:
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
