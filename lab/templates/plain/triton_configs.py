"""Values that decorators of a Triton function give its constexprs, computed from the file's text without running it.

Configs of `@triton.autotune` are mostly a literal list, a comprehension, or a small function. A bounded interpreter of
that much Python evaluates these; what needs more, such as a list that depends on the device, is not known.
"""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_MOST_STEPS: Final = 100_000
_MOST_DEPTH: Final = 30
_BINARY: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.RShift: operator.rshift,
}
_COMPARED: Final[Mapping[type, Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_KNOWN: Final[Mapping[str, Any]] = {
    "torch.version.hip": None,
    "torch.version.xpu": None,
    "os.environ": {},
    "triton.runtime.driver.active.get_current_target().backend": "cuda",
}
_ASKED: Final = {
    "is_cuda": True,
    "is_nvidia": True,
    "is_hip": False,
    "is_amd": False,
    "is_rocm": False,
    "is_xpu": False,
}


class UnknownValueError(Exception):
    """A value that the text alone does not give."""


@dataclass(frozen=True)
class Config:
    """One `triton.Config`.

    Attributes:
        kwargs: Values of constexprs.
        num_warps: Warps of a block.
        num_stages: Stages of software pipelines.
        num_ctas: Blocks of a cluster.
    """

    kwargs: Mapping[str, Any]
    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1

    @property
    def values(self) -> dict[str, Any]:
        """Constexprs and options as the `configs` of an experiment name them."""
        options = {"num_warps": self.num_warps, "num_stages": self.num_stages, "num_ctas": self.num_ctas}
        return {**self.kwargs, **{name: value for name, value in options.items() if value != _DEFAULTS[name]}}


_DEFAULTS: Final = {"num_warps": 4, "num_stages": 3, "num_ctas": 1}


@dataclass(frozen=True)
class Decorations:
    """Constexpr values from a function's decorators.

    Attributes:
        configs: Of `autotune`; empty where there is none or its configs are not known.
        configs_line: The line of `autotune`; 0 without one.
        heuristics: What computes a constexpr from the arguments, by its name: a lambda or the name of a function.
    """

    configs: tuple[Config, ...] = ()
    configs_line: int = 0
    heuristics: Mapping[str, ast.expr] = field(default_factory=dict)


def decorations(tree: ast.Module, function: ast.FunctionDef) -> Decorations:
    """Return what the decorators of a function of a file say, as far as the text does."""
    evaluation, configs, line = Evaluation(tree), list[Config](), 0
    heuristics = dict[str, ast.expr]()
    for one in function.decorator_list:
        if not isinstance(one, ast.Call):
            continue
        name = one.func.attr if isinstance(one.func, ast.Attribute) else getattr(one.func, "id", "")
        values = next((word.value for word in one.keywords if word.arg in ("configs", "values")), None)
        given = one.args[0] if one.args else values
        if name in ("autotune", "libtuner") and given is not None:
            line = one.lineno
            try:
                configs = [value for value in evaluation.value(given) if isinstance(value, Config)]
            except UnknownValueError:
                configs = []
        elif name == "heuristics" and isinstance(given, ast.Dict):
            keys = (getattr(key, "value", None) for key in given.keys)
            heuristics |= {str(key): value for key, value in zip(keys, given.values, strict=True) if key is not None}
    return Decorations(tuple(configs), line, heuristics)


class Evaluation:
    """Evaluates expressions of a module's text, within bounds."""

    def __init__(self, tree: ast.Module) -> None:
        """Read the names that the module defines."""
        self._steps = 0
        self._depth = 0
        self._names: dict[str, ast.expr] = {}
        self._functions: dict[str, ast.FunctionDef] = {}
        for one in tree.body:
            if isinstance(one, ast.FunctionDef):
                self._functions[one.name] = one
            elif isinstance(one, ast.Assign) and len(one.targets) == 1 and isinstance(one.targets[0], ast.Name):
                self._names[one.targets[0].id] = one.value
            elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and one.value is not None:
                self._names[one.target.id] = one.value

    def value(self, node: ast.expr, local: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401 - any value
        """Return the value of an expression.

        Raises:
            UnknownValueError: The text does not give it, or it takes too long.
        """
        self._depth += 1
        try:
            return self._of(node, dict(local or {}))
        except UnknownValueError:
            raise
        except Exception as error:  # noqa: BLE001 - the user's arithmetic may fail in any way
            raise UnknownValueError(str(error)) from None
        finally:
            self._depth -= 1

    def called(self, function: ast.expr, *arguments: Any) -> Any:  # noqa: ANN401 - any values
        """Return what a lambda, or a function of the module, gives for arguments.

        Raises:
            UnknownValueError: The text does not give it.
        """
        if isinstance(function, ast.Lambda):
            return self.value(
                function.body, dict(zip([one.arg for one in function.args.args], arguments, strict=False))
            )
        if isinstance(function, ast.Name) and function.id in self._functions:
            return self._run(self._functions[function.id], dict(enumerate(arguments)), {})
        raise UnknownValueError(ast.unparse(function))

    def _step(self, node: ast.AST) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS or self._depth > _MOST_DEPTH:
            raise UnknownValueError(f"{type(node).__name__}: too many steps")

    def _of(self, node: ast.expr, local: dict[str, Any]) -> Any:  # noqa: ANN401, C901, PLR0911, PLR0912 - a case a kind
        self._step(node)
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                if node.id in local:
                    return local[node.id]
                if node.id in self._names:
                    return self.value(self._names[node.id])
                raise UnknownValueError(node.id)
            case ast.List() | ast.Tuple() | ast.Set():
                items = self._items(node.elts, local)
                return tuple(items) if isinstance(node, ast.Tuple) else items
            case ast.Dict():
                pairs = [(key, self.value(value, local)) for key, value in zip(node.keys, node.values, strict=True)]
                made = dict[Any, Any]()
                for key, value in pairs:
                    made |= value if key is None else {self.value(key, local): value}
                return made
            case ast.BinOp() if type(node.op) in _BINARY:
                left, right = self.value(node.left, local), self.value(node.right, local)
                if isinstance(node.op, ast.Mult) and not all(isinstance(one, int | float) for one in (left, right)):
                    raise UnknownValueError("a repeated list")
                return _BINARY[type(node.op)](left, right)
            case ast.BinOp(op=ast.Pow() | ast.LShift()):
                left, right = self.value(node.left, local), self.value(node.right, local)
                if not 0 <= right <= 64 or abs(left) > 1 << 32:  # noqa: PLR2004 - sizes of blocks
                    raise UnknownValueError("too large a number")
                return left**right if isinstance(node.op, ast.Pow) else left << right
            case ast.UnaryOp():
                value = self.value(node.operand, local)
                return not value if isinstance(node.op, ast.Not) else -value
            case ast.BoolOp():
                values = (self.value(value, local) for value in node.values)
                return all(values) if isinstance(node.op, ast.And) else any(values)
            case ast.Compare():
                sides = [self.value(one, local) for one in (node.left, *node.comparators)]
                return all(
                    _COMPARED[type(op)](*pair) for op, pair in zip(node.ops, itertools.pairwise(sides), strict=True)
                )
            case ast.IfExp():
                return self.value(node.body if self.value(node.test, local) else node.orelse, local)
            case ast.ListComp() | ast.GeneratorExp():
                return list(self._comprehension(node.elt, node.generators, local))
            case ast.Subscript():
                return self.value(node.value, local)[self.value(node.slice, local)]
            case ast.Attribute():
                return self._member(node, local)
            case ast.Call():
                return self._call(node, local)
        raise UnknownValueError(type(node).__name__)

    def _items(self, nodes: Iterable[ast.expr], local: dict[str, Any]) -> list[Any]:
        items = list[Any]()
        for node in nodes:
            value = self.value(node.value if isinstance(node, ast.Starred) else node, local)
            items += value if isinstance(node, ast.Starred) else [value]
        return items

    def _comprehension(
        self, element: ast.expr, generators: list[ast.comprehension], local: dict[str, Any]
    ) -> Iterable[Any]:
        if not generators:
            yield self.value(element, local)
            return
        first, *others = generators
        for value in self.value(first.iter, local):
            self._step(element)
            inner = dict(local)
            _bind(first.target, value, inner)
            if all(self.value(test, inner) for test in first.ifs):
                yield from self._comprehension(element, others, inner)

    def _member(self, node: ast.Attribute, local: dict[str, Any]) -> Any:  # noqa: ANN401 - any value
        text = ast.unparse(node)
        if text in _KNOWN:
            return _KNOWN[text]
        owner = self.value(node.value, local)
        if isinstance(owner, Config) and node.attr in ("kwargs", "num_warps", "num_stages", "num_ctas"):
            return getattr(owner, node.attr)
        raise UnknownValueError(text)

    def _call(self, node: ast.Call, local: dict[str, Any]) -> Any:  # noqa: ANN401 - any value
        text = ast.unparse(node.func)
        last = text.rpartition(".")[2]
        if isinstance(node.func, ast.Name) and text in self._functions and last not in _ASKED:
            given = dict(enumerate(self._items(node.args, local)))
            return self._run(self._functions[text], given, self._keywords(node, local))
        if last in ("filter", "map") and len(node.args) == len("fx"):
            values = [(one, self.called(node.args[0], one)) for one in self.value(node.args[1], local)]
            return [one if last == "filter" else made for one, made in values if last == "map" or made]
        if last in _ASKED:
            return _ASKED[last]
        if last == "get" and isinstance(node.func, ast.Attribute):
            return self.value(node.func.value, local).get(*self._items(node.args, local))
        function = _FUNCTIONS.get(last)
        if function is None:
            raise UnknownValueError(text)
        return function(*self._items(node.args, local), **self._keywords(node, local))

    def _keywords(self, node: ast.Call, local: dict[str, Any]) -> dict[str, Any]:
        made = dict[str, Any]()
        for keyword in node.keywords:
            if keyword.arg == "pre_hook":
                continue
            value = self.value(keyword.value, local)
            made |= value if keyword.arg is None else {keyword.arg: value}
        return made

    def _run(self, function: ast.FunctionDef, given: Mapping[int, Any], named: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """Return what a function of the module returns."""
        names = [one.arg for one in function.args.args]
        local = {names[len(names) - len(function.args.defaults) + at]: self.value(one)
                 for at, one in enumerate(function.args.defaults)}  # fmt: skip
        local |= {names[at]: value for at, value in given.items() if at < len(names)} | dict(named)
        self._depth += 1
        try:
            self._statements(function.body, local)
        except _Returned as returned:
            return returned.value
        finally:
            self._depth -= 1
        return None

    def _statements(self, body: Iterable[ast.stmt], local: dict[str, Any]) -> None:
        for one in body:
            self._step(one)
            match one:
                case ast.Return():
                    raise _Returned(self.value(one.value, local) if one.value else None)
                case ast.Assign():
                    self._assign(one, local)
                case ast.AugAssign(target=ast.Name(id=name)) if type(one.op) in _BINARY:
                    local[name] = _BINARY[type(one.op)](local[name], self.value(one.value, local))
                case ast.For():
                    for value in self.value(one.iter, local):
                        self._step(one)
                        _bind(one.target, value, local)
                        self._statements(one.body, local)
                case ast.While():
                    while self.value(one.test, local):
                        self._step(one)
                        self._statements(one.body, local)
                case ast.If():
                    self._statements(one.body if self.value(one.test, local) else one.orelse, local)
                case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append" | "extend"))):
                    assert isinstance(one.value, ast.Call)  # noqa: S101 - the pattern says so
                    assert isinstance(one.value.func, ast.Attribute)  # noqa: S101 - likewise
                    value = self.value(one.value.args[0], local)
                    self.value(one.value.func.value, local).__iadd__(
                        value if one.value.func.attr == "extend" else [value]
                    )
                case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Import() | ast.ImportFrom():
                    pass
                case _:
                    raise UnknownValueError(type(one).__name__)

    def _assign(self, statement: ast.Assign, local: dict[str, Any]) -> None:
        """Bind names; those of a value that is not known are not, which matters only where they are used."""
        try:
            value = self.value(statement.value, local)
        except UnknownValueError:
            for target in statement.targets:
                for name in ast.walk(target):
                    local.pop(getattr(name, "id", ""), None)
            return
        for target in statement.targets:
            _bind(target, value, local)


class _Returned(Exception):  # noqa: N818 - no error
    """Ends a function."""

    def __init__(self, value: Any) -> None:  # noqa: ANN401 - any value
        self.value = value
        super().__init__()


def _bind(target: ast.expr, value: Any, local: dict[str, Any]) -> None:  # noqa: ANN401 - any value
    if isinstance(target, ast.Name):
        local[target.id] = value
    elif isinstance(target, ast.Tuple | ast.List):
        for one, part in zip(target.elts, value, strict=True):
            _bind(one, part, local)
    else:
        raise UnknownValueError(ast.unparse(target))


def _config(
    kwargs: Mapping[str, Any], num_warps: int = 4, num_stages: int = 3, num_ctas: int = 1, **_: object
) -> Config:
    return Config(kwargs, num_warps, num_stages, num_ctas)


def _bounded_range(*bounds: int) -> range:
    made = range(*bounds)
    if len(made) > _MOST_STEPS:
        raise UnknownValueError("a long range")
    return made


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "Config": _config,
    "range": _bounded_range,
    "len": len,
    "min": min,
    "max": max,
    "int": int,
    "bool": bool,
    "list": list,
    "tuple": tuple,
    "dict": dict,
    "sorted": sorted,
    "reversed": lambda one: list(reversed(one)),
    "product": lambda *lists, repeat=1: list(itertools.islice(itertools.product(*lists, repeat=repeat), _MOST_STEPS)),
    "next_power_of_2": lambda n: 1 << max(0, n - 1).bit_length(),
    "cdiv": lambda a, b: -(-a // b),
    "constexpr": lambda value: value,
}
