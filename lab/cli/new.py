"""Writes the experiment file of a plain CUDA source, from the head of its kernel."""

from __future__ import annotations

import re
from pathlib import Path

from lab.base import yamlfile
from lab.base.errors import Location, UserError
from lab.base.files import write_atomically
from lab.isa.cuda.kernels import SourceKernel, read_kernels
from lab.templates.plain import entry
from lab.templates.plain.draft import Draft
from lab.templates.plain.draft_sequence import drafted_sequence
from lab.templates.plain.launches import launched_kernels


def new(source: Path, output: Path | None = None, kernel: str | None = None, *, force: bool = False) -> Path:
    """Write an experiment file; see `write_draft`."""
    return write_draft(source, output, kernel, force=force)[0]


def write_draft(
    source: Path, output: Path | None = None, kernel: str | None = None, *, force: bool = False
) -> tuple[Path, Draft]:
    """Write an experiment file.

    Args:
        source: A `.cu` file.
        output: The file to write; by default, beside the source and named like it.
        kernel: The kernel's name; None means the only one.
        force: Replace a file that exists.

    Returns:
        The file that was written, and what is in it.

    Raises:
        UserError: The source cannot be read or has no such kernel, the kernel has no result, or the file exists.
    """
    if source.suffix not in (".cu", ".cuh"):
        raise UserError("this is no CUDA source", at=Location(source), found=source.suffix, accepted=".cu")
    text = yamlfile.read_text(source)
    chosen = choose_launched(text, kernel, source)
    target = output or source.with_suffix(".yaml")
    if target.exists() and not force:
        raise UserError("the file exists already", at=Location(target), accepted="another --output, or --force")
    try:
        name = source.resolve().relative_to(target.resolve().parent).as_posix()
    except ValueError:
        message = "the experiment file must lie in the folder of its source, or above"
        raise UserError(message, at=Location(target), accepted=f"a file in {source.resolve().parent}") from None
    try:
        draft = drafted_sequence(text, name, chosen)
        write_atomically(target, draft.text)
    except OSError as error:
        raise UserError(f"the file cannot be written: {error.strerror}", at=Location(target)) from error
    return target, draft


def choose_launched(text: str, name: str | None, source: Path) -> tuple[SourceKernel, ...]:
    """Return the kernels to draft: the named one, the only one, or those that the host launches, in its order.

    Raises:
        UserError: There is no such kernel, none of several is launched, or one has no result.
    """
    kernels = read_kernels(text)
    launched = launched_kernels(text, kernels) if name is None and len(kernels) > 1 else ()
    has_structures = any(one.dtype is None and not one.is_pointer for kernel in launched for one in kernel.parameters)
    is_sequence = launched and (len(launched) == 1 or not has_structures)
    chosen = launched if is_sequence else (choose(kernels, name, source),)
    for kernel in chosen:
        check_result(kernel, source)
    return chosen


def check_result(kernel: SourceKernel, source: Path) -> None:
    """Check that a kernel takes something that it could write: an array, a tensor map, a type that nobody knows here.

    Raises:
        UserError: All its parameters are numbers, as those of a kernel that only prints.
    """
    if any(one.is_pointer or one.dtype is None for one in kernel.parameters):
        return
    words = "".join(f" {re.sub('[a-z]+', _initial, one.dtype or '')}=1" for one in kernel.parameters)
    raise UserError(
        f"the kernel {kernel.qualified_name} takes no array, so that it has no result to check",
        at=Location(source, kernel.line),
        key="arguments",
        accepted="a parameter that points to the result; to execute the kernel as it is and see what it prints: "
        f"lab emulate {source.name} --grid 1 --block 32{words}",
    )


def _initial(word: re.Match[str]) -> str:
    """Return how `lab emulate` begins the name of a type: `i` of `int32`."""
    return word[0][:1]


def choose(kernels: tuple[SourceKernel, ...], name: str | None, source: Path) -> SourceKernel:
    """Return the kernel with a name, with or without its namespaces, or the only one.

    Raises:
        UserError: There is none, or several.
    """
    named = [one.qualified_name for one in kernels if name == one.name]
    found = entry.choose(kernels, named[0] if named else name if kernels else None, at=Location(source), key="--kernel")
    return found[0]
