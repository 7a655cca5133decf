"""Facts on which the draft of an experiment file is based: the kernel's head, its body and its host's launch."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from lab.base.elements import ELEMENT_BYTES
from lab.isa.cuda.body.limits import Limits
from lab.isa.cuda.body.statements import read_body
from lab.isa.cuda.kernels import SourceKernel, SourceParameter, TemplateParameter
from lab.isa.cuda.names import ExpectedMacro, expected_macros, used_names
from lab.isa.cuda.struct_declarations import elements_of, parts_of, read_structures
from lab.isa.cuda.types import element_type
from lab.templates.plain.clusters import launched_cluster
from lab.templates.plain.inference.geometry import infer_block
from lab.templates.plain.inference.infer import Inference, Known, infer
from lab.templates.plain.instances import template_instances
from lab.templates.plain.launches import HostLaunch, read_launch

_INTEGERS = ("int32", "uint32", "int64", "uint64")
_THREADS = "[64, 128, 256, 512, 1024]"
_BLOCK = "threads"
"""Name of the block-size parameter if neither kernel nor host fixes the threads."""
_TILES = "[8, 16, 32]"
"""Sides of a block that is square."""
_MOST_SWEPT = 3
"""Most template parameters with defaults for which other values are tried; tile sides depend on each other."""


@dataclass(frozen=True, slots=True)
class DraftFacts:
    """The facts on which a draft is based.

    Attributes:
        kernel: The kernel.
        body: The text of its body.
        macros: The macros that the source expects.
        types: What stands for the template's parameters that are types.
        parameters: The experiment's parameters with their values.
        sizes: Names of the problem's fields.
        members: Members of parameters that are structures, with names of their own.
        elements: Members of the structures that parameters point to.
        paths: How the body calls members, by their names: `view.data`.
        cluster: Its sides, where the host asks for clusters.
        launch: The host's launch, as far as it is known; its grid is in terms of `sides`.
        sides: Parameters that are a block's sides, x first; none where the host's launch has others.
        inference: What the body says; None where it cannot be read.
    """

    kernel: SourceKernel
    body: str
    macros: tuple[ExpectedMacro, ...]
    types: Mapping[str, str]
    parameters: Mapping[str, str]
    sizes: tuple[str, ...]
    members: Mapping[str, tuple[SourceParameter, ...]]
    elements: Mapping[str, tuple[SourceParameter, ...]]
    paths: Mapping[str, str]
    cluster: tuple[str, ...]
    launch: HostLaunch
    sides: tuple[str, ...]
    inference: Inference | None


def draft_facts(text: str, kernel: SourceKernel, *, keeps_block: bool = False) -> DraftFacts:
    """Return the facts about a kernel and its launch.

    Args:
        text: The CUDA source.
        kernel: One of the source's kernels.
        keeps_block: Try no other block than the host's.
    """
    kernel = _with_types(text, kernel)
    body = text[slice(*kernel.body)]
    macros = expected_macros(text)
    types = [template_parameter.name for template_parameter in kernel.template or () if _is_type(template_parameter)]
    in_types = {word for parameter in kernel.parameters for word in re.findall(r"\w+", parameter.c_type)}
    kinds = {macro.name: "bool" for macro in macros if _is_flag(macro.name, text)}
    parameters = {
        macro.name: _values(macro, is_type=macro.name in in_types, kind=kinds.get(macro.name, "int"))
        for macro in macros
    }
    defaults = [
        template_parameter
        for template_parameter in kernel.template or ()
        if template_parameter.default and template_parameter.name not in types
    ]
    for template_parameter in kernel.template or ():
        if template_parameter.name and template_parameter.name not in types and "..." not in template_parameter.kind:
            parameters[template_parameter.name] = _template_values(template_parameter, keep=len(defaults) > _MOST_SWEPT)
    structures = read_structures(text)
    members, paths = _all_members(structures, kernel)
    elements = {
        parameter.name: found for parameter in kernel.parameters if (found := elements_of(parameter, structures))
    }
    given = {one.name for one in (*kernel.parameters, *chain(*members.values()))}
    own_block = f"{_BLOCK}_" if _BLOCK in given else _BLOCK
    values = [candidate for candidate in (*kernel.parameters, *chain(*members.values())) if not candidate.is_pointer]
    integers = [value.name for value in values if value.dtype in _INTEGERS and value.name and value.lanes == 1]
    excluded = r"seed|iter|step|offset|stride|flag|mode|alpha|beta|scale"
    sizes = [name for name in integers if not re.search(excluded, name, re.IGNORECASE)]
    launch = _deduced(text, kernel, read_launch(text, kernel, {*sizes, *parameters}))
    if passed := {side for side in launch.block if side in sizes and launch.values.get(side, "").isdigit()}:
        sizes = [name for name in sizes if name not in passed]
        integers = [name for name in integers if name not in passed]
        launch = _deduced(text, kernel, read_launch(text, kernel, {*sizes, *parameters}))
    host_arguments = dict(
        zip((template_parameter.name for template_parameter in kernel.template or ()), launch.template, strict=False)
    )
    sides = _block_names(parameters, kernel)
    if launch.block not in ((), tuple(sides), tuple(host_arguments.get(side, side) for side in sides)):
        sides = []
    is_kept = bool(passed) or (keeps_block and bool(launch.block))
    if not sides and not is_kept and _is_any_block(launch, kernel, body) and not _says_block(text, kernel, parameters):
        parameters[own_block] = _THREADS
        sides = [own_block]
    if sides and launch.block not in ((), tuple(sides)):
        launch = _swept(launch, sides)
    flags = {
        template_parameter.name
        for template_parameter in kernel.template or ()
        if re.search(r"\bbool\b", template_parameter.kind)
    }
    for name in parameters.keys() & host_arguments.keys() - flags - set(sides):
        parameters[name] = f"[{host_arguments[name]}]" if host_arguments[name].isdecimal() else parameters[name]
    cluster = launched_cluster(text, kernel)
    inference = (
        None
        if cluster
        else _inferred(text, kernel, parameters, integers, (paths, members), launch, tuple(sides), own_block)
    )
    if inference is not None:
        parameters.pop(own_block, None) if not launch.block else None
        parameters |= inference.threads
        for name in inference.sides & parameters.keys() - host_arguments.keys():
            parameters[name] = _TILES if sum(name in side for side in inference.block) > 1 else parameters[name]
        host_numbers = {paths.get(name, name) for name, value in launch.values.items() if value.isdigit()}
        own = [name for name in inference.sizes if name not in inference.bounds & host_numbers]
        sizes = [*(own or inference.sizes), *inference.free]
        sizes = [
            paths_to.get(name, name) for paths_to in [{path: name for name, path in paths.items()}] for name in sizes
        ]
    return DraftFacts(
        kernel,
        body,
        macros,
        {name: host_arguments.get(name) or "float" for name in types},
        parameters,
        tuple(sizes) or (() if inference is not None else ("n",)),
        members,
        elements,
        paths,
        cluster,
        launch,
        tuple(sides),
        inference,
    )


def _with_types(text: str, kernel: SourceKernel) -> SourceKernel:
    """Return a kernel whose parameters have the types that the host's launch gives the template."""
    template = [parameter.name for parameter in kernel.template or ()]
    given = dict(zip(template, _deduced(text, kernel, read_launch(text, kernel, ())).template, strict=False))
    parameters = []
    for parameter in kernel.parameters:
        c_type = re.sub(r"\w+", lambda word: given.get(word[0]) or word[0], parameter.c_type)
        element = element_type(c_type.replace("*", "").strip()) if c_type != parameter.c_type else None
        if parameter.dtype is None and element is not None:
            parameter = replace(parameter, c_type=c_type, dtype=element.dtype, lanes=element.lanes)  # noqa: PLW2901
        parameters.append(parameter)
    return replace(kernel, parameters=tuple(parameters))


