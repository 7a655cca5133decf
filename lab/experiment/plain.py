"""Loads a user's CUDA or PTX kernel as a checked entry of an `Experiment`.

A file names a source and its launch; there is no template with front matter. Its declaration is built here from the
keys of the file; the kernel's arguments are parsed elsewhere. The rest is as for any experiment.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.base.elements import CUDA_NAMES, cuda_name
from lab.base.errors import Location, ReaderError, UserError, did_you_mean, together
from lab.base.expressions import Scalar, names_in
from lab.base.structures import structure_of
from lab.base.yamlfile import Document, Key, dotted
from lab.experiment.model import KernelEntry
from lab.experiment.plain_checks import Reading, axes_of, baseline_of, check_constraints, check_names, listed, type_of
from lab.experiment.schema import KernelModel, PlainFile, PlainLaunch, Sizes
from lab.isa.cuda.kernels import SourceKernel, base_name, read_kernels
from lab.isa.cuda.names import expected_macros, used_names
from lab.isa.ptx.module import read_ptx
from lab.isa.ptx.signature import entry_parameters
from lab.operators.declared.declaration import Declaration
from lab.operators.declared.mapped import MappedView
from lab.operators.declared.specification import Argument
from lab.templates.front_matter import TENSOR_MAP, FrontMatter, LaunchDeclaration, Parameter, TensorMapDeclaration
from lab.templates.launch_rules import BRACES, CARVEOUTS
from lab.templates.launches import RESIDENT_BLOCKS
from lab.templates.plain.entry import choose, expression
from lab.templates.plain.template import PlainTemplate
from lab.templates.plain.unit import SUFFIXES as SOURCES
from lab.toolchain.includes import Tree, gather, inlined

PTX = ".ptx"
_SUFFIXES = (*SOURCES, PTX)


@dataclass(frozen=True)
class PlainKernel:
    """A checked plain kernel.

    Attributes:
        entry: The kernel with its template and its space.
        declaration: Its declared operator.
        baseline: Baseline setting of the parameters; empty for none.
    """

    entry: KernelEntry
    declaration: Declaration
    baseline: Mapping[str, Scalar]


def plain_kernel(reading: Reading) -> PlainKernel:
    """Check everything about a plain kernel that does not depend on problems.

    Raises:
        UserError: Every mistake that was found, together.
    """
    raw, source, is_ptx = reading.raw, reading.source, reading.source.endswith(PTX)
    axes = axes_of(reading)
    valid_names = {*raw.parameters, *reading.fields}  # a parameter whose values are wrong is known by name
    text = None
    if source.endswith(_SUFFIXES):
        text = reading.text(source)
        # compilers hand over PTX as C's strings, and Warp writes the end of one to its file
        text = text.rstrip("\0") if text is not None and is_ptx else text
    else:
        accepted = f"a file ending in {', '.join(_SUFFIXES)}, or softmax.py:kernel for a Triton function"
        reading.refuse("not a source", ("source",), found=source, accepted=accepted)
    if raw.configs is not None:
        reading.refuse("the configs are those of a Triton function", ("configs",), accepted="parameters")
    tree, whole = Tree.of(reading.folder.resolve()), text
    if text is not None and not is_ptx:
        with reading.noting():
            tree = reading.tree
            whole = inlined(*gather(text, tree))
    kernels = read_kernels(whole) if whole is not None and not is_ptx else ()
    name = base_name(raw.kernel) if raw.kernel else kernels[0].name if len(kernels) == 1 else Path(source).stem
    entries = _entries(reading, text, kernels, axes) if text is not None else {}
    declaration = reading.declared(name, axes, _own_types(reading, text or "", kernels, entries))
    if is_ptx and (macros := [name for name in axes if name not in _words_beside(reading)]):
        accepted = "names that the launch uses, in grid, block or shared_bytes; a .cu source for macros"
        reading.refuse("PTX has no macros", ("parameters",), found=macros, accepted=accepted)
    _check_sizes(reading, valid_names)
    if text is not None and not is_ptx:
        _check_used(reading, whole or text, axes)
    check_constraints(reading, valid_names)
    if declaration is not None:
        axes = _types(reading, declaration, axes)
    baseline = baseline_of(reading, axes)
    if reading.mistakes or declaration is None:
        raise together(reading.mistakes)
    template = PlainTemplate(
        Path(source).name,
        reading.folder / source,
        _declares(reading, declaration, axes, entries),
        reading.document,
        (reading.folder.resolve(),),
        text or "",
        frozenset(_mentioned(entries)),
        tuple(
            (argument.name, argument.dtype if argument.view is None else TENSOR_MAP)
            for argument in declaration.arguments
            if argument.name in declaration.constants
        ),
        bound=reading.bound,
        named=reading.named,
        tree=tree,
    )
    entry = KernelEntry(name, template, axes, reading.constraints, toolchain=PTX.strip(".") if is_ptx else "")
    return PlainKernel(entry, declaration, baseline)


def _own_types(
    reading: Reading, text: str, kernels: Sequence[SourceKernel], entries: Mapping[Key, str]
) -> dict[str, str | None]:
    """Return the types the launched kernels take by value, by parameter name.

    PTX has no parameter names: parameters are matched with the arguments in order.
    """
    if reading.source.endswith(PTX):
        entry_names, names = set(entries.values()), list(reading.raw.arguments or {})
        module = read_ptx(text, reading.source) if entry_names else None
        launched = [kernel for kernel in module.kernels if kernel.name in entry_names] if module else []
        return {
            name: parameter.scalar_type
            for kernel in launched[:1] if reading.raw.launches is None
            for name, parameter in zip(names, entry_parameters(kernel), strict=False)
        }  # fmt: skip
    entry_names = {base_name(entry) for entry in entries.values()}
    launched_kernels = [kernel for kernel in kernels if {kernel.name, kernel.qualified_name} & entry_names]
    return {
        parameter.name: parameter.dtype if not parameter.is_pointer else None
        for kernel in launched_kernels
        for parameter in kernel.parameters
    }


def check_quotes(document: Document) -> None:
    """Find texts that YAML cut at a comma, such as `{c: matmul(a, b)}`, before they are validated.

    Raises:
        UserError: A text opens a bracket that it does not close.
    """
    mistakes = [
        UserError(
            "the text ends inside a bracket: YAML ends an unquoted text at a comma",
            code="syntax",
            at=document.at(*path),
            key=dotted(path),
            found=text,
            suggestion="put the whole text in quotes",
        )
        for path, text in _texts(document.data, ())
        if text.count("(") > text.count(")") or text.count("[") > text.count("]")
    ]
    if mistakes:
        raise together(mistakes)


def _texts(data: object, path: Key) -> Iterator[tuple[Key, str]]:
    if isinstance(data, str) and path[:1] not in (("question",), ("source",)):
        yield path, data
    elif isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _texts(value, (*path, key))


def _launches(raw: PlainFile | KernelModel) -> list[tuple[Key, PlainLaunch]]:
    """Return the launches of either form, each with its path in the file."""
    if raw.launches is not None:
        return [(("launches", i), launch) for i, launch in enumerate(raw.launches)]
    if raw.grid is None or raw.block is None:
        return []
    launch = PlainLaunch(
        kernel=raw.kernel or "?",
        grid=raw.grid,
        block=raw.block,
        arguments=list(raw.arguments or {}),
        shared_bytes=raw.shared_bytes,
        carveout=raw.carveout,
        cluster=raw.cluster,
    )
    return [((), launch)]


def _check_sizes(reading: Reading, valid_names: set[str]) -> None:
    """Check that there is one launch or a list of launches, and that their sizes only use known names."""
    raw = reading.raw
    if raw.launches is None:
        for key in ("grid", "block"):
            if getattr(raw, key) is None:
                accepted = "an expression such as ceil_div(n, block_size_x), or a list of up to three"
                reading.refuse("a key is missing", (key,), code="missing-key", accepted=accepted)
    else:
        for key in ("kernel", "grid", "block", "cluster"):
            if getattr(raw, key) is not None:
                reading.refuse(
                    f"the key {key} cannot be combined with launches",
                    (key,),
                    code="unknown-key",
                    accepted="launches alone",
                )
    for path, launch in _launches(raw):
        for key in ("grid", "block", "cluster"):
            for i, size in enumerate(_sizes(getattr(launch, key))):
                place: Key = (*path, key, i) if isinstance(getattr(launch, key), list) else (*path, key)
                check_names(
                    reading,
                    size,
                    place,
                    valid_names | {RESIDENT_BLOCKS} if key == "grid" else valid_names,
                    f"the {key}",
                )
        check_names(reading, launch.shared_bytes, (*path, "shared_bytes"), valid_names, "shared_bytes")
        check_names(reading, launch.carveout, (*path, "carveout"), valid_names | set(CARVEOUTS), "carveout")
        check_names(reading, launch.when, (*path, "when"), valid_names, "the condition")
        for inner in BRACES.findall(launch.kernel):
            check_names(reading, inner, (*path, "kernel"), valid_names, "the kernel")
        for i, name in enumerate(launch.arguments if path else ()):
            if name not in (raw.arguments or {}):
                known_names = list(raw.arguments or {})
                suggestion = did_you_mean(name, known_names)
                place = (*path, "arguments", i)
                reading.refuse(
                    "no such argument",
                    place,
                    code="unknown-name",
                    found=name,
                    accepted=known_names,
                    suggestion=suggestion,
                )


def _types(
    reading: Reading, declaration: Declaration, axes: Mapping[str, tuple[Scalar, ...]]
) -> dict[str, tuple[Scalar, ...]]:
    """Convert the values of type parameters to type names of the source."""
    converted = dict(axes)
    for name in declaration.type_parameters:
        words = {value: cuda_name(str(value)) for value in axes.get(name, ())}
        for value, word in words.items():
            if word is None:
                accepted = f"{', '.join(CUDA_NAMES.values())}, or NumPy's name of one"
                suggestion = did_you_mean(str(value), [*CUDA_NAMES, *CUDA_NAMES.values()])
                reading.refuse(
                    "no type",
                    ("parameters", name),
                    code="unsupported",
                    found=value,
                    accepted=accepted,
                    suggestion=suggestion,
                )
        if name in axes:
            converted[name] = tuple(dict.fromkeys(word for word in words.values() if word is not None)) or axes[name]
    return converted


def _check_used(reading: Reading, text: str, axes: Mapping[str, tuple[Scalar, ...]]) -> None:
    """Reject a swept parameter that is not used: its variants would be identical."""
    used = used_names(text)
    used |= _words_beside(reading)
    for name, values in axes.items():
        if len(values) > 1 and name not in used:
            macro_names = [source_text.name for source_text in expected_macros(text)]
            reading.refuse(
                "this parameter is not used, so its variants are identical",
                ("parameters", name),
                accepted=f"a name that {reading.source} or another key uses",
                suggestion=did_you_mean(name, macro_names or used),
            )


def _words_beside(reading: Reading) -> frozenset[str]:
    """Return the words of the keys other than `parameters`: sizes and arguments may use parameters."""
    values = (
        value for key, value in reading.document.data.items() if key not in ("question", "parameters", "baseline")
    )
    return frozenset(word for value in values for word in re.findall(r"\w+", str(value)))


def _entries(
    reading: Reading, text: str, kernels: Sequence[SourceKernel], axes: Mapping[str, tuple[Scalar, ...]]
) -> dict[Key, str]:
    """Return the kernel of every launch by path: its symbol or C++ expression, with parameters in braces."""
    raw, chosen = reading.raw, dict[Key, str]()
    requested: list[tuple[Key, str | None]] = [(("kernel",), raw.kernel)]
    if raw.launches is not None:
        requested = [((*path, "kernel"), launch.kernel) for path, launch in _launches(raw)]
    for path, name in requested:
        with reading.noting():
            if reading.source.endswith(PTX):
                chosen[path] = _entry_of_ptx(reading, text, name, path)
                continue
            at, key = reading.document.at(*path), dotted(path)
            choice = choose(kernels, name, at=at, key=key, source=reading.source)
            braces = {parameter: f"{{{parameter}}}" for parameter in axes}
            chosen[path] = expression(choice[0] if choice else None, name, braces, at=at, key=key)
    return chosen


def _entry_of_ptx(reading: Reading, text: str, requested: str | None, path: Key) -> str:
    try:
        names = [kernel.name for kernel in read_ptx(text, reading.source).kernels]
    except ReaderError as error:
        raise UserError(
            f"the source is not PTX: {error}", code="syntax", at=reading.document.at("source"), key="source"
        ) from error
    if requested is None and len(names) == 1:
        return names[0]
    if requested not in names:
        message = "the source has no such kernel" if requested else "name the kernel"
        suggestion = did_you_mean(requested or "", names)
        at = reading.document.at(*path)
        raise UserError(
            message, code="unsupported", at=at, key=dotted(path), found=requested, accepted=names, suggestion=suggestion
        )
    return requested


def _declares(
    reading: Reading,
    declaration: Declaration,
    axes: Mapping[str, tuple[Scalar, ...]],
    entries: Mapping[Key, str],
) -> FrontMatter:
    """Return the front matter of a template with this source."""
    raw, types, arguments = reading.raw, _types_of(declaration.passed), declaration.arguments
    names = {bound.name: bound.text for bound in reading.bound}
    maps = {
        argument.name: _map_of(argument, argument.view, names.get(argument.name, argument.name))
        for argument in arguments
        if argument.view is not None
    }
    parameters = {
        name: Parameter(type=type_of(values), default=values[0], help=f"a macro of {reading.source}")
        for name, values in axes.items()
    }
    summary, workspace = reading.summary, reading.workspace
    if raw.launches is not None:
        steps = [
            LaunchDeclaration(
                entry=entries["launches", i, "kernel"],
                grid=listed(launch.grid),
                block=listed(launch.block),
                arguments={name: types[name] for name in launch.arguments},
                shared_bytes=launch.shared_bytes,
                carveout=launch.carveout,
                cluster=_sizes(launch.cluster),
                when=launch.when,
            )
            for i, launch in enumerate(raw.launches)
        ]
        return FrontMatter(
            summary=summary,
            operator="declared",
            launches=steps,
            parameters=parameters,
            workspace=workspace,
            tensor_maps=maps,
        )
    return FrontMatter(
        summary=summary,
        operator="declared",
        entry=entries["kernel",],
        grid=listed(raw.grid or 1),
        block=listed(raw.block or 1),
        arguments=types,
        shared_bytes=raw.shared_bytes,
        carveout=raw.carveout,
        cluster=_sizes(raw.cluster),
        parameters=parameters,
        workspace=workspace,
        tensor_maps=maps,
    )


def _sizes(sizes: Sizes | None) -> list[str | int]:
    """Return the sizes of a grid, a block or a cluster; empty if a launch has no clusters."""
    return [] if sizes is None else listed(sizes)


def _map_of(argument: Argument, view: MappedView, array: str) -> TensorMapDeclaration:
    """Return the declaration of an array's tensor map, the contiguous dimension first."""
    extents, strides = view.sides(argument.shape or ())
    lower, upper, steps = view.corners or ((), (), ())
    return TensorMapDeclaration(
        of=array,
        type=argument.dtype,
        extents=list(extents),
        leading=strides[0] if strides else 0,
        box=list(view.box[::-1]),
        swizzle=view.swizzle,
        outer=list(strides[1:]),
        lower=list(lower[::-1]),
        upper=list(upper[::-1]),
        steps=list(steps[::-1]),
    )


def _types_of(arguments: Iterable[Argument]) -> dict[str, str]:
    """Return the types of a kernel's arguments; the members of a structure form one type."""
    types = dict[str, str]()
    for structure, group in itertools.groupby(arguments, key=lambda argument: argument.structure):
        members = [(argument.name, _type_of(argument)) for argument in group]
        types |= {structure: structure_of(members)} if structure else dict(members)
    return types


def _type_of(argument: Argument) -> str:
    if argument.view is not None:
        return TENSOR_MAP
    return f"{argument.dtype}*" if argument.is_array else argument.dtype


def _mentioned(entries: Mapping[Key, str]) -> Iterable[str]:
    """Yield the names in the braces of kernel names."""
    for entry in entries.values():
        for inner in BRACES.findall(entry):
            yield from names_in(inner, at=Location("kernel"), key="kernel")
