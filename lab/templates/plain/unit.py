"""Read a CUDA source with the files that it includes and the flags of its project."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from lab.base.errors import Location, UserError, did_you_mean
from lab.isa.cuda.kernels import SourceKernel, base_name, read_kernels
from lab.templates.plain.instances import TemplateInstance, template_instances
from lab.templates.plain.template import device_unit
from lab.toolchain.base import CompileRequest
from lab.toolchain.includes import Tree, gather, inlined, read_source
from lab.toolchain.options import accepted
from lab.toolchain.project import Flags, flags_of, merged, tree_of

MOST_BYTES = 64 * 2**20
SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".hh", ".hxx", ".inl")
"""Files that may hold kernels."""


@dataclass(frozen=True)
class SourceUnit:
    """A source with the files that it includes.

    Attributes:
        file: The source.
        text: What it holds, with include lines that name the files by their places.
        included: The files of the user's that it includes, by these names.
        tree: Where they may be.
        flags: How it is compiled.
    """

    file: Path
    text: str
    included: dict[str, str]
    tree: Tree
    flags: Flags

    @cached_property
    def whole(self) -> str:
        """The text to read: the macros of the flags, and the files in place of the lines that include them."""
        pairs = [macro.partition("=") for macro in self.flags.macros]
        defined = "".join(f"#define {name} {value if equals else 1}\n" for name, equals, value in pairs)
        return defined + inlined(self.text, self.included)

    def without_macros(self, names: Collection[str]) -> SourceUnit:
        """Return the source without some macros of its flags."""
        kept = tuple(macro for macro in self.flags.macros if macro.partition("=")[0] not in names)
        return replace(self, flags=replace(self.flags, macros=kept))

    @cached_property
    def kernels(self) -> tuple[SourceKernel, ...]:
        """The kernels of the source and of the files that it includes."""
        return read_kernels(self.whole)

    @cached_property
    def instances(self) -> tuple[TemplateInstance, ...]:
        """The instances of kernel templates that the host launches."""
        return template_instances(self.whole)

    def request(self, arch: str, kernels: Sequence[str], *, device_only: bool) -> CompileRequest:
        """Return what to compile.

        Args:
            arch: The target.
            kernels: Kernels as C++ expressions.
            device_only: The compiler refuses host code.
        """
        text, included = self.text, self.included
        if device_only:
            text, included = device_unit(text, included)
        options = self.flags.options
        return CompileRequest(text, self.file.name, arch, options, tuple(included.items()), tuple(kernels))

    def named(self, wanted: str) -> tuple[str, ...]:
        """Return the expressions of the kernels that a name means.

        Args:
            wanted: A name, with or without its namespaces, or an instance of a template.

        Raises:
            UserError: There is no such kernel, or nothing says what stands for a template's parameters.
        """
        base = base_name(wanted).removeprefix("::")
        meant = [kernel for kernel in self.kernels if base in (kernel.name, kernel.qualified_name)]
        if not meant:
            names = list(dict.fromkeys(kernel.title for kernel in self.kernels))
            raise UserError(
                "no such kernel",
                code="unknown-name",
                at=Location(self.file),
                key="--kernel",
                found=wanted,
                accepted=names or "a function declared __global__",
                suggestion=did_you_mean(base, [kernel.name for kernel in self.kernels]),
            )
        if "<" in wanted:
            return (wanted.replace(base, meant[0].qualified_name, 1),)
        if meant[0].template is None:
            return (meant[0].qualified_name,)
        found = tuple(instance.expression for instance in self.instances if instance.kernel in meant)
        if not found:
            raise no_instance(meant, self.file)
        return found


def no_instance(kernels: Sequence[SourceKernel], file: Path) -> UserError:
    """Return the error about templates of which nothing says an instance."""
    first = kernels[0]
    example = f"{first.qualified_name}<{', '.join(_example(one.kind) for one in first.template or ())}>"
    return UserError(
        "the kernel is a template, and the source launches no instance of it",
        code="wrong-value",
        at=Location(file, first.line if len(kernels) == 1 else None),
        key="--kernel",
        found=", ".join(dict.fromkeys(kernel.title for kernel in kernels)),
        accepted=f"an instance: --kernel '{example}'",
    )


def _example(kind: str) -> str:
    if kind in ("typename", "class"):
        return "float"
    return "true" if kind == "bool" else "128"


def read_unit(
    file: Path, *, root: Path | None = None, search: Sequence[Path] = (), macros: Sequence[str] = ()
) -> SourceUnit:
    """Read a source.

    Args:
        file: The source.
        root: The highest folder of which it may include files; by default that of its project.
        search: Further folders of headers.
        macros: `NAME` or `NAME=value`.

    Raises:
        UserError: A file cannot be read, an include line leads out of the tree, or a macro is malformed.
    """
    text = read_source(file, MOST_BYTES)
    flags = merged(Flags(tuple(search), tuple(macros)), _accepted(flags_of(file, root)))
    tree = tree_of(file, root, flags)
    return SourceUnit(file, *gather(text, tree), tree, flags)


def _accepted(flags: Flags) -> Flags:
    """Return flags without macros that no compiler here takes, as those with quotes in their values."""
    return replace(flags, macros=tuple(macro for macro in flags.macros if _is_accepted(f"-D{macro}")))


def _is_accepted(option: str) -> bool:
    try:
        accepted([option])
    except UserError:
        return False
    return True
