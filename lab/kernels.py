"""Kernel templates: Jinja over CUDA, with a declaration of their own at the top.

A template begins with one Jinja comment that holds YAML, its front matter (`FrontMatter`): parameters with
type, default, allowed values and meaning; what they must satisfy; the launch geometry; the arguments. Whoever
adds a kernel writes that one file and no Python.

Names known while a template is rendered: its parameters, its `derived` values, the problem's fields that are
words or booleans (`dtype`, `layout`), `T` (the C type of `dtype`) and `element_bytes`. Numbers of the problem
are launch arguments, so that one machine code serves every size; the geometry and the choice of the entry
point may use them.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from jinja2 import FileSystemLoader, TemplateError, TemplateNotFound, TemplateSyntaxError
from pydantic import BaseModel, ConfigDict, Field

from lab import mapping, yamlfile
from lab.errors import Location, UserError, did_you_mean
from lab.expressions import Sandbox, Scalar, environment, evaluate, names_in

_OPEN, _CLOSE = "{#---", "---#}"
C_TYPES = {"float32": "float", "float64": "double", "float16": "__half", "bfloat16": "__nv_bfloat16"}
"""NumPy-style element types and what CUDA calls them."""

_ELEMENT_BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}
ARGUMENT_TYPES = ("int32", "int64", "uint32", "uint64", *C_TYPES)
"""What an argument may be, besides `T` (the problem's dtype); with `*` behind it, a device pointer."""

_MOST_GRID = (2**31 - 1, 65535, 65535)
_MOST_BLOCK = (1024, 1024, 64)
_MOST_THREADS = 1024
"""CUDA C++ Programming Guide, technical specifications per compute capability; the same from 5.0 on."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Parameter(_Strict):
    """One parameter of a template."""

    type: Literal["int", "float", "bool", "str", "mapping"]
    default: Scalar
    help: str
    values: list[Scalar] | None = None
    min: float | None = None
    max: float | None = None

    def refuses(self, value: object) -> str | None:
        """What would be accepted instead of `value`; None when it is fine."""
        kind = {"int": int, "float": (int, float), "bool": bool, "str": str, "mapping": str}[self.type]
        is_bool = isinstance(value, bool)
        if not isinstance(value, kind) or (is_bool and self.type != "bool"):  # type: ignore[arg-type]
            return f"{self.type}" + (f": {', '.join(map(str, self.values))}" if self.values else "")
        if self.values is not None and value not in self.values:
            return ", ".join(map(str, self.values))
        low = -np.inf if self.min is None else self.min
        high = np.inf if self.max is None else self.max
        if self.type in ("int", "float") and not low <= value <= high:  # type: ignore[operator]
            return f"{self.type} from {low} to {high}"
        if self.type == "mapping":
            return _mapping_refused(str(value))
        return None

    def value(self, given: Scalar) -> object:
        """A given value as expressions and templates see it: a mapping is an object, all else is itself."""
        return mapping.parse(str(given)) if self.type == "mapping" else given


def _mapping_refused(text: str) -> str | None:
    try:
        mapping.parse(text)
    except UserError as error:
        accepted = error.accepted if isinstance(error.accepted, str) else ", ".join(map(str, error.accepted or ()))
        return f"{accepted} ({error.message}, which has {error.found!r})"
    return None


class Requirement(_Strict):
    """What parameters must satisfy together."""

    that: str
    because: str


class Entry(_Strict):
    """One of several entry points; the first whose `when` holds is launched."""

    name: str
    when: str | None = None


class FrontMatter(_Strict):
    """What a template declares about itself."""

    summary: str
    operator: str
    grid: list[str | int] = Field(min_length=1, max_length=3)
    block: list[str | int] = Field(min_length=1, max_length=3)
    arguments: dict[str, str]
    idea: str = ""
    entry: str | None = None
    entries: list[Entry] | None = None
    problem: dict[str, list[Scalar]] = Field(default_factory=dict)
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    derived: dict[str, str | int] = Field(default_factory=dict)
    requires: list[Requirement] = Field(default_factory=list)
    shared_bytes: str | int = 0
    predicts: dict[Literal["global.load", "global.store", "shared.load", "shared.store"], str | float] = Field(
        default_factory=dict
    )


@dataclass(frozen=True)
class Template:
    """A template that was read and whose declaration was checked.

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


@dataclass(frozen=True, slots=True)
class Launch:
    """How a kernel is launched for one problem.

    Attributes:
        entry: Symbol of the entry point.
        grid: Blocks in x, y, z.
        block: Threads in x, y, z.
        dynamic_shared_bytes: Dynamic shared memory a block.
        arguments: Names of the operator's scalars and arrays with their types: ``("A", "float32*")``.
    """

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    arguments: tuple[tuple[str, str], ...]


def search_path(beside: Path | None = None) -> tuple[Path, ...]:
    """Where templates are looked for: beside the experiment, `./kernel_src`, then what comes with `lab`."""
    package = Path(__file__).parent
    shipped = package / "kernel_src"
    folders = [
        *([beside] if beside else []),
        Path("kernel_src"),
        shipped if shipped.is_dir() else package.parent / "kernel_src",
    ]
    return tuple(dict.fromkeys(folder.resolve() for folder in folders))


def available(roots: Sequence[Path]) -> list[str]:
    """Names of all templates under the kernel_src folders of a search path."""
    return sorted(
        {p.relative_to(root).as_posix() for root in roots if root.name == "kernel_src" for p in root.rglob("*.cu.j2")}
    )


def load(name: str, roots: tuple[Path, ...], *, at: Location | None = None, key: str = "template") -> Template:
    """Find and check a template.

    Raises:
        UserError: it is missing, or its front matter is wrong; the latter names the template's own line.
    """
    found = next((root / name for root in roots if (root / name).is_file()), None)
    if found is None or Path(name).is_absolute() or ".." in Path(name).parts:
        known = available(roots)
        raise UserError(
            "no such template",
            at=at,
            key=key,
            found=name,
            accepted=known or f"a file below {', '.join(map(str, roots))}",
            suggestion=did_you_mean(name, known),
        )
    text = yamlfile.read_text(found)
    start, end = text.find(_OPEN), text.find(_CLOSE)
    if not text.lstrip().startswith(_OPEN) or end < 0:
        raise UserError(
            "the template has no front matter",
            at=Location(found, 1),
            accepted=f"a first line {_OPEN!r}, YAML, {_CLOSE!r}",
        )
    first_line = text.count("\n", 0, start) + 1
    document = yamlfile.parse(text[start + len(_OPEN) : end], found, first_line=first_line)
    template = Template(name, found, yamlfile.validate(FrontMatter, document), document, roots)
    _check(template)
    return template


def complete(template: Template, given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Given parameters with the defaults of the others, in declaration order."""
    return {name: given.get(name, parameter.default) for name, parameter in template.declares.parameters.items()}


def unmet(template: Template, parameters: Mapping[str, Scalar], problem: Mapping[str, Scalar]) -> Requirement | None:
    """The first of the template's requirements that a point does not meet; None when all are met."""
    names = _compile_time_names(template, parameters, problem)
    for i, requirement in enumerate(template.declares.requires):
        at = template.document.at("requires", i)
        if not evaluate(requirement.that, names, at=at, key=f"requires[{i}]"):
            return requirement
    return None


def unsupported(template: Template, problem: Mapping[str, Scalar]) -> tuple[str, list[Scalar]] | None:
    """The first problem field whose value the template does not support, with those it does."""
    for field, values in template.declares.problem.items():
        if problem.get(field) not in values:
            return field, values
    return None


def render(template: Template, parameters: Mapping[str, Scalar], problem: Mapping[str, Scalar]) -> str:
    """CUDA source of one variant.

    Raises:
        UserError: a Jinja error, with the template's line.
    """
    names = _compile_time_names(template, parameters, problem)
    if template.declares.entry:
        names["entry"] = template.declares.entry
    try:
        source = _jinja(template.roots).get_template(template.name).render(**names)
    except (TemplateError, ArithmeticError, TypeError, ValueError, RecursionError) as error:
        raise _render_error(error, template) from error
    return source.lstrip("\n")


def launch(template: Template, parameters: Mapping[str, Scalar], problem: Mapping[str, Scalar]) -> Launch:
    """Entry point, geometry and arguments of one variant for one problem.

    Raises:
        UserError: a geometry expression fails, or its result is no legal launch.
    """
    declares = template.declares
    names = {**problem, **_compile_time_names(template, parameters, problem)}
    grid = _dimensions(template, "grid", names, _MOST_GRID)
    block = _dimensions(template, "block", names, _MOST_BLOCK)
    if np.prod(block) > _MOST_THREADS:
        raise UserError(
            f"a block of {np.prod(block)} threads",
            at=template.document.at("block"),
            key="block",
            accepted="at most 1024",
        )
    shared = evaluate(declares.shared_bytes, names, at=template.document.at("shared_bytes"), key="shared_bytes")
    if isinstance(shared, bool) or not isinstance(shared, int) or shared < 0:
        raise UserError(
            "not a size",
            at=template.document.at("shared_bytes"),
            key="shared_bytes",
            found=shared,
            accepted="bytes ≥ 0",
        )
    dtype = str(problem.get("dtype", ""))
    arguments = tuple((name, kind.replace("T", dtype)) for name, kind in declares.arguments.items())
    return Launch(_entry(template, names), grid, block, shared, arguments)


def predictions(
    template: Template, parameters: Mapping[str, Scalar], problem: Mapping[str, Scalar]
) -> dict[str, float]:
    """What the template says its accesses cost: sectors a request (global), bank conflicts a request (shared).

    The expressions know what the geometry knows, and `entry`, the entry point that is launched.

    Raises:
        UserError: an expression fails, or yields no number.
    """
    names = {**problem, **_compile_time_names(template, parameters, problem)}
    names["entry"] = _entry(template, names)
    found: dict[str, float] = {}
    for access, expression in template.declares.predicts.items():
        at, key = template.document.at("predicts", access), f"predicts.{access}"
        value = evaluate(expression, names, at=at, key=key)
        if isinstance(value, bool | str):
            raise UserError("not a number", at=at, key=key, found=value, accepted="a number of sectors or conflicts")
        found[access] = float(value)
    return found


def expression_names(template: Template, parameters: Mapping[str, Scalar]) -> dict[str, object]:
    """Parameters by name, as expressions and templates see them."""
    declared = template.declares.parameters
    return {name: declared[name].value(value) if name in declared else value for name, value in parameters.items()}


def mappings(template: Template) -> tuple[str, ...]:
    """Names of the parameters that are mappings."""
    return tuple(name for name, parameter in template.declares.parameters.items() if parameter.type == "mapping")


def _entry(template: Template, names: Mapping[str, object]) -> str:
    if template.declares.entry:
        return template.declares.entry
    entries = template.declares.entries or []
    for i, entry in enumerate(entries):
        at = template.document.at("entries", i)
        if entry.when is None or evaluate(entry.when, names, at=at, key=f"entries[{i}].when"):
            return entry.name
    raise UserError(
        "no entry point fits the problem",
        at=template.document.at("entries"),
        key="entries",
        accepted="a last one without `when`",
    )


def _dimensions(
    template: Template, key: Literal["grid", "block"], names: Mapping[str, object], most: tuple[int, int, int]
) -> tuple[int, int, int]:
    expressions: list[str | int] = getattr(template.declares, key)
    at = template.document.at(key)
    values = [evaluate(e, names, at=at, key=f"{key}[{i}]") for i, e in enumerate(expressions)]
    sizes: list[int] = []
    for axis, value, limit in zip("xyz", values, most, strict=False):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= limit:
            raise UserError(f"{key}.{axis} is no legal size", at=at, key=key, found=value, accepted=f"1 to {limit}")
        sizes.append(value)
    x, y, z = [*sizes, 1, 1][:3]
    return x, y, z


def _compile_time_names(
    template: Template, parameters: Mapping[str, Scalar], problem: Mapping[str, Scalar]
) -> dict[str, object]:
    names: dict[str, object] = {key: value for key, value in problem.items() if isinstance(value, str | bool)}
    dtype = problem.get("dtype")
    if dtype in C_TYPES:
        names |= {"T": C_TYPES[str(dtype)], "element_bytes": _ELEMENT_BYTES[str(dtype)]}
    names |= expression_names(template, parameters)
    for key, expression in template.declares.derived.items():
        names[key] = evaluate(expression, names, at=template.document.at("derived", key), key=f"derived.{key}")
    return names


@cache
def _jinja(roots: tuple[Path, ...]) -> Sandbox:
    return environment(loader=FileSystemLoader([str(root) for root in roots]), trim_blocks=True, lstrip_blocks=True)


def _render_error(error: Exception, template: Template) -> UserError:
    if isinstance(error, TemplateSyntaxError):
        return UserError(
            f"template syntax: {error.message}", at=Location(error.filename or template.file, error.lineno)
        )
    if isinstance(error, TemplateNotFound):
        return UserError(f"no such include: {error.name}", at=Location(template.file))
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.endswith(".j2")]
    place = Location(frames[-1].filename, frames[-1].lineno) if frames else Location(template.file)
    return UserError(f"the template fails: {error}", at=place)


def _check(template: Template) -> None:
    """What a schema cannot say about a front matter."""
    declares, document = template.declares, template.document
    if (declares.entry is None) == (declares.entries is None):
        raise UserError("one of the keys entry and entries is needed", at=document.at(), key="entry")
    for name, parameter in declares.parameters.items():
        at = document.at("parameters", name)
        if not name.isidentifier():
            raise UserError("a parameter's name is no identifier", at=at, key="parameters", found=name)
        for value in [parameter.default, *(parameter.values or [])]:
            accepted = parameter.refuses(value)
            if accepted:
                raise UserError("the declaration contradicts itself", at=at, key=name, found=value, accepted=accepted)
    for name, kind in declares.arguments.items():
        bare = kind.removesuffix("*").strip()
        if bare != "T" and bare not in ARGUMENT_TYPES:
            raise UserError(
                "unknown argument type",
                at=document.at("arguments", name),
                key=f"arguments.{name}",
                found=kind,
                accepted=["T", *ARGUMENT_TYPES, "each also with * behind it"],
                suggestion=did_you_mean(bare, ARGUMENT_TYPES),
            )
    for i, requirement in enumerate(declares.requires):
        names_in(requirement.that, at=document.at("requires", i), key=f"requires[{i}]")
