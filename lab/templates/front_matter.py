"""Kernel templates: Jinja over CUDA, with a YAML declaration at the top.

A template begins with one Jinja comment that holds YAML, its front matter (`FrontMatter`): parameters with
type, default, allowed values and meaning; what they must satisfy; the launch geometry; and the arguments. To add a
kernel, write that one file and no Python.

Names known while a template is rendered: its parameters, its `derived` values, the problem's fields that are
words or booleans (`dtype`, `layout`), `T` (the C type of `dtype`) and `element_bytes`. Numbers of the problem
are launch arguments, so that one machine code serves every size; the geometry and the choice of the entry
point may use them (`lab.templates.instance`). A word may stand for more in the template, which knows its facts
(`lab.templates.values`): a parameter of type `mapping`, or a field of the problem that `fields` declares, such as the
indices of a contraction.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from lab.base import shipped, yamlfile
from lab.base.elements import CUDA_NAMES
from lab.base.errors import Location, UserError, did_you_mean
from lab.base.expressions import Scalar, names_in
from lab.base.files import is_below
from lab.base.validation import Strict, validate
from lab.hardware.tensormaps import MOST_RANK
from lab.templates.mapping.text import parse
from lab.templates.values import MappingFacts

_OPEN, _CLOSE = "{#---", "---#}"
_MOST_BYTES = 2**20
C_TYPES = {
    **{
        name: CUDA_NAMES[name]
        for name in ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8")
    },
    "complex64": "float2",
    "complex128": "double2",
}
"""CUDA's built-in names of NumPy-style element types."""

ARGUMENT_TYPES = ("int32", "int64", "uint32", "uint64", *C_TYPES)
"""Types of an argument, besides `T` (the problem's dtype). With a trailing `*` it is a device pointer."""

NO_VALUE = "none"
"""The value of a field that a problem lacks, in `problem` lists and in templates."""

TENSOR_MAP = "tensor_map"
"""An argument that `tensor_maps` describes: a `CUtensorMap`, passed by value as a `__grid_constant__` parameter."""


class Parameter(Strict):
    """One parameter of a template.

    `words` are accepted besides the numbers of an int or a float, such as `occupancy` in place of a number of blocks.
    """

    type: Literal["int", "float", "bool", "str", "mapping"]
    default: Scalar
    help: str
    values: list[Scalar] | None = None
    min: float | None = None
    max: float | None = None
    words: list[str] = Field(default_factory=list)

    def refuses(self, value: object) -> str | None:
        """Return a description of the accepted values if `value` is not accepted, else None."""
        if value in self.words:
            return None
        refused = self._refuses(value)
        return refused if refused is None else " or ".join([refused, *self.words])

    def _refuses(self, value: object) -> str | None:
        kind = {"int": int, "float": (int, float), "bool": bool, "str": str, "mapping": str}[self.type]
        is_bool = isinstance(value, bool)
        if not isinstance(value, kind) or (is_bool and self.type != "bool"):  # type: ignore[arg-type]
            return f"{self.type}" + (f": {', '.join(map(str, self.values))}" if self.values else "")
        if self.values is not None and value not in self.values:
            return ", ".join(map(str, self.values))
        if isinstance(value, int | float) and not is_bool and not self._within(value):
            return self._range()
        if self.type == "mapping":
            return _mapping_refused(str(value))
        return None

    def _within(self, value: float) -> bool:
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)

    def _range(self) -> str:
        ends = {"from {} to {}": (self.min, self.max), "of at least {}": (self.min,), "of at most {}": (self.max,)}
        text = next(text for text, bounds in ends.items() if None not in bounds)
        return f"{self.type} {text.format(*(f'{bound:.10g}' for bound in ends[text]))}"

    def value(self, setting: Scalar) -> object:
        """Return a value as seen by expressions and templates: a mapping as its facts, others unchanged."""
        return MappingFacts(str(setting)) if self.type == "mapping" else setting


