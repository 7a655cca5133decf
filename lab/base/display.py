"""HTML of values in notebooks.

Values belong to low rooms, and the words about them to the commands. So a value asks here, and `lab` says where the
words are: `lab.cli.notebook`, which takes a moment to import.
"""

from __future__ import annotations

from collections.abc import Callable

_renderer: Callable[[object], str] | None = None


def use(renderer: Callable[[object], str]) -> None:
    """Set the function that returns the HTML of a `Displayed` value."""
    global _renderer  # noqa: PLW0603 - one for the process
    _renderer = renderer


class Displayed:
    """A value that a notebook shows as the command prints it."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        """Return HTML; None, for the plain text, where nobody set a renderer."""
        return None if _renderer is None else _renderer(self)
