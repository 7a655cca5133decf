"""Sources, PTX and cubins of a host, by their hashes: each travels to a host once, whichever of its workers needs it.

A part is a file that appears whole. One that is altered or cut is not there. Where the disk is full, parts stay in this
worker's memory instead: that costs this host some memory, and the run nothing.
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
"""Most bytes of a host's store; the oldest parts go first. A part that is gone is asked for again."""

_MOST_IN_MEMORY = 64 * 2**20
_PRUNE_EVERY = 512
"""Parts written between two looks at the size of the store."""


class Contents:
    """A store of parts in a folder."""

    def __init__(self, folder: Path | None = None, *, most_bytes: int = MOST_BYTES) -> None:
        """Open a store; its folder is made when the first part comes.

        Args:
            folder: Where it is; in lab's cache folder by default.
            most_bytes: Its size after pruning.
        """
        self._folder = folder or default_folder() / "contents"
        self._most, self._written = most_bytes, 0
        self._memory: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def missing(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of the names whose parts are not here."""
        return tuple(name for name in names if name not in self._memory and not self._file(name).is_file())

    def part(self, name: str) -> Content:
        """Return a part.

        Raises:
            KeyError: It is not here, or not whole.
        """
        with self._lock:
            held = self._memory.get(name)
        if held is not None:
            return from_bytes(name, held)
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
        """Keep a part: on the disk, or in memory where that fails."""
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
        """Remove the oldest parts until the store is small enough."""
        found: list[tuple[float, int, str]] = []
        for place, _, names in os.walk(self._folder):
            for name in names:
                path = os.path.join(place, name)  # noqa: PTH118 - tens of thousands of them
                with contextlib.suppress(OSError):
                    facts = os.stat(path)  # noqa: PTH116
                    found.append((facts.st_mtime, facts.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self._most:
                return
            with contextlib.suppress(OSError):
                Path(path).unlink()
            total -= size
