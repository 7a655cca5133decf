"""The rules by which declared launches become launches: one home for templates and libraries.

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
"""An expression in the name of a kernel: `add<float, {block_size}>`."""

_MOST_IN_A_CLUSTER = 16
"""Blocks; more than 8 not on every GPU (CUDA C++ Programming Guide, thread block clusters)."""
_MOST_SHARED = 2**31 - 1
"""Bytes; how many a GPU allows is checked where the GPU is known."""

CARVEOUTS: Mapping[str, int | None] = MappingProxyType({"default": None, "l1": 0, "shared": LARGEST_CARVEOUT})
"""What words prefer, in percent of the largest shared memory of an SM; with None the driver decides.

The words are those of CUDA's `cudaSharedCarveout`: `cudaSharedmemCarveoutDefault`, `MaxL1` and `MaxShared`.
"""

_DRIVER_DECIDES = -1
"""The value of `cudaSharedmemCarveoutDefault`, which stands for it in a list of percentages."""

_MOST_WORKSPACE = 2**40
"""Elements of a workspace buffer. More is a mistake in an expression."""

Expression = str | int
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class LaunchCondition:
    """Something that must hold for a launch to take place.

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
    """One launch with expressions in place of numbers.

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
    """List the launches of a front matter. Of its short form, one launch takes place."""
    if declares.launches is not None:
        return tuple(
            DeclaredLaunch(
                one.entry,
                one.grid,
                one.block,
                one.shared_bytes,
                one.arguments.items(),
                ("launches", i),
                () if one.when is None else (LaunchCondition(one.when, ("launches", i, "when")),),
                one.bytes_moved,
                one.main,
                one.carveout,
                one.cluster,
            )
            for i, one in enumerate(declares.launches)
        )
    entries = [(entry.name, entry.when) for entry in declares.entries or ()] or [(declares.entry or "", None)]
    earlier: tuple[LaunchCondition, ...] = ()
    found: list[DeclaredLaunch] = []
    for i, (entry, when) in enumerate(entries):
        own = LaunchCondition("true" if when is None else when, ("entries", i, "when"))
        found.append(
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
    return tuple(found)


def buffers(declares: FrontMatter) -> tuple[DeclaredBuffer, ...]:
    """List the workspace of a front matter."""
    return tuple(
        DeclaredBuffer(name, buffer.type, buffer.elements, buffer.zero) for name, buffer in declares.workspace.items()
    )


def xyz(sizes: Sequence[Value], one: Value) -> tuple[Value, Value, Value]:
    """Return sizes in x, y and z; those that are not there are 1."""
    x, y, z = [*sizes, one, one][:3]
    return x, y, z


class _HasArguments(Protocol):
    @property
    def arguments(self) -> tuple[tuple[str, str], ...]: ...


AnyLaunch = TypeVar("AnyLaunch", bound=_HasArguments)


def without(launches: Iterable[AnyLaunch], absent: frozenset[str]) -> tuple[AnyLaunch, ...]:
    """Leave out the arguments that name buffers which do not exist."""
    return tuple(_without(launch, absent) for launch in launches)


def _without(launch: Any, absent: frozenset[str]) -> Any:  # noqa: ANN401 - any dataclass with arguments
    return replace(launch, arguments=tuple(pair for pair in launch.arguments if pair[0] not in absent))


@dataclass(frozen=True)
class Scope:
    """What the expressions of one declaration are evaluated with.

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
        """Return the value of an expression that must be an integer from 0 to `most`.

        Raises:
            UserError: It fails, or is another value.
        """
        value = self.evaluate(expression, path)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise self.error("not a size", path, code="syntax", found=value, accepted=f"an integer from 0 to {most}")
        return value

    def integer(self, expression: Expression, path: Key) -> int:
        """Return the value of an expression that must be an integer.

        Raises:
            UserError: It fails, or is another value.
        """
        value = self.evaluate(expression, path)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error("not an integer", path, found=value, accepted="an integer")
        return value

    def words(self, name: str, path: Key) -> list[str]:
        """Return a name, or the words of the expression in braces that stands for several."""
        inner = name[1:-1] if name.startswith("{") and name.endswith("}") else ""
        return str(self.evaluate(inner, path)).split() if inner else [name]

    def filled(self, text: str, path: Key) -> str:
        """Return a text whose expressions in braces are replaced by their values, as C++ spells them."""

        def value(match: re.Match[str]) -> str:
            found = self.evaluate(match[1], path)
            return str(found).lower() if isinstance(found, bool) else str(found)

        return BRACES.sub(value, text)

    def typed(self, kind: str) -> str:
        """Return a type: `T` is the problem's, and of a name in braces, the type that its value names."""
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
        """Return an error with the place of a path."""
        at, key = self.at(path), dotted(path)
        return UserError(
            message, code=code, at=at, key=key, found=found, accepted=accepted or None, suggestion=suggestion
        )


