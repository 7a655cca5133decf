"""How a template's kernels are launched for one problem: the front matter's geometry, evaluated.

A variant is a sequence of launches on one stream, mostly of one. Launches of a sequence may share scratch buffers,
the workspace. A workspace buffer holds NaN bytes (0xFF) when the variant's data is uploaded and whatever the last
launch left there afterwards; one declared with `zero` is set to zero bytes before every sequence, and that memset is
part of what is timed. A buffer of no elements does not exist: arguments that name it are left out. Tensor maps
(`lab.hardware.tensormaps`) are made for the arguments of the launches that are left.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from lab.base import yamlfile
from lab.base.errors import UserError
from lab.base.expressions import Scalar, evaluate
from lab.hardware.tensormaps import TensorMap
from lab.templates.front_matter import (
    ELEMENT_BYTES,
    TENSOR_MAP,
    FrontMatter,
    LaunchDeclaration,
    Template,
    compile_time_names,
)

_MOST_GRID = (2**31 - 1, 65535, 65535)
_MOST_BLOCK = (1024, 1024, 64)
_MOST_THREADS = 1024
"""CUDA C++ Programming Guide, technical specifications per compute capability; the same from 5.0 on."""

_MOST_WORKSPACE = 2**40
"""Bytes of a workspace buffer. More is a mistake in an expression."""

Key = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch for one problem.

    Attributes:
        entry: Symbol of the entry point.
        grid: Blocks in x, y, z.
        block: Threads in x, y, z.
        dynamic_shared_bytes: Dynamic shared memory a block.
        arguments: Names of the operator's scalars and arrays, of workspace buffers and of tensor maps, with their
            types: ``("A", "float32*")``.
        bytes_moved: Least bytes that this launch moves through DRAM, as the template declares it; None where it
            does not.
        main: Of a sequence, the launch that does all of the problem's operations.
    """

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    arguments: tuple[tuple[str, str], ...]
    bytes_moved: int | None = None
    main: bool = False

    def without(self, names: Collection[str]) -> Launch:
        """The launch without arguments of these names."""
        return replace(self, arguments=tuple(pair for pair in self.arguments if pair[0] not in names))


@dataclass(frozen=True, slots=True)
class Workspace:
    """A scratch buffer on the device.

    Attributes:
        name: As arguments refer to it.
        dtype: Element type by NumPy's name.
        elements: How many.
        zero: Set to zero before every sequence.
    """

    name: str
    dtype: str
    elements: int
    zero: bool = False

    @property
    def bytes(self) -> int:
        """Its size."""
        return self.elements * ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Launches:
    """Everything that is launched, in order, to compute a problem once.

    Attributes:
        steps: At least one.
        workspace: Scratch buffers that the steps share.
        tensor_maps: What their arguments of type `tensor_map` are.
    """

    steps: tuple[Launch, ...]
    workspace: tuple[Workspace, ...] = ()
    tensor_maps: tuple[TensorMap, ...] = ()

    @property
    def entries(self) -> tuple[str, ...]:
        """Symbols that are launched, each once, in order."""
        return tuple(dict.fromkeys(step.entry for step in self.steps))

    @property
    def main(self) -> Launch | None:
        """The only launch, or the one that does all of the problem's operations; None where several share them."""
        found = self.steps if len(self.steps) == 1 else [step for step in self.steps if step.main]
        return found[0] if len(found) == 1 else None

    @property
    def bytes_moved(self) -> int | None:
        """Least bytes that all launches move; None unless every launch declares its own."""
        declared = [step.bytes_moved for step in self.steps]
        return None if None in declared else sum(b for b in declared if b is not None)