def _inferred(  # noqa: PLR0917 - what is known of a kernel
    text: str,
    kernel: SourceKernel,
    parameters: Mapping[str, str],
    integers: Sequence[str],
    structures: tuple[Mapping[str, str], Mapping[str, tuple[SourceParameter, ...]]],
    launch: HostLaunch,
    sides: tuple[str, ...],
    own_block: str,
) -> Inference | None:
    """Return what the kernel's body says; None where it accesses no array that could be read."""
    paths, members = structures
    read = read_body(text, kernel)
    if read is None or not read.accesses:
        return None
    given = [*kernel.parameters, *chain(*members.values())]
    arrays = {paths.get(one.name, one.name): one for one in given if one.is_pointer and one.name}
    own = launch.block or (sides if sides != (own_block,) else ())
    block = sides if launch.block and sides else own
    known = Known(
        tuple(arrays),
        tuple(paths.get(name, name) for name in integers),
        tuple(name for name in parameters if name != own_block or block),
        {path: name for name, path in paths.items()},
        block if launch.block or kernel.launch_bounds else (),
        launch.grid,
        used_names(text) | {*parameters} - {own_block},
        launch.lengths,
        {path: ELEMENT_BYTES.get(one.dtype or "", 0) * one.lanes for path, one in arrays.items()},
        {
            one.name: int(value)
            for one, value in zip(kernel.template or (), launch.template, strict=False)
            if value.isdecimal()
        },
        {paths.get(name, name): int(value) for name, value in launch.values.items() if value.isdecimal()},
        launch.shares,
        launch.counts,
    )
    return infer(read, known)