def _mapping_refused(text: str) -> str | None:
    try:
        parse(text)
    except UserError as error:
        accepted = error.accepted if isinstance(error.accepted, str) else ", ".join(map(str, error.accepted or ()))
        return f"{accepted} ({error.message}, found {error.found!r})"
    return None


class Requirement(Strict):
    """A requirement on the parameters as a whole."""

    that: str
    because: str


class Entry(Strict):
    """One of several entry points; the first whose `when` holds is launched."""

    name: str
    when: str | None = None


class LaunchDeclaration(Strict):
    """One launch of a sequence; the `main` one does all operations of the problem, the others are overhead."""

    entry: str
    grid: list[str | int] = Field(min_length=1, max_length=3)
    block: list[str | int] = Field(min_length=1, max_length=3)
    arguments: dict[str, str]
    shared_bytes: str | int = 0
    carveout: str | int = "default"
    cluster: list[str | int] = Field(default_factory=list, max_length=3)
    bytes_moved: str | int | None = None
    when: str | None = None
    main: bool = False


class WorkspaceDeclaration(Strict):
    """A scratch buffer on the device, shared by the launches of a sequence."""

    type: str
    elements: str | int
    zero: bool = False


class TensorMapDeclaration(Strict):
    """A tensor in global memory as used by TMA; sizes in elements, the contiguous dimension first.

    With corners it is a map for im2col, whose box has the channels and the pixels of a copy.
    """

    of: str
    type: str = "T"
    extents: list[str | int] = Field(min_length=1, max_length=MOST_RANK)
    leading: str | int
    box: list[str | int] = Field(min_length=1, max_length=MOST_RANK)
    swizzle: str | int = 0
    outer: list[str | int] = Field(default_factory=list, max_length=MOST_RANK - 2)
    lower: list[str | int] = Field(default_factory=list, max_length=MOST_RANK - 2)
    upper: list[str | int] = Field(default_factory=list, max_length=MOST_RANK - 2)
    steps: list[str | int] = Field(default_factory=list, max_length=MOST_RANK - 2)


class FrontMatter(Strict):
    """The front matter of a template.

    It declares either one launch (`entry` or `entries`, `grid`, `block`, `arguments`) or a sequence of launches
    (`launches`). A name among the arguments may be an expression in braces: each word of its value names one argument.
    An argument of type `tensor_map` is described by `tensor_maps`.
    """

    summary: str
    operator: str
    grid: list[str | int] | None = Field(default=None, min_length=1, max_length=3)
    block: list[str | int] | None = Field(default=None, min_length=1, max_length=3)
    arguments: dict[str, str] | None = None
    launches: list[LaunchDeclaration] | None = Field(default=None, min_length=1)
    workspace: dict[str, WorkspaceDeclaration] = Field(default_factory=dict)
    tensor_maps: dict[str, TensorMapDeclaration] = Field(default_factory=dict)
    idea: str = ""
    entry: str | None = None
    entries: list[Entry] | None = None
    problem: dict[str, list[Scalar]] = Field(default_factory=dict)
    fields: dict[str, Literal["einsum"]] = Field(default_factory=dict)
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    derived: dict[str, str | int] = Field(default_factory=dict)
    requires: list[Requirement] = Field(default_factory=list)
    abbreviate: dict[str, str] = Field(default_factory=dict)
    shared_bytes: str | int = 0
    carveout: str | int = "default"
    cluster: list[str | int] = Field(default_factory=list, max_length=3)
    predicts: dict[Literal["global.load", "global.store", "shared.load", "shared.store"], str | float] = Field(
        default_factory=dict
    )


