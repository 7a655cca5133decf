"""The rules that resolve declared launches, shared by templates and libraries.

A front matter or a library declares launches and scratch buffers with expressions for their sizes. The rules:

- Launches run in order on one stream. A launch is left out unless all of its conditions hold. Of several entry points
  the first whose `when` holds is launched.
- Sizes that a grid or a block does not have are 1.
- A buffer of no elements does not exist, and arguments that name it are left out. Only what the compiled kernel knows
  too may decide that, never a size of the problem.
- A workspace buffer holds NaN bytes (0xFF) when the variant's data is uploaded, and afterwards whatever the last launch
  left there; one declared with `zero` is set to zero bytes before every sequence, and that memset is timed.
- A grid may name `resident_blocks`, the blocks of its kernel that the GPU holds at once. Where its value depends on
  that, the grid is made once the kernel is built.
- A name among the arguments may be an expression in braces: each word of its value names one argument.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from lab.base.elements import element_named
from lab.base.errors import Code, Location, UserError
from lab.base.expressions import Scalar, evaluate, names_in
from lab.base.structures import is_structure, members_of, structure_of
from lab.base.yamlfile import Key, dotted
from lab.hardware.occupancy import LARGEST_CARVEOUT
from lab.templates.front_matter import FrontMatter
from lab.templates.launches import RESIDENT_BLOCKS, Launch, Launches, Workspace

_MOST_GRID = (2**31 - 1, 65535, 65535)
_MOST_BLOCK = (1024, 1024, 64)
_MOST_THREADS = 1024
"""CUDA C++ Programming Guide, technical specifications per compute capability; the same from 5.0 on."""

BRACES = re.compile(r"\{([^{}]*)\}")
"""A brace expression in a kernel's name: `add<float, {block_size}>`."""

_MOST_IN_A_CLUSTER = 16
"""Limit of blocks per cluster; more than 8 not on every GPU (CUDA C++ Programming Guide)."""
_MOST_SHARED = 2**31 - 1
"""Upper bound in bytes; the GPU's limit is checked once the GPU is known."""

CARVEOUTS: Mapping[str, int | None] = MappingProxyType({"default": None, "l1": 0, "shared": LARGEST_CARVEOUT})
"""Carve-out words, in percent of the largest shared memory of an SM; None leaves it to the driver.

The words are those of CUDA's `cudaSharedCarveout`: `cudaSharedmemCarveoutDefault`, `MaxL1` and `MaxShared`.
"""

_DRIVER_DECIDES = -1
"""The value of `cudaSharedmemCarveoutDefault`, for use in a list of percentages."""

_MOST_WORKSPACE = 2**40
"""Limit of elements in a workspace buffer. More is a mistake in an expression."""

Expression = str | int
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class LaunchCondition:
    """A condition for a launch to take place.

    Attributes:
        expression: An expression over the names of the problem and the parameters.
        path: Where it stands in the declaration.
        holds: Whether it must be true; else it must be false.
    """

    expression: str
    path: Key
    holds: bool = True


@dataclass(frozen=True, slots=True)
class DeclaredLaunch:
    """One launch with expressions for its numbers.

    Attributes:
        entry: Symbol of the entry point.
        grid: Blocks in x, then y and z where there are such.
        block: Threads, likewise.
        shared_bytes: Dynamic shared memory of a block.
        arguments: Name and type of each argument, `T` standing for the problem's element type.
        path: Where it stands in the declaration.
        conditions: All of them must hold.
        bytes_moved: Least bytes through DRAM; None where nothing is declared.
        main: Of a sequence, the launch that does all of the problem's operations.
        carveout: Preferred shared memory of an SM: a word of `CARVEOUTS`, or a percentage of the largest.
        cluster: Blocks of a cluster in x, then y and z; none where the launch asks for no clusters.
    """

    entry: str
    grid: Sequence[Expression]
    block: Sequence[Expression]
    shared_bytes: Expression
    arguments: Iterable[tuple[str, str]]
    path: Key
    conditions: tuple[LaunchCondition, ...] = ()
    bytes_moved: Expression | None = None
    main: bool = False
    carveout: Expression = "default"
    cluster: Sequence[Expression] = ()


@dataclass(frozen=True, slots=True)
class DeclaredBuffer:
    """A scratch buffer with an expression for its size.

    Attributes:
        name: What arguments call it.
        dtype: Element type; `T` is the problem's.
        elements: How many.
        zero: Set to zero before every sequence.
    """

    name: str
    dtype: str
    elements: Expression
    zero: bool = False


