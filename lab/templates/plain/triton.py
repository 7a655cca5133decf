"""Triton functions without front matter: the experiment declares them, and parameters are constexprs.

The Python file is read here, and never run: the toolchain `triton` runs it in a process of its own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final

from lab.base.errors import Location, UserError
from lab.base.expressions import Scalar
from lab.isa.cuda.kernels import SourceKernel
from lab.templates.plain.template import PlainTemplate
from lab.toolchain.base import CompileRequest
from lab.toolchain.triton.imports import GatheredModules, gather_modules
from lab.toolchain.triton.source import TYPES, TritonSource, triton_type

OPTIONS: Final[Mapping[str, int]] = MappingProxyType({"num_warps": 4, "num_stages": 3, "num_ctas": 1})
"""Options of Triton's compiler (configs), with Triton's defaults for NVIDIA GPUs."""


@dataclass(frozen=True, slots=True)
class TritonArgument:
    """One argument of a Triton function.

    Attributes:
        name: Its name.
        is_constexpr: It is a `tl.constexpr`.
        has_default: The function gives it a default.
        default: The default, where it is a literal other than None; else None.
        is_none: The default is None.
    """

    name: str
    is_constexpr: bool
    has_default: bool = False
    default: Scalar | None = None
    is_none: bool = False


@dataclass(frozen=True, slots=True)
class TritonFunction:
    """A function under `@triton.jit`.

    Attributes:
        name: Its name.
        arguments: What it takes, in order.
        line: Of its `def`, from 1.
        called: Names of what its body calls, or passes on.
    """

    name: str
    arguments: tuple[TritonArgument, ...]
    line: int
    called: frozenset[str] = frozenset()

    @property
    def passed(self) -> tuple[str, ...]:
        """Names of the arguments passed by a launch."""
        return tuple(argument.name for argument in self.arguments if not argument.is_constexpr)

    @property
    def constexprs(self) -> Mapping[str, TritonArgument]:
        """Compile-time arguments, by name."""
        return {argument.name: argument for argument in self.arguments if argument.is_constexpr}


def read_functions(text: str, file: str) -> tuple[TritonFunction, ...]:
    """Return the Triton functions of a Python file without running it.

    Raises:
        UserError: It is not Python.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise UserError(
            f"the source is not Python: {error.msg}", code="syntax", at=Location(file, error.lineno)
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"the source is not Python: {error}", code="syntax", at=Location(file)) from None
    return tuple(
        _function(definition) for definition in _definitions(tree.body) if any(map(_is_jit, definition.decorator_list))
    )


def _definitions(body: Sequence[ast.stmt]) -> Iterator[ast.FunctionDef]:
    """Yield the functions of a module, including those in conditions and `try` statements."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef):
            yield statement
        elif isinstance(statement, ast.If | ast.Try | ast.With):
            yield from _definitions(statement.body)
            yield from _definitions(getattr(statement, "orelse", []))


def _is_jit(decorator: ast.expr) -> bool:
    """Return whether a decorator is `@triton.jit` or `@jit`, with or without options."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) == "jit"


def _function(node: ast.FunctionDef) -> TritonFunction:
    listed = [*node.args.posonlyargs, *node.args.args]
    missing = [None] * (len(listed) - len(node.args.defaults))
    listed += node.args.kwonlyargs
    defaults = [*missing, *node.args.defaults, *node.args.kw_defaults]
    arguments = (_argument(argument, default) for argument, default in zip(listed, defaults, strict=True))
    called = {one.id for part in node.body for one in ast.walk(part) if isinstance(one, ast.Name)}
    return TritonFunction(node.name, tuple(arguments), node.lineno, frozenset(called))


def _argument(node: ast.arg, default: ast.expr | None) -> TritonArgument:
    is_constexpr = node.annotation is not None and "constexpr" in ast.unparse(node.annotation)
    is_none = isinstance(default, ast.Constant) and default.value is None
    return TritonArgument(node.arg, is_constexpr, default is not None, _literal(default), is_none)


def _literal(node: ast.expr | None) -> Scalar | None:
    try:
        value = None if node is None else ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, bool | int | float | str) else None


@dataclass(frozen=True)
class TritonTemplate(PlainTemplate):
    """A user's Python file with a Triton function. Its name is the file's.

    Attributes:
        function: The function's name.
        constants: Names of the parameters that are constexprs.
        unset: Constexprs that are None, as the function's defaults say, and arguments for which a launch passes None.
        tuples: Arguments that are tuples, with the names of their members.
    """

    function: str = ""
    constants: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()
    tuples: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def kernels(self) -> tuple[SourceKernel, ...]:
        """Empty: a Python file has no CUDA kernels."""
        return ()

    def rendered(self, parameters: Mapping[str, Scalar]) -> str:
        """Return the file unchanged; parameters are passed as constexprs."""
        del parameters
        return self.text

    def request(
        self,
        arch: str,
        parameters: Mapping[str, Scalar],
        arguments: Iterable[tuple[str, str]],
        divisible: Sequence[str],
        ones: Sequence[str] = (),
    ) -> CompileRequest:
        """Return the compile request.

        Args:
            arch: The architecture.
            parameters: The variant's, the options of Triton's compiler among them.
            arguments: Name and type of every argument that a launch passes, in order.
            divisible: Those that are multiples of 16 in every launch.
            ones: Integers that are 1 in every launch.

        Raises:
            UserError: Triton has no such type.
        """
        options = {name: int(parameters.get(name, value)) for name, value in OPTIONS.items()}
        constants: list[tuple[str, Scalar | None]] = [(name, parameters[name]) for name in self.constants]
        constants += [(name, None) for name in self.unset]
        return TritonSource(
            text=self.text,
            file=self.name,
            function=self.function,
            signature=tuple(self._typed(name, kind) for name, kind in arguments),
            constants=tuple(constants),
            divisible=tuple(divisible),
            ones=tuple(ones),
            tuples=self.tuples,
            path=self._modules.path,
            included=tuple(self._modules.texts.items()),
            **options,
        ).request(arch)

    @cached_property
    def _modules(self) -> GatheredModules:
        return gather_modules(self.text, self.file, self.roots)

    def _typed(self, name: str, kind: str) -> tuple[str, str]:
        triton_kind = triton_type(kind.removesuffix("*"), is_array=kind.endswith("*"))
        if triton_kind is None:
            key, at = f"arguments.{name}", self.document.at("arguments", name)
            raise UserError(
                "Triton has no such type", code="unknown-name", at=at, key=key, found=kind, accepted=list(TYPES)
            )
        return name, triton_kind