@dataclass(frozen=True)
class Template:
    """A template with a checked declaration.

    Attributes:
        name: As an experiment refers to it: ``gemm/tiled.cu.j2``.
        file: Where it was found.
        declares: Its front matter.
        document: The front matter with its lines, for errors.
        roots: Folders that its includes are looked up in.
    """

    name: str
    file: Path
    declares: FrontMatter
    document: yamlfile.Document
    roots: tuple[Path, ...]

    @property
    def stem(self) -> str:
        """``tiled`` of ``gemm/tiled.cu.j2``."""
        return Path(self.name).name.split(".")[0]

    @property
    def mappings(self) -> tuple[str, ...]:
        """Names of the parameters that are mappings."""
        return tuple(name for name, parameter in self.declares.parameters.items() if parameter.type == "mapping")

    def completed(self, values: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Return the given parameters with the defaults of the others, in declaration order."""
        return {name: values.get(name, parameter.default) for name, parameter in self.declares.parameters.items()}

    def unsupported(self, problem: Mapping[str, Scalar]) -> tuple[str, list[Scalar]] | None:
        """Return the first unsupported field of a problem, with its supported values; None if there is none.

        An extension of a problem (`lab.operators.base.Problem.extensions`) that the template does not name may have no
        value.
        """
        for field, values in self.declares.problem.items():
            if problem.get(field, NO_VALUE) not in values:
                return field, values
        extensions: Sequence[str] = getattr(problem, "extensions", ())
        requested = [field for field in extensions if field in problem and field not in self.declares.problem]
        return (requested[0], ["no value"]) if requested else None


def search_path(beside: Path | None = None) -> tuple[Path, ...]:
    """Return the search path of templates: beside the experiment, `./kernel_src`, then those shipped with `lab`."""
    folders = [*([beside] if beside else []), Path("kernel_src"), shipped.folder("kernel_src")]
    return tuple(dict.fromkeys(folder.resolve() for folder in folders))


def available(roots: Sequence[Path]) -> list[str]:
    """List the names of all templates in the kernel_src folders of a search path."""
    return sorted(
        {p.relative_to(root).as_posix() for root in roots if root.name == "kernel_src" for p in root.rglob("*.cu.j2")}
    )


def load(name: str, roots: tuple[Path, ...], *, at: Location | None = None, key: str = "template") -> Template:
    """Find and check a template.

    Raises:
        UserError: It is missing, lies outside the folders once symbolic links are followed, or its front matter is
            wrong; then the error names the template's line.
    """
    file = None if Path(name).is_absolute() or ".." in Path(name).parts else _first(name, roots)
    if file is None:
        names = available(roots)
        raise UserError(
            "no such template",
            code="missing-file",
            at=at,
            key=key,
            found=name,
            accepted=names or f"a file below {', '.join(map(str, roots))}",
            suggestion=did_you_mean(name, names),
        )
    return _read(name, file, roots, yamlfile.read_text(file, _MOST_BYTES, "the template"))


@lru_cache(maxsize=32)  # reading its YAML takes tens of milliseconds, and every variant and launch asks for it
def _read(name: str, file: Path, roots: tuple[Path, ...], text: str) -> Template:
    """Read and check the text of a template.

    Raises:
        UserError: Its front matter is missing or wrong.
    """
    start, end = text.find(_OPEN), text.find(_CLOSE)
    if not text.lstrip().startswith(_OPEN) or end < 0:
        raise UserError(
            "the template has no front matter",
            code="syntax",
            at=Location(file, 1),
            accepted=f"a first line {_OPEN!r}, YAML, {_CLOSE!r}",
        )
    first_line = text.count("\n", 0, start) + 1
    document = yamlfile.parse(text[start + len(_OPEN) : end], file, first_line=first_line)
    template = Template(name, file, validate(FrontMatter, document), document, roots)
    _check(template)
    return template


def _first(name: str, roots: Sequence[Path]) -> Path | None:
    """Return the first file of a name that lies below its root after resolving links."""
    for root in roots:
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # too long a name, a NUL, links in a circle
            if (root / name).exists() and is_below(root / name, [root]):
                return root / name  # what is no regular file is refused when it is read
    return None


def _check(template: Template) -> None:
    """Check a front matter beyond its schema."""
    declares, document = template.declares, template.document
    _check_form(declares, document)
    for name, parameter in declares.parameters.items():
        at = document.at("parameters", name)
        if not name.isidentifier():
            raise UserError(
                "the parameter's name is not an identifier", code="wrong-value", at=at, key="parameters", found=name
            )
        for value in [parameter.default, *(parameter.values or [])]:
            accepted = parameter.refuses(value)
            if accepted:
                raise UserError(
                    "the parameter does not accept a value of its own declaration",
                    code="wrong-value",
                    at=at,
                    key=name,
                    found=value,
                    accepted=accepted,
                )
    for name, kind in (declares.arguments or {}).items():
        _check_argument(name, kind, declares, document, ("arguments", name))
    for i, launch in enumerate(declares.launches or ()):
        for name, kind in launch.arguments.items():
            _check_argument(name, kind, declares, document, ("launches", i, "arguments", name))
    for name, buffer in declares.workspace.items():
        _check_type(buffer.type, document, ("workspace", name, "type"), pointers=False, computed=True)
    for name, tensor_map in declares.tensor_maps.items():
        _check_type(tensor_map.type, document, ("tensor_maps", name, "type"), pointers=False, computed=True)
    for i, requirement in enumerate(declares.requires):
        names_in(requirement.that, at=document.at("requires", i), key=f"requires[{i}]")


def _check_form(declares: FrontMatter, document: yamlfile.Document) -> None:
    """Check that there is either one launch or a sequence, not a mixture."""
    single = ("entry", "entries", "grid", "block", "arguments")
    if declares.launches is not None:
        for key in single:
            if getattr(declares, key) is not None:
                raise UserError(
                    f"the key {key} cannot stand beside launches",
                    code="unknown-key",
                    at=document.at(key),
                    key=key,
                    accepted="launches alone, a list of {entry, grid, block, shared_bytes, arguments, when}",
                )
        return
    if (declares.entry is None) == (declares.entries is None):
        raise UserError(
            "exactly one of the keys entry and entries is needed", code="missing-key", at=document.at(), key="entry"
        )
    for key in single[2:]:
        if getattr(declares, key) is None:
            raise UserError(
                "a key is missing",
                code="missing-key",
                at=document.at(),
                key=key,
                accepted=f"{key}, or a list of launches",
            )


def _check_argument(
    name: str, kind: str, declares: FrontMatter, document: yamlfile.Document, path: tuple[str | int, ...]
) -> None:
    if kind != TENSOR_MAP:
        _check_type(kind, document, path, pointers=True, computed=True)
    elif name not in declares.tensor_maps:
        raise UserError(
            "the tensor map is not declared",
            code="missing-key",
            at=document.at(*path),
            key=yamlfile.dotted(path),
            found=name,
            accepted=list(declares.tensor_maps) or "a name below the key tensor_maps",
            suggestion=did_you_mean(name, declares.tensor_maps),
        )


def _check_type(
    kind: str, document: yamlfile.Document, path: tuple[str | int, ...], *, pointers: bool, computed: bool = False
) -> None:
    """Check a type; with `computed`, an expression in braces may yield it."""
    bare = kind.removesuffix("*").strip() if pointers else kind
    if computed and bare.startswith("{") and bare.endswith("}"):
        return  # an expression that yields the type
    if bare != "T" and bare not in ARGUMENT_TYPES:
        raise UserError(
            "unknown argument type" if pointers else "unknown element type",
            code="unknown-name",
            at=document.at(*path),
            key=yamlfile.dotted(path),
            found=kind,
            accepted=[
                "T",
                *ARGUMENT_TYPES,
                *(["an expression in braces that yields one of these"] if computed else []),
                *(["each of these followed by * for a pointer", TENSOR_MAP] if pointers else []),
            ],
            suggestion=did_you_mean(bare, [*ARGUMENT_TYPES, *([TENSOR_MAP] if pointers else [])]),
        )