def declared(declares: FrontMatter) -> tuple[DeclaredLaunch, ...]:
    """List the launches of a front matter. In the short form, only one of them takes place."""
    if declares.launches is not None:
        return tuple(
            DeclaredLaunch(
                launch.entry,
                launch.grid,
                launch.block,
                launch.shared_bytes,
                launch.arguments.items(),
                ("launches", i),
                () if launch.when is None else (LaunchCondition(launch.when, ("launches", i, "when")),),
                launch.bytes_moved,
                launch.main,
                launch.carveout,
                launch.cluster,
            )
            for i, launch in enumerate(declares.launches)
        )
    entries = [(entry.name, entry.when) for entry in declares.entries or ()] or [(declares.entry or "", None)]
    earlier: tuple[LaunchCondition, ...] = ()
    result: list[DeclaredLaunch] = []
    for i, (entry, condition) in enumerate(entries):
        own = LaunchCondition("true" if condition is None else condition, ("entries", i, "when"))
        result.append(
            DeclaredLaunch(
                entry,
                declares.grid or (),
                declares.block or (),
                declares.shared_bytes,
                (declares.arguments or {}).items(),
                (),
                (*earlier, own),
                carveout=declares.carveout,
                cluster=declares.cluster,
            )
        )
        earlier = (*earlier, replace(own, holds=False))
    return tuple(result)


def buffers(declares: FrontMatter) -> tuple[DeclaredBuffer, ...]:
    """List the workspace of a front matter."""
    return tuple(
        DeclaredBuffer(name, buffer.type, buffer.elements, buffer.zero) for name, buffer in declares.workspace.items()
    )


def xyz(sizes: Sequence[Value], unit: Value) -> tuple[Value, Value, Value]:
    """Return sizes in x, y and z, padded with 1."""
    x, y, z = [*sizes, unit, unit][:3]
    return x, y, z


class _HasArguments(Protocol):
    @property
    def arguments(self) -> tuple[tuple[str, str], ...]: ...


AnyLaunch = TypeVar("AnyLaunch", bound=_HasArguments)


def without(launches: Iterable[AnyLaunch], absent: frozenset[str]) -> tuple[AnyLaunch, ...]:
    """Remove the arguments that name absent buffers."""
    return tuple(_without(launch, absent) for launch in launches)


def _without(launch: Any, absent: frozenset[str]) -> Any:  # noqa: ANN401 - any dataclass with arguments
    return replace(launch, arguments=tuple(pair for pair in launch.arguments if pair[0] not in absent))


@dataclass(frozen=True)
class Scope:
    """The names available to the expressions of one declaration.

    Attributes:
        names: Everything that they may refer to.
        sizes: Those of the names that the compiled kernel does not know.
        at: Where a path of the declaration stands, for errors.
        dtype: The problem's element type, which `T` stands for; empty where it has none.
    """

    names: Mapping[str, object]
    sizes: frozenset[str]
    at: Callable[[Key], Location]
    dtype: str = ""

    def evaluate(self, expression: str | float, path: Key) -> Scalar:
        """Return the value of an expression.

        Raises:
            UserError: It fails; see `lab.base.expressions.evaluate`.
        """
        if not isinstance(expression, str):
            return expression
        return evaluate(expression, self.names, at=self.at(path), key=dotted(path))

    def size(self, expression: Expression, path: Key, *, most: int) -> int:
        """Return the value of an expression, checked to be an integer from 0 to `most`.

        Raises:
            UserError: It fails, or is another value.
        """
        value = self.evaluate(expression, path)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise self.error("not a size", path, code="syntax", found=value, accepted=f"an integer from 0 to {most}")
        return value

    def integer(self, expression: Expression, path: Key) -> int:
        """Return the value of an expression, checked to be an integer.

        Raises:
            UserError: It fails, or is another value.
        """
        value = self.evaluate(expression, path)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error("not an integer", path, found=value, accepted="an integer")
        return value

    def words(self, name: str, path: Key) -> list[str]:
        """Return a name, or the words of an expression in braces."""
        inner = name[1:-1] if name.startswith("{") and name.endswith("}") else ""
        return str(self.evaluate(inner, path)).split() if inner else [name]

    def filled(self, text: str, path: Key) -> str:
        """Return a text with its expressions in braces replaced by their values, in C++ spelling."""

        def value(match: re.Match[str]) -> str:
            content = self.evaluate(match[1], path)
            return str(content).lower() if isinstance(content, bool) else str(content)

        return BRACES.sub(value, text)

    def typed(self, kind: str) -> str:
        """Return a type with `T` replaced by the problem's type and braces by their value."""
        if is_structure(kind):
            return structure_of((name, self.typed(member)) for name, member in members_of(kind))
        if not BRACES.match(kind):
            return kind.replace("T", self.dtype)
        word, star, _ = self.filled(kind, ("arguments",)).partition("*")
        return f"{element_named(word) or word}{star}"

    def error(
        self,
        message: str,
        path: Key,
        *,
        code: Code = "wrong-value",
        found: object = None,
        accepted: str = "",
        suggestion: str | None = None,
    ) -> UserError:
        """Return an error located at a path of the declaration."""
        at, key = self.at(path), dotted(path)
        return UserError(
            message, code=code, at=at, key=key, found=found, accepted=accepted or None, suggestion=suggestion
        )


