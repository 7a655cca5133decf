"""Write the experiment file of a plain CUDA source, from its kernel's signature."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab.base import yamlfile
from lab.base.errors import Location, UserError, did_you_mean
from lab.base.files import write_atomically
from lab.isa.cuda.kernels import SourceKernel
from lab.templates.plain import entry
from lab.templates.plain.draft import Draft
from lab.templates.plain.draft_sequence import drafted_sequence
from lab.templates.plain.launches import launched_kernels
from lab.templates.plain.triton import TritonFunction, read_functions
from lab.templates.plain.triton_draft import draft_triton
from lab.templates.plain.unit import SUFFIXES, SourceUnit, read_unit
from lab.toolchain.includes import Tree, gather, read_source
from lab.toolchain.project import of_words


@dataclass(frozen=True)
class SourceFolders:
    """The files that a source may include, and how it is compiled, by options of a command.

    Attributes:
        root: The highest folder of which it may include files; None for its project's.
        search: Further folders of headers.
        macros: `NAME` or `NAME=value`.
    """

    root: Path | None = None
    search: tuple[Path, ...] = ()
    macros: tuple[str, ...] = ()


def read_sources(source: Path, sources: SourceFolders | None = None) -> SourceUnit:
    """Read a source with the files that it includes, and the flags of its project.

    Raises:
        UserError: It is not CUDA, or cannot be read.
    """
    if source.suffix not in SUFFIXES:
        raise UserError(
            "not a CUDA source",
            code="unsupported",
            at=Location(source),
            found=source.suffix,
            accepted=(*SUFFIXES, ".py"),
        )
    sources = sources or SourceFolders()
    of_words(sources.search, sources.macros)
    return read_unit(source, root=sources.root, search=sources.search, macros=sources.macros)


def keys_of(unit: SourceUnit, folder: Path) -> dict[str, Any]:
    """Return the keys of an experiment file that say what a source includes and how it is compiled.

    Args:
        unit: The source.
        folder: Where the file lies.
    """
    keys: dict[str, Any] = {}
    folder = folder.resolve()
    if unit.flags.search or unit.included.keys() != _included_below(unit, folder):
        keys["root"] = Path(os.path.relpath(unit.tree.root, folder)).as_posix()
    inside = [one for one in unit.tree.search if one.is_relative_to(unit.tree.root)]
    if inside:
        keys["include"] = [Path(os.path.relpath(one, folder)).as_posix() for one in inside]
    if unit.flags.options:
        keys["options"] = list(unit.flags.options)
    return keys


def _included_below(unit: SourceUnit, folder: Path) -> set[str]:
    """Return the files that the source can include where the root is a folder."""
    try:
        return {*gather(read_source(unit.file), Tree(unit.tree.beside, folder))[1]}
    except UserError:
        return set()


def new(
    source: Path,
    output: Path | None = None,
    kernel: str | None = None,
    *,
    force: bool = False,
    sources: SourceFolders | None = None,
) -> Path:
    """Write an experiment file; see `write_draft`."""
    return write_draft(source, output, kernel, force=force, sources=sources)[0]


def write_draft(
    source: Path,
    output: Path | None = None,
    kernel: str | None = None,
    *,
    force: bool = False,
    sources: SourceFolders | None = None,
) -> tuple[Path, Draft]:
    """Write an experiment file.

    Args:
        source: A `.cu` file, a header, or a `.py` file with a Triton function.
        output: The file to write; by default, beside the source and named like it.
        kernel: The kernel's name; None means the only one.
        force: Replace a file that exists.
        sources: What the source may include, and how it is compiled.

    Returns:
        The file that was written, and what is in it.

    Raises:
        UserError: The source cannot be read or has no such kernel, the kernel has no result, or the file exists.
    """
    if source.suffix == ".py":
        function = triton_function(source, kernel)
        text = yamlfile.read_text(source)
        return _write(source, output, lambda file, _: Draft(draft_triton(text, file, function)), force=force)
    unit = read_sources(source, sources)
    chosen = choose_launched(unit, kernel)

    def drafted(name: str, folder: Path) -> Draft:
        draft = drafted_sequence(unit.whole, name, chosen)
        keys = "".join(f"{key}: {json.dumps(value)}\n" for key, value in keys_of(unit, folder).items())
        return replace(draft, text=draft.text + keys)

    return _write(source, output, drafted, force=force)


def triton_function(source: Path, name: str | None) -> TritonFunction:
    """Return the Triton function to draft: the named one, or the only one that no other calls.

    Raises:
        UserError: No function has this name, or several may be meant.
    """
    functions = read_functions(yamlfile.read_text(source), str(source))
    called = {word for function in functions for word in function.called}
    launched = [
        function for function in functions if function.name not in called
    ] or functions  # the others are its helpers
    chosen = [function for function in functions if function.name == name] if name else launched
    if len(chosen) != 1:
        raise UserError(
            "the file has no such Triton function" if name or not functions else "name the Triton function",
            code="unknown-name",
            at=Location(source),
            key="--kernel",
            found=name,
            accepted=[function.name for function in functions] or "a function under @triton.jit",
            suggestion=did_you_mean(name or "", [function.name for function in functions]),
        )
    return chosen[0]


def _write(
    source: Path, output: Path | None, drafted: Callable[[str, Path], Draft], *, force: bool
) -> tuple[Path, Draft]:
    """Write a draft, made from the source's name as the file shall call it, and from the file's folder."""
    target = output or source.with_suffix(".yaml")
    if target.exists() and not force:
        raise UserError(
            "the file exists already", code="exists", at=Location(target), accepted="another --output, or --force"
        )
    try:
        name = source.resolve().relative_to(target.resolve().parent).as_posix()
    except ValueError:
        message = "the experiment file must lie in the folder of its source, or above"
        raise UserError(
            message, code="wrong-value", at=Location(target), accepted=f"a file in {source.resolve().parent}"
        ) from None
    try:
        draft = drafted(name, target.parent)
        write_atomically(target, draft.text)
    except OSError as error:
        raise UserError(
            f"the file cannot be written: {error.strerror}", code="unwritable", at=Location(target)
        ) from error
    return target, draft


def choose_launched(unit: SourceUnit, name: str | None) -> tuple[SourceKernel, ...]:
    """Return the kernels to draft: the named one, the only one, or those that the host launches, in its order.

    Raises:
        UserError: There is no such kernel, none of several is launched, or one has no result.
    """
    kernels, source = unit.kernels, unit.file
    launched = launched_kernels(unit.whole, kernels) if name is None and len(kernels) > 1 else ()
    has_structures = any(
        parameter.dtype is None and not parameter.is_pointer for kernel in launched for parameter in kernel.parameters
    )
    is_sequence = launched and (len(launched) == 1 or not has_structures)
    chosen = launched if is_sequence else (choose(kernels, name, source),)
    for kernel in chosen:
        check_result(kernel, source)
    return chosen


def check_result(kernel: SourceKernel, source: Path) -> None:
    """Check that a kernel may have an output: an array, a tensor map, or a parameter of unknown type.

    Raises:
        UserError: All its parameters are numbers, as those of a kernel that only prints.
    """
    if any(parameter.is_pointer or parameter.dtype is None for parameter in kernel.parameters):
        return
    words = "".join(f" {re.sub('[a-z]+', _initial, parameter.dtype or '')}=1" for parameter in kernel.parameters)
    raise UserError(
        f"the kernel {kernel.qualified_name} has no array parameter, so there is no result to check",
        code="unsupported",
        at=Location(source, kernel.line),
        key="arguments",
        accepted="a parameter that points to the result; to execute the kernel as it is and see what it prints: "
        f"lab emulate {source.name} --grid 1 --block 32{words}",
    )


def _initial(word: re.Match[str]) -> str:
    """Return the prefix `lab emulate` uses for a type: `i` for `int32`."""
    return word[0][:1]


def choose(kernels: tuple[SourceKernel, ...], name: str | None, source: Path) -> SourceKernel:
    """Return the kernel with a name, with or without its namespaces, or the only one.

    Raises:
        UserError: No kernel matches, or several do.
    """
    qualified_names = [candidate.qualified_name for candidate in kernels if name == candidate.name]
    matches = entry.choose(
        kernels,
        qualified_names[0] if qualified_names else name if kernels else None,
        at=Location(source),
        key="--kernel",
    )
    return matches[0]
