"""The line table of a cubin: the source line of each instruction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.isa.model import SourceLocation


@dataclass(frozen=True, slots=True)
class LineTable:
    """The line table of one cubin, as `lab.toolchain.cubin.debug_lines` reads it.

    Attributes:
        files: Path of every source file.
        rows: Maps a function to the byte offsets at which a source line begins; each maps to an index into `files`
            and a line, from 1. An instruction belongs to the nearest row at or before it.
    """

    files: tuple[str, ...] = ()
    rows: Mapping[str, Mapping[int, tuple[int, int]]] = field(default_factory=dict)

    def starts(self, function: str) -> dict[int, SourceLocation]:
        """Return the byte offsets of a function at which a source line begins, with that line."""
        return {
            offset: SourceLocation(self.files[file], line)
            for offset, (file, line) in self.rows.get(function, {}).items()
            if 0 <= file < len(self.files)
        }