def resolved(launches: Sequence[DeclaredLaunch], workspace: Iterable[DeclaredBuffer], scope: Scope) -> Launches:
    """Resolve launches and workspace for one problem; tensor maps are left to the caller.

    Raises:
        UserError: An expression fails, its result is not a legal launch, or no launch is left.
    """
    steps = tuple(_launch(launch, scope) for launch in launches if _takes_place(launch, scope))
    if not steps:
        if launches and launches[0].path:
            raise scope.error(
                "no launch is left for this problem", ("launches",), accepted="at least one launch whose `when` holds"
            )
        raise scope.error("no entry point fits this problem", ("entries",), accepted="a last entry without `when`")
    resolved_buffers = tuple(_buffer(buffer, scope) for buffer in workspace)
    absent = frozenset(buffer.name for buffer in resolved_buffers if buffer.elements == 0)
    return Launches(without(steps, absent), tuple(buffer for buffer in resolved_buffers if buffer.elements))


def _takes_place(launch: DeclaredLaunch, scope: Scope) -> bool:
    return all(
        bool(scope.evaluate(condition.expression, condition.path)) is condition.holds for condition in launch.conditions
    )


def _launch(launch: DeclaredLaunch, scope: Scope) -> Launch:
    sizes, path = xyz(launch.grid, 1), (*launch.path, "grid")
    names_residents = any(_names_residents(size, path, scope) for size in sizes)
    unbuilt = _hiding(frozenset({RESIDENT_BLOCKS}), scope) if names_residents else scope
    waits = names_residents and not all(_has_value(size, path, unbuilt) for size in sizes)
    block = _legal(xyz(launch.block, 1), (*launch.path, "block"), _MOST_BLOCK, scope)
    if math.prod(block) > _MOST_THREADS:
        accepted = f"at most {_MOST_THREADS} threads"
        raise scope.error(f"the block has {math.prod(block)} threads", (*launch.path, "block"), accepted=accepted)
    arguments = tuple(
        (word, scope.typed(kind))
        for name, kind in launch.arguments
        for word in scope.words(name, (*launch.path, "arguments", name))
    )
    bytes_moved = launch.bytes_moved
    return Launch(
        scope.filled(launch.entry, (*launch.path, "kernel")),
        (1, 1, 1) if waits else _legal(sizes, path, _MOST_GRID, unbuilt),
        block,
        scope.size(launch.shared_bytes, (*launch.path, "shared_bytes"), most=_MOST_SHARED),
        arguments,
        None if bytes_moved is None else scope.size(bytes_moved, (*launch.path, "bytes_moved"), most=2**63 - 1),
        launch.main,
        _ResidentGrid(sizes, path, scope) if waits else None,
        _carveout(launch.carveout, (*launch.path, "carveout"), scope),
        _cluster(launch, scope),
    )


def _cluster(launch: DeclaredLaunch, scope: Scope) -> tuple[int, int, int] | None:
    """Return the blocks of a cluster along x, y, z; None if the launch requests no clusters."""
    if not launch.cluster:
        return None
    path = (*launch.path, "cluster")
    sides = _legal(xyz(launch.cluster, 1), path, (_MOST_IN_A_CLUSTER,) * 3, scope)
    if math.prod(sides) > _MOST_IN_A_CLUSTER:
        accepted = f"at most {_MOST_IN_A_CLUSTER} blocks, and more than 8 where the GPU allows them"
        raise scope.error(f"the cluster has {math.prod(sides)} blocks", path, accepted=accepted)
    return sides


def _carveout(expression: Expression, path: Key, scope: Scope) -> int | None:
    """Return the carve-out in percent of an SM's largest shared memory; None if the driver decides."""
    value = expression if expression in CARVEOUTS else scope.evaluate(expression, path)
    if isinstance(value, str) and value in CARVEOUTS:
        return CARVEOUTS[value]
    if isinstance(value, bool) or not isinstance(value, int) or not _DRIVER_DECIDES <= value <= LARGEST_CARVEOUT:
        accepted = f"an integer from 0 to 100 (percent), {_DRIVER_DECIDES} for default, or {', '.join(CARVEOUTS)}"
        raise scope.error("not a carve-out", path, found=value, accepted=accepted)
    return None if value == _DRIVER_DECIDES else value


