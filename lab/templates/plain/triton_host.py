"""Arguments, constexprs and grid of a Triton function as the host code of its file launches it.

Only the text is read. Shapes of tensors come from how the host takes them apart (`M, K = a.shape`) and makes them
(`torch.empty((M, N))`); numbers are expressions over the sizes that the host names so.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

DTYPES: Final[Mapping[str, str]] = {
    **{
        name: name for name in ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8")
    },
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "int": "int32",
    "long": "int64",
    "bool": "bool",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
}
_ATOM = re.compile(r"[\w.]+|\w+\([^()]*\)")
_LIKE = {"empty_like", "zeros_like", "ones_like", "rand_like", "randn_like", "full_like"}
_MAKERS = {"empty", "zeros", "ones", "full", "rand", "randn", "new_empty", "new_zeros"}
_SAME = {"contiguous", "to", "cuda", "detach", "clone", "float", "half", "view_as", "requires_grad_"}


@dataclass
class Tensor:
    """Host-side facts about one tensor.

    Attributes:
        shape: Its extents as expressions; None for those that the host does not name.
        dtype: Its element type as NumPy names it; empty where the host does not say.
        is_zero: The host clears it.
    """

    shape: list[str | None] = field(default_factory=list)
    dtype: str = ""
    is_zero: bool = False


@dataclass(frozen=True)
class HostCall:
    """One launch of a Triton function.

    Attributes:
        arguments: What is passed, by the function's names: an expression of Python.
        tensors: The tensors of the host's function, by its names.
        grid: Expressions of up to three dimensions; empty where they are not known.
        sizes: Names of the host that are sizes of tensors, in their order.
        line: Of the launch.
    """

    arguments: Mapping[str, ast.expr]
    tensors: Mapping[str, Tensor]
    grid: tuple[str, ...]
    sizes: tuple[str, ...]
    line: int
    _host: _Host

    def number(self, node: ast.expr) -> str | None:
        """Return a number of the host as an expression over its sizes; None where it is not known."""
        return self._host.text(node)


def read_host(tree: ast.Module, function: str, names: Sequence[str]) -> HostCall | None:
    """Return how a file's host code launches a function; None where it does not.

    Args:
        tree: The file.
        function: The function's name.
        names: Its arguments.
    """
    for scope in [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)] + [tree]:
        for node in ast.walk(scope):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Subscript):
                continue
            if ast.unparse(node.func.value).rpartition(".")[2] == function:
                host = _Host(scope)
                given = dict(zip(names, node.args, strict=False))
                given |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
                return HostCall(given, host.tensors, host.grid(node.func.slice), tuple(host.sizes), node.lineno, host)
    return None


class _Host:
    """Reads the statements of the host's function in their order."""

    def __init__(self, scope: ast.FunctionDef | ast.Module) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.sizes: list[str] = []
        self._values: dict[str, ast.expr] = {}
        self._grids: dict[str, ast.expr] = {}
        if isinstance(scope, ast.FunctionDef):
            arguments = [*scope.args.posonlyargs, *scope.args.args]
            for one, default in zip(reversed(arguments), reversed(scope.args.defaults), strict=False):
                self._values[one.arg] = default
            for argument in arguments:
                if argument.annotation is not None and "Tensor" in ast.unparse(argument.annotation):
                    self.tensors[argument.arg] = Tensor()
        for statement in ast.walk(scope):
            if isinstance(statement, ast.Assign):
                self._assign(statement)
            elif isinstance(statement, ast.FunctionDef) and statement is not scope:
                returned = [one.value for one in statement.body if isinstance(one, ast.Return) and one.value]
                self._grids |= {statement.name: returned[0]} if returned else {}

    def _assign(self, statement: ast.Assign) -> None:
        target, value = statement.targets[0], statement.value
        if isinstance(target, ast.Tuple):
            names = [one.id if isinstance(one, ast.Name) else None for one in target.elts]
            if (owner := _shape_owner(value)) is not None:
                self._unpacked(owner, names)
            elif isinstance(value, ast.Tuple) and len(value.elts) == len(names):
                for name, part in zip(names, value.elts, strict=True):
                    self._named(name, part)
        elif isinstance(target, ast.Name):
            self._named(target.id, value)

    def _unpacked(self, owner: str, names: Sequence[str | None]) -> None:
        extents = [None if name in (None, "_") else name for name in names]
        tensor = self.tensors.setdefault(owner, Tensor())
        if len(tensor.shape) != len(extents):
            tensor.shape[:] = [None] * len(extents)  # in place: others were made like it
        tensor.shape[:] = [new or old for new, old in zip(extents, tensor.shape, strict=True)]
        self.sizes += [extent for extent in extents if extent is not None and extent not in self.sizes]

    def _named(self, name: str | None, value: ast.expr) -> None:
        if name is None:
            return
        if isinstance(value, ast.Lambda):
            self._grids[name] = value.body
        elif isinstance(value, ast.Call) and (made := self._tensor(value)) is not None:
            self.tensors[name] = made
        elif (owner := _shape_owner(value)) is not None:
            self._values[name] = value
            self.tensors.setdefault(owner, Tensor())
        elif (found := _extent(value)) is not None:
            owner, axis = found
            tensor = self.tensors.setdefault(owner, Tensor())
            if axis >= 0:
                tensor.shape += [None] * (axis + 1 - len(tensor.shape))
            if tensor.shape and tensor.shape[axis] is None:
                tensor.shape[axis] = name
            self.sizes += [name] if name not in self.sizes else []
        elif _is_method(value, "numel"):
            assert isinstance(value, ast.Call)  # noqa: S101 - the line above says so
            assert isinstance(value.func, ast.Attribute)  # noqa: S101 - likewise
            tensor = self.tensors.setdefault(ast.unparse(value.func.value), Tensor())
            if tensor.shape and all(tensor.shape):
                self._values[name] = value
            else:
                tensor.shape[:] = [name]
                self.sizes += [name] if name not in self.sizes else []
        else:
            self._values[name] = value

    def _tensor(self, call: ast.Call) -> Tensor | None:
        """Return the tensor that a call makes; None where it makes none that is known."""
        last = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        words = {keyword.arg: keyword.value for keyword in call.keywords}
        dtype = DTYPES.get(ast.unparse(words["dtype"]).rpartition(".")[2], "") if "dtype" in words else ""
        if last in _LIKE and call.args:
            like = self.tensors.setdefault(ast.unparse(call.args[0]), Tensor())
            return Tensor(like.shape, dtype or like.dtype, last == "zeros_like")
        if last in _MAKERS:
            sides: Sequence[ast.expr] = call.args
            if len(sides) and isinstance(sides[0], ast.Tuple | ast.List):
                sides = sides[0].elts
            elif len(sides) == 1 and (owner := _shape_owner(sides[0])) is not None:
                return Tensor(self.tensors.setdefault(owner, Tensor()).shape, dtype, last.endswith("zeros"))
            elif last == "full":
                sides = sides[:1]
            return Tensor([self.text(side) for side in sides], dtype, last.endswith("zeros"))
        if last in _SAME and isinstance(call.func, ast.Attribute):
            return self.tensors.get(ast.unparse(call.func.value))
        return None

    def grid(self, node: ast.expr) -> tuple[str, ...]:
        """Return the dimensions of a grid; empty where one is not known."""
        if isinstance(node, ast.Name) and node.id in self._grids:
            node = self._grids[node.id]
        elif isinstance(node, ast.Name) and node.id in self._values:
            node = self._values[node.id]
        elif isinstance(node, ast.Lambda):
            node = node.body
        sides = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
        texts = [self.text(side) for side in sides]
        while len(texts) > 1 and texts[-1] == "1":
            texts.pop()
        return () if None in texts else tuple(text for text in texts if text is not None)

    def text(self, node: ast.expr, depth: int = 0) -> str | None:  # noqa: PLR0911 - a case a kind
        """Return an expression as experiment files have it; None where a part is not known."""
        if depth > 20:  # noqa: PLR2004 - a name that stands for itself
            return None
        match node:
            case ast.Constant(value=bool() | int() | float() | str() as value):
                return str(value).lower() if isinstance(value, bool) else str(value)
            case ast.Name(id=name):
                if name in self.sizes:
                    return name
                return self.text(self._values[name], depth + 1) if name in self._values else None
            case ast.UnaryOp(op=ast.USub()):
                inner = self.text(node.operand, depth + 1)
                return None if inner is None else f"-{inner}"
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod()):
                left, right = self.text(node.left, depth + 1), self.text(node.right, depth + 1)
                sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%"}[type(node.op)]
                sides = [
                    f"({one})" if one and sign != "+" and not _ATOM.fullmatch(one) else one for one in (left, right)
                ]
                return None if None in sides else f"{sides[0]} {sign} {sides[1]}"
            case ast.Subscript(value=ast.Name(), slice=ast.Constant(value=str() as name)):
                return name  # META["BLOCK"]
            case ast.Compare(ops=[ast.IsNot()]):
                return "true"
            case ast.Compare(ops=[ast.Is()]):
                return "false"
            case ast.Call():
                return self._call(node, depth)
        found = _extent(node)
        return None if found is None else self._side(*found)

    def _side(self, owner: str, axis: int) -> str | None:
        shape = self.tensors.get(owner, Tensor()).shape
        if not -len(shape) <= axis < len(shape):
            return None
        return shape[axis]

    def _call(self, node: ast.Call, depth: int) -> str | None:
        last = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        arguments = [self.text(one, depth + 1) for one in node.args]
        if last in ("cdiv", "ceil_div", "min", "max", "next_power_of_2") and arguments and None not in arguments:
            return f"{'ceil_div' if last == 'cdiv' else last}({', '.join(argument or '' for argument in arguments)})"
        if not isinstance(node.func, ast.Attribute):
            return None
        owner = self.tensors.get(ast.unparse(node.func.value), Tensor())
        axis = node.args[0] if node.args else None
        if last == "stride" and axis is not None:
            try:
                place = ast.literal_eval(axis)
            except ValueError:
                return None
            inner = owner.shape[len(owner.shape) + place if place < 0 else place :][1:]
            return None if None in inner or not owner.shape else " * ".join(one or "" for one in inner) or "1"
        if last == "numel":
            return None if None in owner.shape or not owner.shape else " * ".join(one or "" for one in owner.shape)
        found = _extent(node)
        return None if found is None else self._side(*found)


def _shape_owner(node: ast.expr) -> str | None:
    """Return the tensor whose whole shape an expression is: `x.shape`, `x.size()`."""
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        return ast.unparse(node.value)
    if _is_method(node, "size") and isinstance(node, ast.Call) and not node.args:
        assert isinstance(node.func, ast.Attribute)  # noqa: S101 - a method is one
        return ast.unparse(node.func.value)
    return None


def _extent(node: ast.expr) -> tuple[str, int] | None:
    """Return tensor and axis of `x.shape[0]` and `x.size(0)`."""
    try:
        if isinstance(node, ast.Subscript) and (owner := _shape_owner(node.value)) is not None:
            return owner, int(ast.literal_eval(node.slice))
        if _is_method(node, "size") and isinstance(node, ast.Call) and node.args:
            assert isinstance(node.func, ast.Attribute)  # noqa: S101 - a method is one
            return ast.unparse(node.func.value), int(ast.literal_eval(node.args[0]))
    except (ValueError, TypeError):
        pass
    return None


def _is_method(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name
