"""Writes the experiment file of a CUDA source or a Triton function."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from lab.base import yamlfile
from lab.base.errors import Location, UserError, did_you_mean
from lab.base.files import write_atomically
from lab.isa.cuda.kernels import SourceKernel, read_kernels
from lab.templates.plain import entry
from lab.templates.plain.draft import draft
from lab.templates.plain.triton import read_functions
from lab.templates.plain.triton_draft import draft_triton


def new(source: Path, output: Path | None = None, kernel: str | None = None, *, force: bool = False) -> Path:
    """Write an experiment file.

    Args:
        source: A `.cu` file, or a `.py` file with a Triton function.
        output: The file to write; by default, beside the source and named like it.
        kernel: The kernel's name; None means the only one.
        force: Replace a file that exists.

    Returns:
        The file that was written.

    Raises:
        UserError: The source cannot be read or has no such kernel, the kernel has no result, or the file exists.
    """
    if source.suffix == ".py":
        return _new_triton(source, output, kernel, force=force)
    if source.suffix not in (".cu", ".cuh"):
        accepted = ".cu, or .py with a Triton function"
        raise UserError("this is no CUDA source", at=Location(source), found=source.suffix, accepted=accepted)
    text = yamlfile.read_text(source)
    chosen = choose(read_kernels(text), kernel, source)
    check_result(chosen, source)
    return _write(source, output, lambda name: draft(text, name, chosen), force=force)


def _new_triton(source: Path, output: Path | None, name: str | None, *, force: bool) -> Path:
    """Write the experiment file of a Triton function, which is not run."""
    text = yamlfile.read_text(source)
    functions = read_functions(text, str(source))
    called = {word for one in functions for word in one.called}
    launched = [one for one in functions if one.name not in called] or functions  # the others are its helpers
    chosen = [one for one in functions if one.name == name] if name else launched
    if len(chosen) != 1:
        raise UserError(
            "the file has no such Triton function" if name or not functions else "name the Triton function",
            at=Location(source),
            key="--kernel",
            found=name,
            accepted=[one.name for one in functions] or "a function under @triton.jit",
            suggestion=did_you_mean(name or "", [one.name for one in functions]),
        )
    return _write(source, output, lambda file: draft_triton(text, file, chosen[0]), force=force)


def _write(source: Path, output: Path | None, text: Callable[[str], str], *, force: bool) -> Path:
    """Write a draft, made from the source's name as the file shall call it."""
    target = output or source.with_suffix(".yaml")
    if target.exists() and not force:
        raise UserError("the file exists already", at=Location(target), accepted="another --output, or --force")
    try:
        name = source.resolve().relative_to(target.resolve().parent).as_posix()
    except ValueError:
        message = "the experiment file must lie in the folder of its source, or above"
        raise UserError(message, at=Location(target), accepted=f"a file in {source.resolve().parent}") from None
    try:
        write_atomically(target, text(name))
    except OSError as error:
        raise UserError(f"the file cannot be written: {error.strerror}", at=Location(target)) from error
    return target


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
