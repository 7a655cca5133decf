"""Write the experiment file of a plain CUDA source, from its kernel's signature."""

from __future__ import annotations

import re
from pathlib import Path

from lab.base import yamlfile
from lab.base.errors import Location, UserError
from lab.base.files import write_atomically
from lab.isa.cuda.kernels import SourceKernel, read_kernels
from lab.templates.plain import entry
from lab.templates.plain.draft import draft


def new(source: Path, output: Path | None = None, kernel: str | None = None, *, force: bool = False) -> Path:
    """Write an experiment file.

    Args:
        source: A `.cu` file.
        output: The file to write; by default, beside the source and named like it.
        kernel: The kernel's name; None means the only one.
        force: Replace a file that exists.

    Returns:
        The file that was written.

    Raises:
        UserError: The source cannot be read or has no such kernel, the kernel has no result, or the file exists.
    """
    if source.suffix not in (".cu", ".cuh"):
        raise UserError(
            "not a CUDA source file", code="syntax", at=Location(source), found=source.suffix, accepted=".cu"
        )
    text = yamlfile.read_text(source)
    chosen = choose(read_kernels(text), kernel, source)
    check_result(chosen, source)
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
            message, code="unsupported", at=Location(target), accepted=f"a file in {source.resolve().parent}"
        ) from None
    try:
        write_atomically(target, draft(text, name, chosen))
    except OSError as error:
        raise UserError(
            f"the file cannot be written: {error.strerror}", code="unwritable", at=Location(target)
        ) from error
    return target


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
