"""A source without a front matter: its declaration comes from the experiment, and parameters reach it as macros."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from lab.base.expressions import Scalar
from lab.isa.cuda.kernels import SourceKernel, read_kernels
from lab.isa.cuda.names import declared_line
from lab.templates.front_matter import Template
from lab.templates.plain.macros import with_macros


@dataclass(frozen=True)
class PlainTemplate(Template):
    """A source as its user wrote it.

    Attributes:
        text: The source.
        instantiated: Parameters that the name of a kernel mentions: ``add<float, {block}>`` mentions `block`.
    """

    text: str = ""
    instantiated: frozenset[str] = frozenset()

    @cached_property
    def kernels(self) -> tuple[SourceKernel, ...]:
        """The kernels that the source defines; PTX has none of these."""
        return read_kernels(self.text) if not self.name.endswith(".ptx") else ()

    def kernels_named(self, expression: str) -> tuple[SourceKernel, ...]:
        """Return the kernels that an expression such as `ns::add<float>` may mean."""
        name = expression.partition("<")[0].strip()
        return tuple(kernel for kernel in self.kernels if name in (kernel.name, kernel.qualified_name))

    def rendered(self, parameters: Mapping[str, Scalar]) -> str:
        """Return the source with a macro for every parameter; PTX has none.

        A parameter that a kernel's name mentions is no macro where the source uses the word for something of its own.

        Raises:
            UserError: The source defines or declares the name of another parameter.
        """
        macros = {
            name: value
            for name, value in parameters.items()
            if name not in self.instantiated or declared_line(self.text, name) is None
        }
        return with_macros(self.text, macros, self.file) if macros else self.text
