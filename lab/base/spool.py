"""A mapping on disk, for values that would take too much memory."""

from __future__ import annotations

import pickle
import tempfile
import zlib
from collections.abc import Hashable
from typing import IO, Any, Final

_LEVEL: Final = 1
"""Compression level: an emulation record shrinks to a sixth; higher levels save little more."""


class Spool:
    """A mapping that pickles its values into an anonymous temporary file.

    Only the keys and the offsets of the values are in memory. The file is created with the first value, in the system's
    temporary folder, and vanishes with this process.
    """

    def __init__(self) -> None:
        """Create an empty mapping."""
        self._file: IO[bytes] | None = None
        self._places: dict[Hashable, tuple[int, int]] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._places

    def __len__(self) -> int:
        return len(self._places)

    def __setitem__(self, key: Hashable, value: Any) -> None:  # noqa: ANN401 - anything picklable
        """Store a value.

        Raises:
            OSError: The file cannot be written.
        """
        data = zlib.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), _LEVEL)
        self._file = self._file or tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - it lives as long as this
        self._places[key] = (self._file.seek(0, 2), len(data))
        self._file.write(data)

    def __getitem__(self, key: Hashable) -> Any:  # noqa: ANN401
        """Return a copy of a value.

        Raises:
            KeyError: There is none.
        """
        start, size = self._places[key]
        assert self._file is not None  # noqa: S101 - it holds the value
        self._file.seek(start)
        return pickle.loads(zlib.decompress(self._file.read(size)))  # noqa: S301 - our own