def resolved(launches: Sequence[DeclaredLaunch], workspace: Iterable[DeclaredBuffer], scope: Scope) -> Launches:
    """Apply the rules of the module's docstring to one problem. Tensor maps are left to the caller.

    Raises:
        UserError: An expression fails, its result is not a legal launch, or no launch is left.
    """
    steps = tuple(_launch(one, scope) for one in launches if _takes_place(one, scope))
    if not steps:
        if launches and launches[0].path:
            raise scope.error(
                "no launch is left for this problem", ("launches",), accepted="at least one launch whose `when` holds"
            )
        raise scope.error("no entry point fits this problem", ("entries",), accepted="a last entry without `when`")
    made = tuple(_buffer(one, scope) for one in workspace)
    absent = frozenset(buffer.name for buffer in made if buffer.elements == 0)
    return Launches(without(steps, absent), tuple(buffer for buffer in made if buffer.elements))


def _takes_place(launch: DeclaredLaunch, scope: Scope) -> bool:
    return all(bool(scope.evaluate(one.expression, one.path)) is one.holds for one in launch.conditions)


def _launch(one: DeclaredLaunch, scope: Scope) -> Launch:
    sizes, path = xyz(one.grid, 1), (*one.path, "grid")
    names_residents = any(_names_residents(size, path, scope) for size in sizes)
    unbuilt = _hiding(frozenset({RESIDENT_BLOCKS}), scope) if names_residents else scope
    waits = names_residents and not all(_has_value(size, path, unbuilt) for size in sizes)
    block = _legal(xyz(one.block, 1), (*one.path, "block"), _MOST_BLOCK, scope)
    if math.prod(block) > _MOST_THREADS:
        accepted = f"at most {_MOST_THREADS} threads"
        raise scope.error(f"the block has {math.prod(block)} threads", (*one.path, "block"), accepted=accepted)
    arguments = tuple(
        (word, scope.typed(kind))
        for name, kind in one.arguments
        for word in scope.words(name, (*one.path, "arguments", name))
    )
    moved = one.bytes_moved
    return Launch(
        scope.filled(one.entry, (*one.path, "kernel")),
        (1, 1, 1) if waits else _legal(sizes, path, _MOST_GRID, unbuilt),
        block,
        scope.size(one.shared_bytes, (*one.path, "shared_bytes"), most=_MOST_SHARED),
        arguments,
        None if moved is None else scope.size(moved, (*one.path, "bytes_moved"), most=2**63 - 1),
        one.main,
        _ResidentGrid(sizes, path, scope) if waits else None,
        _carveout(one.carveout, (*one.path, "carveout"), scope),
        _cluster(one, scope),
    )


def _cluster(one: DeclaredLaunch, scope: Scope) -> tuple[int, int, int] | None:
    """Return the blocks of a cluster along x, y, z; None where the launch asks for no clusters."""
    if not one.cluster:
        return None
    path = (*one.path, "cluster")
    found = _legal(xyz(one.cluster, 1), path, (_MOST_IN_A_CLUSTER,) * 3, scope)
    if math.prod(found) > _MOST_IN_A_CLUSTER:
        accepted = f"at most {_MOST_IN_A_CLUSTER} blocks, and more than 8 where the GPU allows them"
        raise scope.error(f"the cluster has {math.prod(found)} blocks", path, accepted=accepted)
    return found


