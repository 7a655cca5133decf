"""File access of an agent's calls: paths in or below one root, and files that name nothing outside of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.base.errors import Location, UserError
from lab.base.files import within
from lab.base.yamlfile import read_text

_YAML: Final = (".yaml", ".yml")
_OUTSIDE = re.compile(r"(?:^|[\s'\"\[{(,:=])(?:/[\w.]|~)|(?:^|[\s'\"\[{(,/=])\.\.(?:/|['\"\]},\s]|$)", re.MULTILINE)
_PYTHON = re.compile(r"\.py\b")


@dataclass(frozen=True, slots=True)
class Confinement:
    """The limits of file access.

    Attributes:
        root: The folder that holds everything an agent may name.
        python: Files may name Python code of their own, which lab runs in workers.
    """

    root: Path
    python: bool = False

    def path(self, name: str, key: str) -> Path:
        """Return a path that an agent names, relative to the root; links are followed.

        Raises:
            UserError: It leads out of the root.
        """
        return within(name, self.root, at=Location(name), key=key)

    def file(self, name: str, key: str) -> Path:
        """Return a file that an agent names; a YAML file and a Python file are checked for what they name or hold.

        Raises:
            UserError: It leads out of the root, names a file outside of it, or is Python without permission.
        """
        path = self.path(name, key)
        if path.suffix == ".py" and not self.python:
            raise self._refused(name, key, "this file runs Python")
        if path.suffix in _YAML:
            text = read_text(path)
            if match := _OUTSIDE.search(text):
                line = text.count("\n", 0, match.start() + 1) + 1
                raise UserError(
                    "the file names a path outside of the server's root",
                    code="refused",
                    at=Location(name, line),
                    key=key,
                    found=text.splitlines()[line - 1][:100],
                    accepted="relative paths without ..; blanks on both sides of a division",
                )
            if _PYTHON.search(text) and not self.python:
                raise self._refused(name, key, "the file names Python code, which lab would run")
        return path

    @staticmethod
    def _refused(name: str, key: str, message: str) -> UserError:
        return UserError(
            message,
            code="refused",
            at=Location(name),
            key=key,
            found=name,
            accepted="CUDA and PTX; Python where the server was started with --python",
        )