def _deduced(text: str, kernel: SourceKernel, launch: HostLaunch) -> HostLaunch:
    """Return a launch with the template arguments that C++ deduces from what the host passes."""
    if not launch.line or len(launch.template) >= len(kernel.template or ()):
        return launch
    instances = [one for one in template_instances(text) if one.kernel.body == kernel.body and not one.assumed]
    return replace(launch, template=instances[0].arguments) if instances else launch


def _says_block(text: str, kernel: SourceKernel, parameters: Collection[str]) -> bool:
    """Return whether the body allows one number of threads, as that of a shared array's elements."""
    read = read_body(text, kernel)
    return read is not None and any(infer_block(read, Limits(read.opaque, parameters), parameters))


def _is_any_block(launch: HostLaunch, kernel: SourceKernel, body: str) -> bool:
    """Return whether the block size may differ from the host's: only the number of blocks depends on it."""
    if "blockDim" not in body:
        return False
    if not launch.block:
        return True
    if len(launch.block) > 1 or not launch.block[0].isdigit() or launch.shared_bytes.isdigit():
        return False
    if kernel.launch_bounds or re.search(rf"(?<![\w.]){launch.block[0]}(?!\w)", body):
        return False
    if all(side.isdigit() for side in launch.grid):
        return "gridDim" in body or not launch.grid
    return _swept(launch, [_BLOCK]).grid != launch.grid


def _swept(launch: HostLaunch, sides: Sequence[str]) -> HostLaunch:
    """Return a launch with parameters in place of the host's numbers for the block's sides.

    A number of blocks without sizes stays as it is. Dynamic shared memory is left out, as it may depend on the block.
    """
    pairs = list(zip(launch.block, sides, strict=True))
    grid = []
    for at, side in enumerate(launch.grid):
        names = dict([*pairs, *pairs[at : at + 1]])  # of sides with one number, that of the same axis
        parts = re.split(r"(?<![\w.])(\d+)(?!\w)", side)
        grid.append("".join(names.get(word, word) for word in parts))
    return replace(
        launch,
        grid=launch.grid if all(side.isdigit() for side in launch.grid) else tuple(grid),
        shared_bytes="" if launch.shared_bytes.isdigit() else launch.shared_bytes,
    )