def _carveout(expression: Expression, path: Key, scope: Scope) -> int | None:
    """Return the preferred shared memory of an SM in percent of its largest; None where the driver decides."""
    value = expression if expression in CARVEOUTS else scope.evaluate(expression, path)
    if isinstance(value, str) and value in CARVEOUTS:
        return CARVEOUTS[value]
    if isinstance(value, bool) or not isinstance(value, int) or not _DRIVER_DECIDES <= value <= LARGEST_CARVEOUT:
        accepted = f"an integer from 0 to 100 (percent), {_DRIVER_DECIDES} for default, or {', '.join(CARVEOUTS)}"
        raise scope.error("not a carve-out", path, found=value, accepted=accepted)
    return None if value == _DRIVER_DECIDES else value


def _names_residents(size: Expression, path: Key, scope: Scope) -> bool:
    """Whether a size of a grid names the blocks that the GPU holds; a problem or a parameter may have that name."""
    if not isinstance(size, str) or RESIDENT_BLOCKS not in size or RESIDENT_BLOCKS in scope.names:
        return False
    return RESIDENT_BLOCKS in names_in(size, at=scope.at(path), key=dotted(path))


@dataclass(frozen=True, slots=True)
class _ResidentGrid:
    """A grid whose expressions name the blocks that the GPU holds at once.

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
    sizes: tuple[Expression, Expression, Expression], path: Key, most: tuple[int, int, int], scope: Scope
) -> tuple[int, int, int]:
    """The dimensions of a grid or a block."""
    found: list[int] = []
    for i, (axis, expression, limit) in enumerate(zip("xyz", sizes, most, strict=True)):
        value = scope.evaluate(expression, (*path, i))
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= limit:
            accepted = f"an integer from 1 to {limit}"
            text = str(expression)
            whole = re.fullmatch(r"\s*(.+?)\s*/\s*([^/]+?)\s*", text) if isinstance(value, float) else None
            raise scope.error(
                f"{path[-1]}.{axis} is not a legal size",
                path,
                found=text if text == str(value) else f"{text}, which is {value}",
                accepted=accepted,
                suggestion=f"write ceil_div({whole[1]}, {whole[2]}), or // to round down"
                if whole
                else _of_floats(value, text, scope) or _too_large(value, limit, text, scope),
            )
        found.append(value)
    x, y, z = found
    return x, y, z


def _of_floats(value: Scalar, text: str, scope: Scope) -> str | None:
    """Name a whole number that was written as a float, such as 1e7, which makes a size one."""
    if not isinstance(value, float):
        return None
    for name in sorted(names_in(text, at=scope.at(()), key="")):
        given = scope.names.get(name)
        if isinstance(given, float) and given.is_integer():
            return f"{name} is a floating-point number; write {int(given)}"
    return None


def _too_large(value: Scalar, limit: int, text: str, scope: Scope) -> str | None:
    """Say how a point of the space that no GPU takes is left out."""
    varied = sorted(names_in(text, at=scope.at(()), key="") - scope.sizes)
    is_large = isinstance(value, int) and not isinstance(value, bool) and value > limit
    return f"leave such points out: constraints: [{text} <= {limit}]" if is_large and varied else None


def _buffer(one: DeclaredBuffer, scope: Scope) -> Workspace:
    path: Key = ("workspace", one.name, "elements")
    elements = scope.size(one.elements, path, most=_MOST_WORKSPACE)
    refused = "this workspace buffer cannot be made"
    if one.name in scope.names:
        raise scope.error(
            refused, path, found=one.name, accepted="a name that neither the problem nor the parameters have"
        )
    if elements == 0 and not _known_to_kernel(one.elements, path, scope):
        accepted = "at least one element; only parameters, which the compiled kernel knows too, may make it 0"
        raise scope.error(refused, path, found=0, accepted=accepted)
    return Workspace(one.name, scope.typed(one.dtype), elements, one.zero)


def _known_to_kernel(expression: Expression, path: Key, scope: Scope) -> bool:
    """Whether an expression has a value without the sizes of the problem."""
    return _has_value(expression, path, _hiding(scope.sizes, scope))


def _hiding(names: frozenset[str], scope: Scope) -> Scope:
    """A scope in which some names have no value that an operation takes."""
    return replace(scope, names={**scope.names, **{name: object() for name in names}})


def _has_value(expression: Expression, path: Key, scope: Scope) -> bool:
    try:
        scope.evaluate(expression, path)
    except UserError:
        return False
    return True
