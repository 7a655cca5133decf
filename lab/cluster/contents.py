"""A host's store of sources, PTX and cubins by hash, so that each is sent to a host only once.

Each object is a file that is written atomically; a modified or truncated one counts as missing. If the disk is full,
objects are kept in this worker's memory instead, and the run goes on.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path

from lab.cluster.letters import Content, from_bytes, is_whole, to_bytes
from lab.toolchain.cache import default_folder

MOST_BYTES = 2**30
"""Size limit of a host's store in bytes; the oldest objects are removed first and sent again when needed."""

_MOST_IN_MEMORY = 64 * 2**20
_PRUNE_EVERY = 512
"""Number of objects written between two checks of the store's size."""


class Contents:
    """A store of objects in a folder."""

    def __init__(self, folder: Path | None = None, *, most_bytes: int = MOST_BYTES) -> None:
        """Open a store; its folder is created with the first object.

        Args:
            folder: Its folder; in lab's cache folder by default.
            most_bytes: Its size after pruning.
        """
        self._folder = folder or default_folder() / "contents"
        self._most, self._written = most_bytes, 0
        self._memory: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def missing(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the names whose objects are not stored here."""
        return tuple(name for name in names if name not in self._memory and not self._file(name).is_file())

    def part(self, name: str) -> Content:
        """Return an object.

        Raises:
            KeyError: It is missing or damaged.
        """
        with self._lock:
            in_memory = self._memory.get(name)
        if in_memory is not None:
            return from_bytes(name, in_memory)
        file = self._file(name)
        try:
            stored = file.read_bytes()
        except OSError:
            raise KeyError(name) from None
        if not is_whole(name, stored):
            with contextlib.suppress(OSError):
                file.unlink()
            raise KeyError(name)
        return from_bytes(name, stored)

    def keep(self, name: str, content: Content) -> None:
        """Store an object on disk, or in memory if that fails."""
        stored = to_bytes(content)
        try:
            self._write(self._file(name), stored)
        except OSError:
            self._hold(name, stored)

    def _file(self, name: str) -> Path:
        return self._folder / name[1:3] / name

    def _write(self, file: Path, stored: bytes) -> None:
        if file.is_file():
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=".")
        try:
            with open(handle, "wb") as target:  # noqa: PTH123 - it is open already
                target.write(stored)
            Path(name).replace(file)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
        with self._lock:
            self._written += 1
            prune = self._written % _PRUNE_EVERY == 0
        if prune:
            self.prune()

    def _hold(self, name: str, stored: bytes) -> None:
        with self._lock:
            self._memory[name] = stored
            while len(self._memory) > 1 and sum(map(len, self._memory.values())) > _MOST_IN_MEMORY:
                self._memory.popitem(last=False)

    def prune(self) -> None:
        """Remove the oldest objects until the store is within its limit."""
        stored_files: list[tuple[float, int, str]] = []
        for place, _, names in os.walk(self._folder):
            for name in names:
                path = os.path.join(place, name)  # noqa: PTH118 - tens of thousands of them
                with contextlib.suppress(OSError):
                    facts = os.stat(path)  # noqa: PTH116
                    stored_files.append((facts.st_mtime, facts.st_size, path))
        total = sum(size for _, size, _ in stored_files)
        for _, size, path in sorted(stored_files):
            if total <= self._most:
                return
            with contextlib.suppress(OSError):
                Path(path).unlink()
            total -= size
