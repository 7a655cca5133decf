"""The exceptions that `lab` raises.

::

    LabError                                                                     exit code 2
    ├── UserError            the input is wrong; the user can fix it
    ├── MissingToolError     a tool, package or device is missing                exit code 3
    ├── ClusterError         a cluster that is, or has become, unusable          exit code 3
    ├── CompileError         a compiler refused one variant; carries its log
    ├── ReaderError          PTX or SASS text that cannot be parsed
    └── StoreError           a run directory that cannot be read or written      exit code 3

A stage that fails for one variant catches its own errors and returns a failure value. Only an error that ends the
whole command reaches `lab.cli.main`, which prints it without a traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

_MOST_FOUND = 300
"""Longest quotation of an offending value in a message, in characters."""


class LabError(Exception):
    """The root of the exception tree shown in the module's docstring.

    Attributes:
        exit_code: Exit code of a command that ends with this error.
    """

    exit_code: ClassVar[int] = 2


@dataclass(frozen=True)
class Location:
    """A place in a user's file.

    Attributes:
        file: The file, as given by the user.
        line: Line, from 1, or None for the whole file.
        column: Column, from 1, or None.
    """

    file: Path | str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(component) for component in (self.file, self.line, self.column) if component is not None)


Code = Literal[
    "conflict",  # two settings exclude each other
    "duplicate",  # a name, value or memory range is used twice
    "exists",  # a file would be overwritten
    "mismatch",  # shapes, counts or types of two things differ
    "missing-file",
    "missing-key",
    "nothing-left",  # a selection is empty
    "out-of-range",  # below or above a limit
    "refused",  # not done without permission: code, paths outside a folder, options
    "syntax",  # the text cannot be parsed
    "unknown-key",
    "unknown-name",
    "unreadable",
    "unsupported",
    "unwritable",
    "user-code",  # Python or a template of the user's failed
    "version",
    "wrong-type",
    "wrong-value",
]
"""The kind of a user's mistake. Codes are stable; messages may be reworded."""


def _restored(kind: type[UserError], arguments: tuple[object, ...], fields: dict[str, object]) -> UserError:
    """Return an unpickled error; the default would call its class without a code."""
    error = kind.__new__(kind, *arguments)
    vars(error).update(fields)
    return error


class UserError(LabError):
    """A mistake in the user's input: its location, the value found and the values accepted."""

    def __init__(
        self,
        message: str,
        *,
        code: Code,
        at: Location | None = None,
        key: str | None = None,
        found: object = None,
        accepted: Sequence[object] | str | None = None,
        suggestion: str | None = None,
    ) -> None:
        """Describe the mistake.

        Args:
            message: One sentence without a final full stop.
            code: The kind of mistake, for programs and tests.
            at: File and line.
            key: Dotted path of the offending key, such as ``kernels[0].parameters.unroll``.
            found: The offending value.
            accepted: What is accepted: a list of values, or a phrase.
            suggestion: What to write instead.
        """
        self.message, self.code, self.at, self.key, self.found = message, code, at, key, found
        self.accepted, self.suggestion = accepted, suggestion
        super().__init__(str(self))

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (type(self), self.args, vars(self))

    def placed(self, at: Location | None, key: str | None) -> UserError:
        """Return the same mistake with another location and key."""
        return UserError(
            self.message,
            code=self.code,
            at=at,
            key=key,
            found=self.found,
            accepted=self.accepted,
            suggestion=self.suggestion,
        )

    def below(self, key: str) -> UserError:
        """Return the same mistake with its key nested under another one."""
        return self.placed(self.at, f"{key}.{self.key}" if self.key else key)

    def __str__(self) -> str:
        head = f"{self.at}: {self.message}" if self.at else self.message
        lines = [head]
        if self.key is not None:
            lines.append(f"  key: {self.key}")
        if self.found is not None:
            lines.append(f"  found: {_brief(self.found)}")
        if self.accepted is not None:
            accepted = self.accepted if isinstance(self.accepted, str) else ", ".join(map(str, self.accepted))
            lines.append(f"  accepted: {accepted}")
        if self.suggestion is not None:
            lines.append(f"  suggestion: {self.suggestion}")
        return "\n".join(lines)


def _brief(value: object) -> str:
    """Return Python's representation of a value, truncated if long."""
    try:
        text = repr(value)
    except ValueError:  # an integer with more digits than Python is willing to write
        return "a very large integer"
    return text if len(text) <= _MOST_FOUND else f"{text[:_MOST_FOUND]}… ({len(text)} characters)"


class CollectedError(UserError):
    """Several mistakes in the user's input, reported at once."""

    def __init__(self, errors: Sequence[UserError]) -> None:
        """Collect at least one mistake; the message lists them one below the other."""
        self.errors = tuple(errors)
        first = self.errors[0]
        super().__init__(first.message, code=first.code, at=first.at, key=first.key)

    def below(self, key: str) -> UserError:
        """Return the same mistakes, each with its key nested under another one."""
        return CollectedError([error.below(key) for error in self.errors])

    def __str__(self) -> str:
        return "\n".join(map(str, self.errors))


def together(errors: Sequence[UserError]) -> UserError:
    """Return one error that reports all distinct mistakes, in order of their lines."""
    distinct = {str(error): error for error in errors}
    ordered = sorted(distinct.values(), key=lambda error: (error.at.line or 0) if error.at else 0)
    return ordered[0] if len(ordered) == 1 else CollectedError(ordered)


class MissingToolError(LabError):
    """A required tool is missing on this machine; the message ends with how to install it."""

    exit_code = 3


class ClusterError(LabError):
    """A cluster that is, or has become, unusable; everything finished is on disk."""

    exit_code = 3


class CompileError(LabError):
    """A compiler refused the source."""

    def __init__(self, message: str, log: str, command: str) -> None:
        """Store the compiler's output.

        Args:
            message: One line, the first error of the log.
            log: Everything the compiler printed.
            command: The command or API call, in a form that can be repeated.
        """
        self.log, self.command = log, command
        super().__init__(message)


class ReaderError(LabError):
    """PTX or SASS text that cannot be parsed."""

    def __init__(self, message: str, at: Location) -> None:
        """Describe what is wrong with a line of the text."""
        self.at = at
        super().__init__(f"{at}: {message}")


class StoreError(LabError):
    """A run directory that cannot be read or written."""

    exit_code = 3


def did_you_mean(word: str, candidates: Iterable[str]) -> str | None:
    """Suggest the known name closest to a misspelt one.

    Returns:
        ``did you mean 'x'?``, or None if no name is close.
    """
    names = list(candidates)
    close = [name for name in names if name.lower() == word.lower()]
    close = close or difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else None
