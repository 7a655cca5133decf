"""A Triton function without a front matter: the experiment declares it, and its parameters are constexprs.

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
"""Options of Triton's compiler, which its users call configs, with Triton's own defaults for NVIDIA GPUs."""


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
        """Names of the arguments that a launch passes."""
        return tuple(one.name for one in self.arguments if not one.is_constexpr)

    @property
    def constexprs(self) -> Mapping[str, TritonArgument]:
        """Arguments that the compiler knows, by name."""
        return {one.name: one for one in self.arguments if one.is_constexpr}


def read_functions(text: str, file: str) -> tuple[TritonFunction, ...]:
    """Return the Triton functions of a Python file; the file is not run.

    Raises:
        UserError: It is not Python.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise UserError(f"the source is not Python: {error.msg}", at=Location(file, error.lineno)) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"the source is not Python: {error}", at=Location(file)) from None
    return tuple(_function(one) for one in _definitions(tree.body) if any(map(_is_jit, one.decorator_list)))


def _definitions(body: Sequence[ast.stmt]) -> Iterator[ast.FunctionDef]:
    """Yield the functions of a module, of its conditions and `try` statements, too."""
    for one in body:
        if isinstance(one, ast.FunctionDef):
            yield one
        elif isinstance(one, ast.If | ast.Try | ast.With):
            yield from _definitions(one.body)
            yield from _definitions(getattr(one, "orelse", []))


def _is_jit(decorator: ast.expr) -> bool:
    """Whether it is `@triton.jit`, `@jit`, or one of these with options."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) == "jit"


def _function(node: ast.FunctionDef) -> TritonFunction:
    listed = [*node.args.posonlyargs, *node.args.args]
    missing = [None] * (len(listed) - len(node.args.defaults))
    listed += node.args.kwonlyargs
    defaults = [*missing, *node.args.defaults, *node.args.kw_defaults]
    arguments = (_argument(one, default) for one, default in zip(listed, defaults, strict=True))
    called = {one.id for part in node.body for one in ast.walk(part) if isinstance(one, ast.Name)}
    return TritonFunction(node.name, tuple(arguments), node.lineno, frozenset(called))


def _argument(node: ast.arg, default: ast.expr | None) -> TritonArgument:
    is_constexpr = node.annotation is not None and "constexpr" in ast.unparse(node.annotation)
    is_none = isinstance(default, ast.Constant) and default.value is None
    return TritonArgument(node.arg, is_constexpr, default is not None, _literal(default), is_none)


def _literal(node: ast.expr | None) -> Scalar | None:
    try:
        found = None if node is None else ast.literal_eval(node)
    except ValueError:
        return None
    return found if isinstance(found, bool | int | float | str) else None


@dataclass(frozen=True)
class TritonTemplate(PlainTemplate):
    """A Python file with a Triton function, as its user wrote it. Its name is that of the file.

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
        """None: a Python file has no kernel in CUDA."""
        return ()

    def rendered(self, parameters: Mapping[str, Scalar]) -> str:
        """Return the file; parameters reach it as constexprs."""
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
        """Return what to compile.

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
        found = triton_type(kind.removesuffix("*"), is_array=kind.endswith("*"))
        if found is None:
            key, at = f"arguments.{name}", self.document.at("arguments", name)
            raise UserError("Triton has no such type", at=at, key=key, found=kind, accepted=list(TYPES))
        return name, found
