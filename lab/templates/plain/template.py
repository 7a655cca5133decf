"""Plain sources without front matter: the experiment declares them, and parameters become macros."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lab.base.expressions import Scalar
from lab.isa.cuda.definitions import definitions
from lab.isa.cuda.kernels import SourceKernel, base_name, read_kernels
from lab.isa.cuda.names import declared_line, template_line, used_names
from lab.templates.front_matter import Template
from lab.templates.plain.bound import BoundArgument
from lab.templates.plain.device import device_part, holds_kernel
from lab.templates.plain.lambdas import with_lambdas
from lab.templates.plain.macros import chosen_macros, shielded, with_macros
from lab.toolchain.includes import Tree, gather, inlined
from lab.toolchain.nvrtc.standard import IMPLICIT, always_there

_DECLARED = re.compile(r"\btypedef\b[^;{}]*?(\w+)\s*;|\busing\s+(\w+)\s*=|\bvoid\s+(\w+)\s*\(")


@dataclass(frozen=True)
class PlainTemplate(Template):
    """A source as written by its user.

    Attributes:
        text: The source.
        instantiated: Parameters that the name of a kernel mentions: ``add<float, {block}>`` mentions `block`.
        constant_memory: Name and element type of what the experiment puts into constant memory.
        bound: What stands for the kernel's parameters where the experiment has an operator; empty where the experiment
            declares the arguments themselves.
        named: Fields of the problem that the experiment names for this kernel.
        tree: The files that the source may include; by default those of the roots.
    """

    text: str = ""
    instantiated: frozenset[str] = frozenset()
    constant_memory: tuple[tuple[str, str], ...] = ()
    bound: tuple[BoundArgument, ...] = ()
    named: frozenset[str] = frozenset()
    tree: Tree | None = None

    def unsupported(self, problem: Mapping[str, Scalar]) -> tuple[str, list[Scalar]] | None:
        """Return an extension of the problem that the experiment does not name for this kernel; see `Template`."""
        extensions: Sequence[str] = getattr(problem, "extensions", ())
        requested = [field for field in extensions if field in problem and field not in self.named]
        return (requested[0], ["no value"]) if requested else None

    @cached_property
    def own_kernels(self) -> tuple[SourceKernel, ...]:
        """The kernels that the file itself defines; PTX has none of these."""
        return read_kernels(self.text) if not self.name.endswith(".ptx") else ()

    @cached_property
    def kernels(self) -> tuple[SourceKernel, ...]:
        """Kernels defined in the source; empty for PTX."""
        return read_kernels(inlined(*self._gathered)) if not self.name.endswith(".ptx") else ()

    def kernels_named(self, expression: str) -> tuple[SourceKernel, ...]:
        """Return the kernels that an expression such as `ns::add<float>` may denote."""
        name = base_name(expression)
        return tuple(kernel for kernel in self.kernels if name in (kernel.name, kernel.qualified_name))

    def rendered(self, parameters: Mapping[str, Scalar]) -> str:
        """Return the source with a macro for every parameter; PTX is unchanged.

        A parameter that a kernel's name mentions is no macro where the source uses the word for something of its own.

        Raises:
            UserError: The source defines or declares the name of another parameter.
        """
        return self.unit(parameters, device_only=False)[0]

    def unit(self, parameters: Mapping[str, Scalar], *, device_only: bool) -> tuple[str, dict[str, str]]:
        """Return the translation unit: the source with macros, and the user's included files.

        Args:
            parameters: The variant's parameters.
            device_only: Leave out what only the host can use, for a compiler that refuses it.

        Raises:
            UserError: The source defines or declares the name of another parameter, or a file cannot be read.
        """
        text, included = self._device_part if device_only else self._gathered
        if self.name.endswith(".ptx"):
            return text, dict(included)
        macros = {
            name: value
            for name, value in parameters.items()
            if name not in self.instantiated or not _declare(name, text, included.values())
        }
        chosen = chosen_macros(text, macros, self.file) if macros else {}
        defines = "".join(f"#define {name} {value}\n" for name, value in chosen.items())
        implied = implied_headers([defines, text, *included.values()]) if device_only else ""
        if chosen:
            text = with_macros(text, macros, self.file, own=included)
            included = {name: shielded(content, chosen, own=included) for name, content in included.items()}
        return (f"{implied}#line 1\n{text}" if implied else text), dict(included)

    @cached_property
    def _gathered(self) -> tuple[str, dict[str, str]]:
        return gather(self.text, self.tree or self.roots) if not self.name.endswith(".ptx") else (self.text, {})

    @cached_property
    def _device_part(self) -> tuple[str, dict[str, str]]:
        text, included = self._gathered
        if self.name.endswith(".ptx"):
            return text, included
        return _device_parts(text, included)


def _declare(name: str, text: str, included: Iterable[str]) -> bool:
    """Return whether a source or an included file declares a name itself.

    Of the source's own kernels, names of parameters are left to `chosen_macros`.
    """
    return declared_line(text, name) is not None or any(
        line(content, name) is not None for content in included for line in (declared_line, template_line)
    )


def device_unit(text: str, included: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return a source and its included files without host code, for a device-only compiler.

    What only the host can use is blanked, and headers that nvcc brings are named in front; lines keep their numbers.
    """
    text, parts = _device_parts(text, included)
    implied = implied_headers([text, *parts.values()])
    return (f"{implied}#line 1\n{text}" if implied else text), parts


def _device_parts(text: str, included: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    every = [text, *included.values()]
    if not holds_kernel(every):
        return text, dict(included)
    every = [with_lambdas(content) for content in every]
    parts = [device_part(one, every) for one in every]
    return parts[0], dict(zip(included, parts[1:], strict=True))


def implied_headers(texts: Iterable[str]) -> str:
    """Return include lines for names that nvcc provides implicitly, such as `M_PI`, if the texts use them.

    A header of which the texts define or declare a name themselves is left out.
    """
    every = list(texts)
    used = frozenset().union(*(used_names(text) for text in every))
    own = {definition.name for text in every for definition in definitions(text)}
    own |= {name for text in every for pair in _DECLARED.findall(text) for name in pair}
    implied = [header for header, names in IMPLICIT.items() if used & names and not own & used & names]
    return "".join(f"#include <{header}>\n" for header in (*implied, *always_there(every)))
