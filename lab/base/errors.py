"""Every error that `lab` raises on purpose.

::

    LabError
    ├── UserError            the input is wrong; the user can mend it            exit code 2
    ├── MissingToolError     the machine lacks what was asked for                exit code 3
    ├── CompileError         a compiler refused one variant; carries its log
    ├── ReaderError          PTX or SASS text that a reader cannot take
    └── StoreError           a run directory that cannot be read or written      exit code 3

A stage that fails for one variant catches its own errors and returns a failure value; only what
ends the whole command travels to `lab.cli.main`, which prints it without a traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


class LabError(Exception):
    """The root of the tree in the module's docstring."""


@dataclass(frozen=True)
class Location:
    """A place in a user's file.

    Attributes:
        file: The file as the user named it.
        line: Line, counted from 1, or None where the whole file is meant.
        column: Column, counted from 1, or None.
    """

    file: Path | str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)


class UserError(LabError):
    """A mistake in what the user wrote: where it is, what was found, what would be accepted."""

    def __init__(
        self,
        message: str,
        *,
        at: Location | None = None,
        key: str | None = None,
        found: object = None,
        accepted: Sequence[object] | str | None = None,
        suggestion: str | None = None,
    ) -> None:
        """Describe the mistake.

        Args:
            message: One sentence without a final full stop.
            at: File and line.
            key: Dotted path of the offending key, such as ``kernels[0].parameters.unroll``.
            found: The offending value.
            accepted: What would have been accepted: a list of values, or a phrase.
            suggestion: What to write instead.
        """
        self.message, self.at, self.key, self.found = message, at, key, found
        self.accepted, self.suggestion = accepted, suggestion
        super().__init__(str(self))

    def placed(self, at: Location | None, key: str | None) -> UserError:
        """Return the same mistake at another place and under another key."""
        return UserError(
            self.message,
            at=at,
            key=key,
            found=self.found,
            accepted=self.accepted,
            suggestion=self.suggestion,
        )

    def __str__(self) -> str:
        head = f"{self.at}: {self.message}" if self.at else self.message
        lines = [head]
        if self.key is not None:
            lines.append(f"  key: {self.key}")
        if self.found is not None:
            lines.append(f"  found: {self.found!r}")
        if self.accepted is not None:
            accepted = self.accepted if isinstance(self.accepted, str) else ", ".join(map(str, self.accepted))
            lines.append(f"  accepted: {accepted}")
        if self.suggestion is not None:
            lines.append(f"  suggestion: {self.suggestion}")
        return "\n".join(lines)


class MissingToolError(LabError):
    """Something the command needs is not on this machine; the message ends in how to install it."""


class CompileError(LabError):
    """A compiler refused the source."""

    def __init__(self, message: str, log: str, command: str) -> None:
        """Keep the compiler's own words.

        Args:
            message: One line, the first error of the log.
            log: Everything the compiler printed.
            command: The command or API call, as one could repeat it.
        """
        self.log, self.command = log, command
        super().__init__(message)


class ReaderError(LabError):
    """PTX or SASS text that a reader does not understand."""

    def __init__(self, message: str, at: Location) -> None:
        """Name the line that could not be read."""
        self.at = at
        super().__init__(f"{at}: {message}")


class StoreError(LabError):
    """A run directory that cannot be read or written."""


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Suggest the known name nearest to a mistyped one.

    Returns:
        ``did you mean 'x'?``, or None where nothing is close.
    """
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else None