def _names_residents(size: Expression, path: Key, scope: Scope) -> bool:
    """Return whether a grid's size names the resident blocks and no problem field or parameter has that name."""
    if not isinstance(size, str) or RESIDENT_BLOCKS not in size or RESIDENT_BLOCKS in scope.names:
        return False
    return RESIDENT_BLOCKS in names_in(size, at=scope.at(path), key=dotted(path))


@dataclass(frozen=True, slots=True)
class _ResidentGrid:
    """A grid whose expressions name the resident blocks.

    Attributes:
        sizes: Expressions for x, y and z.
        path: Where they stand in the declaration.
        scope: What they are evaluated with besides.
    """

    sizes: tuple[Expression, Expression, Expression]
    path: Key
    scope: Scope

    def of(self, resident: int) -> tuple[int, int, int]:
        """Return the grid; see `lab.templates.launches.ResidentGrid`."""
        scope = replace(self.scope, names={**self.scope.names, RESIDENT_BLOCKS: resident})
        return _legal(self.sizes, self.path, _MOST_GRID, scope)


def _legal(
    sizes: tuple[Expression, Expression, Expression], path: Key, limits: tuple[int, int, int], scope: Scope
) -> tuple[int, int, int]:
    """Return the checked dimensions of a grid or a block."""
    dimensions: list[int] = []
    for i, (axis, expression, limit) in enumerate(zip("xyz", sizes, limits, strict=True)):
        value = scope.evaluate(expression, (*path, i))
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= limit:
            accepted = f"an integer from 1 to {limit}"
            text = str(expression)
            quotient = re.fullmatch(r"\s*(.+?)\s*/\s*([^/]+?)\s*", text) if isinstance(value, float) else None
            raise scope.error(
                f"{path[-1]}.{axis} is not a legal size",
                path,
                found=text if text == str(value) else f"{text}, which is {value}",
                accepted=accepted,
                suggestion=f"write ceil_div({quotient[1]}, {quotient[2]}), or // to round down"
                if quotient
                else _of_floats(value, text, scope) or _too_large(value, limit, text, scope),
            )
        dimensions.append(value)
    x, y, z = dimensions
    return x, y, z


def _of_floats(value: Scalar, text: str, scope: Scope) -> str | None:
    """Suggest an integer for a whole number written as a float, such as 1e7."""
    if not isinstance(value, float):
        return None
    for name in sorted(names_in(text, at=scope.at(()), key="")):
        named_value = scope.names.get(name)
        if isinstance(named_value, float) and named_value.is_integer():
            return f"{name} is a floating-point number; write {int(named_value)}"
    return None


def _too_large(value: Scalar, limit: int, text: str, scope: Scope) -> str | None:
    """Suggest a constraint that excludes points too large for any GPU."""
    varied = sorted(names_in(text, at=scope.at(()), key="") - scope.sizes)
    is_large = isinstance(value, int) and not isinstance(value, bool) and value > limit
    return f"leave such points out: constraints: [{text} <= {limit}]" if is_large and varied else None


def _buffer(buffer: DeclaredBuffer, scope: Scope) -> Workspace:
    path: Key = ("workspace", buffer.name, "elements")
    elements = scope.size(buffer.elements, path, most=_MOST_WORKSPACE)
    refused = "this workspace buffer cannot be made"
    if buffer.name in scope.names:
        raise scope.error(
            refused, path, found=buffer.name, accepted="a name that neither the problem nor the parameters have"
        )
    if elements == 0 and not _known_to_kernel(buffer.elements, path, scope):
        accepted = "at least one element; only parameters, which the compiled kernel knows too, may make it 0"
        raise scope.error(refused, path, found=0, accepted=accepted)
    return Workspace(buffer.name, scope.typed(buffer.dtype), elements, buffer.zero)


def _known_to_kernel(expression: Expression, path: Key, scope: Scope) -> bool:
    """Return whether an expression can be evaluated without the problem's sizes."""
    return _has_value(expression, path, _hiding(scope.sizes, scope))


def _hiding(names: frozenset[str], scope: Scope) -> Scope:
    """Return a scope in which some names have an unusable value."""
    return replace(scope, names={**scope.names, **{name: object() for name in names}})


def _has_value(expression: Expression, path: Key, scope: Scope) -> bool:
    try:
        scope.evaluate(expression, path)
    except UserError:
        return False
    return True
