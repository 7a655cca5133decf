"""A source without a front matter: its declaration comes from the experiment, and parameters reach it as macros."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.base.expressions import Scalar
from lab.isa.cuda.macros import with_macros
from lab.templates.front_matter import Template


@dataclass(frozen=True)
class PlainTemplate(Template):
    """A source as its user wrote it.

    Attributes:
        text: The source.
    """

    text: str = ""

    def rendered(self, parameters: Mapping[str, Scalar]) -> str:
        """Return the source with a macro for every parameter; PTX has none.

        Raises:
            UserError: The source defines a parameter's macro itself.
        """
        return with_macros(self.text, parameters, self.name) if parameters else self.text