def _all_members(
    structures: Mapping[str, tuple[SourceParameter, ...]], kernel: SourceKernel
) -> tuple[dict[str, tuple[SourceParameter, ...]], dict[str, str]]:
    """Return the members of each structure parameter, and their paths in the body.

    A name that is taken gets the structure's in front.
    """
    used_names = {parameter.name for parameter in kernel.parameters}
    members: dict[str, tuple[SourceParameter, ...]] = {}
    paths: dict[str, str] = {}
    for parameter in kernel.parameters:
        parts = parts_of(parameter, structures)
        is_taken = parameter.lanes > 1 or any(member.name in used_names for member in parts)
        names = [f"{parameter.name}_{member.name}" if is_taken else member.name for member in parts]
        used_names |= set(names)
        paths |= {name: f"{parameter.name}.{member.name}" for name, member in zip(names, parts, strict=True)}
        if parts:
            members[parameter.name] = tuple(
                replace(member, name=name) for member, name in zip(parts, names, strict=True)
            )
    return members, paths


def _is_type(parameter: TemplateParameter) -> bool:
    return parameter.kind in ("typename", "class")


def _is_flag(name: str, text: str) -> bool:
    """Return whether a source only tests a macro against 0: `NAME ? a : b`, `if (NAME)`, `#if NAME`."""
    uses = re.findall(rf"(?<!\w){name}(?!\w)", text)
    tests = re.findall(
        rf"(?<!\w){name}\s*\?|\bif\s+(?:constexpr\s*)?\(\s*!?\s*{name}\s*\)|^[ \t]*#\s*(?:el)?if\s+!?\s*{name}[ \t]*$",
        text,
        re.MULTILINE,
    )
    return bool(uses) and len(uses) == len(tests)


def _values(macro: ExpectedMacro, *, is_type: bool, kind: str = "int") -> str:
    """Return initial values from a parameter's name and default."""
    name = macro.name.lower()
    if is_type:
        return "[float, double]"
    if kind == "bool" or re.match(r"(use|enable|do|with|has|is)_?", name):
        return "[0, 1]"
    for pattern, values in (
        (r"unroll|vec|width|per_thread|items|work", "[1, 2, 4, 8]"),
        (r"pad", "[0, 1]"),
        (r"warps", "[2, 4, 8]"),
        (r"(block|tile|dim|threads).*_?y$|tile|_k$", "[8, 16, 32]"),
        (r"block|threads", _THREADS),
    ):
        if re.search(pattern, name):
            is_tried = not macro.default or macro.default in re.findall(r"\w+", values)
            return values if is_tried else f"[{macro.default}]"
    return f"[{macro.default}]" if macro.default else "[1]"


def _template_values(parameter: TemplateParameter, *, keep: bool) -> str:
    """Return initial values of a template parameter; with `keep`, only its default, except for a flag."""
    kind = re.sub(r"\bconst(?:expr)?\b", "", parameter.kind).strip()
    if keep and kind != "bool" and re.fullmatch(r"-?\d+", parameter.default or ""):
        return f"[{parameter.default}]"
    return _values(ExpectedMacro(parameter.name, parameter.default, 0), is_type=False, kind=kind)


def _block_names(parameters: Mapping[str, str], kernel: SourceKernel) -> list[str]:
    """Return the parameters for the sides of a block, x first."""
    for stem in (r"block_?(size|dim)?", r"threads?(_per_block)?", r"tile_?(size|dim)?"):
        sides = [
            next((name for name in parameters if re.fullmatch(rf"{stem}_?{axis}", name, re.IGNORECASE)), None)
            for axis in "xyz"
        ]
        if sides[0] is not None:
            return [side for side in sides if side is not None]
        if alone := next((name for name in parameters if re.fullmatch(stem, name, re.IGNORECASE)), None):
            return [alone]
    bounds = kernel.launch_bounds[0] if kernel.launch_bounds else ""
    return [bounds] if bounds and set(re.findall(r"[A-Za-z_]\w*", bounds)) <= set(parameters) else []