def launches(template: Template, parameters: Mapping[str, Scalar], problem: Mapping[str, Scalar]) -> Launches:
    """Entry points, geometry, arguments and workspace of one variant for one problem.

    Raises:
        UserError: an expression of the front matter fails, or its result is no legal launch.
    """
    names = {**problem, **compile_time_names(template, parameters, problem)}
    context = _Context(template, names, problem)
    steps = tuple(
        context.launch(declared, path)
        for path, declared in _declared(template.declares, context)
        if declared.when is None or context.evaluate(declared.when, (*path, "when"))
    )
    if not steps:
        raise UserError(
            "no launch is left for the problem",
            at=template.document.at("launches"),
            key="launches",
            accepted="at least one whose `when` holds",
        )
    workspace = tuple(context.workspace(name) for name in template.declares.workspace)
    absent = {buffer.name for buffer in workspace if buffer.elements == 0}
    steps = tuple(step.without(absent) for step in steps)
    mapped = dict.fromkeys(name for step in steps for name, kind in step.arguments if kind == TENSOR_MAP)
    return Launches(
        steps,
        tuple(buffer for buffer in workspace if buffer.elements),
        tuple(context.tensor_map(name) for name in mapped),
    )


def predictions(
    template: Template, parameters: Mapping[str, Scalar], problem: Mapping[str, Scalar]
) -> dict[str, float]:
    """What the template says its accesses cost: sectors a request (global), bank conflicts a request (shared).

    The expressions know what the geometry knows, and `entry`, the entry point that is launched; a sequence has no
    one entry point, and its figures are of all launches together.

    Raises:
        UserError: an expression fails, or yields no number.
    """
    if not template.declares.predicts:
        return {}
    names = {**problem, **compile_time_names(template, parameters, problem)}
    context = _Context(template, names, problem)
    if template.declares.launches is None:
        context = replace(context, names={**names, "entry": context.entry()})
    found: dict[str, float] = {}
    for access, expression in template.declares.predicts.items():
        value = context.evaluate(expression, ("predicts", access))
        if isinstance(value, bool | str):
            accepted = "a number of sectors or conflicts"
            raise context.error("not a number", ("predicts", access), found=value, accepted=accepted)
        found[access] = float(value)
    return found


def _declared(declares: FrontMatter, context: _Context) -> list[tuple[Key, LaunchDeclaration]]:
    """Every launch with its place in the front matter; the short form is a sequence of one."""
    if declares.launches is not None:
        return [(("launches", i), launch) for i, launch in enumerate(declares.launches)]
    single = LaunchDeclaration(
        entry=context.entry(),
        grid=declares.grid or [],
        block=declares.block or [],
        arguments=declares.arguments or {},
        shared_bytes=declares.shared_bytes,
    )
    return [((), single)]


@dataclass(frozen=True)
class _Context:
    """What expressions of one template are evaluated with."""

    template: Template
    names: Mapping[str, object]
    problem: Mapping[str, Scalar]

    @property
    def dtype(self) -> str:
        """The problem's element type, empty where it has none."""
        return str(self.problem.get("dtype", ""))

    def launch(self, declared: LaunchDeclaration, path: Key) -> Launch:
        grid = self._dimensions(declared.grid, (*path, "grid"), _MOST_GRID)
        block = self._dimensions(declared.block, (*path, "block"), _MOST_BLOCK)
        if math.prod(block) > _MOST_THREADS:
            key = (*path, "block")
            raise self.error(f"a block of {math.prod(block)} threads", key, accepted="at most 1024")
        moved = declared.bytes_moved
        return Launch(
            declared.entry,
            grid,
            block,
            self._size(declared.shared_bytes, (*path, "shared_bytes"), most=2**31 - 1),
            self._arguments(declared.arguments, (*path, "arguments")),
            None if moved is None else self._size(moved, (*path, "bytes_moved"), most=2**63 - 1),
            declared.main,
        )

    def workspace(self, name: str) -> Workspace:
        declared, path = self.template.declares.workspace[name], ("workspace", name, "elements")
        dtype = declared.type.replace("T", self.dtype)
        made = Workspace(name, dtype, self._size(declared.elements, path, most=_MOST_WORKSPACE), declared.zero)
        if name in self.names:
            accepted = "a name that the problem and the parameters do not have"
            raise self.error("this workspace buffer cannot be made", path, found=name, accepted=accepted)
        if made.elements == 0 and self._parameters_say(declared.elements, path) != 0:
            accepted = "at least one element; only the parameters, which the compiled kernel knows too, may say 0"
            raise self.error("this workspace buffer cannot be made", path, found=0, accepted=accepted)
        return made

    def tensor_map(self, name: str) -> TensorMap:
        declared, path = self.template.declares.tensor_maps[name], ("tensor_maps", name)
        rows, columns = (self._size(x, (*path, "extents", i), most=2**63) for i, x in enumerate(declared.extents))
        box_rows, box_columns = (self._size(x, (*path, "box", i), most=2**63) for i, x in enumerate(declared.box))
        of = self._words(declared.of, (*path, "of"))
        made = TensorMap(
            name,
            of[0] if len(of) == 1 else declared.of,
            declared.type.replace("T", self.dtype),
            (rows, columns),
            self._size(declared.leading, (*path, "leading"), most=2**63),
            (box_rows, box_columns),
        )
        refused = made.refused(ELEMENT_BYTES[made.dtype])
        if refused:
            field, found, accepted = refused
            raise self.error("this tensor map cannot be made", (*path, field), found=found, accepted=accepted)
        return made

    def _parameters_say(self, expression: str | int, path: Key) -> Scalar | None:
        """Its value if no size of the problem has a part in it, so that the compiled kernel knows it too; else None."""
        unknown = {name: object() for name, value in self.problem.items() if not isinstance(value, bool | str)}
        try:
            names = {**self.names, **unknown}
            return evaluate(expression, names, at=self.template.document.at(*path), key=yamlfile.dotted(path))
        except UserError:
            return None

    def entry(self) -> str:
        """The entry point of the short form: the first whose `when` holds."""
        declares = self.template.declares
        if declares.entry:
            return declares.entry
        for i, entry in enumerate(declares.entries or []):
            if entry.when is None or self.evaluate(entry.when, ("entries", i, "when")):
                return entry.name
        raise self.error("no entry point fits the problem", ("entries",), accepted="a last one without `when`")

    def evaluate(self, expression: str | float, path: Key) -> Scalar:
        from_here = self.template.document.at(*path)
        return evaluate(expression, self.names, at=from_here, key=yamlfile.dotted(path))

    def error(self, message: str, path: Key, *, found: object = None, accepted: str = "") -> UserError:
        at = self.template.document.at(*path)
        return UserError(message, at=at, key=yamlfile.dotted(path), found=found, accepted=accepted)

    def _arguments(self, declared: Mapping[str, str], path: Key) -> tuple[tuple[str, str], ...]:
        """Names with their types; an expression in braces stands for the words of its value."""
        found: list[tuple[str, str]] = []
        for name, kind in declared.items():
            found += [(one, kind.replace("T", self.dtype)) for one in self._words(name, (*path, name))]
        return tuple(found)

    def _words(self, name: str, path: Key) -> list[str]:
        """A name, or the words of the expression in braces that stands for it."""
        inner = name[1:-1] if name.startswith("{") and name.endswith("}") else ""
        return str(self.evaluate(inner, path)).split() if inner else [name]

    def _size(self, expression: str | int, path: Key, *, most: int) -> int:
        value = self.evaluate(expression, path)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise self.error("not a size", path, found=value, accepted=f"0 to {most}")
        return value

    def _dimensions(self, expressions: list[str | int], path: Key, most: tuple[int, int, int]) -> tuple[int, int, int]:
        sizes: list[int] = []
        for i, (axis, expression, limit) in enumerate(zip("xyz", expressions, most, strict=False)):
            value = self.evaluate(expression, (*path, i))
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= limit:
                text = f"{path[-1]}.{axis} is no legal size"
                raise self.error(text, path, found=value, accepted=f"1 to {limit}")
            sizes.append(value)
        x, y, z = [*sizes, 1, 1][:3]
        return x, y, z
