"""A disk that fills up at any moment at which a process writes, found by listening and not by a list of places."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_CHANGES = frozenset({"os.mkdir", "os.rename", "os.truncate", "os.link", "os.symlink", "tempfile.mkstemp"})


@dataclass(frozen=True)
class Ended:
    """The outcome of work on a disk that fills up.

    Attributes:
        moment: When the disk was full, from 1; 0 where that moment never came.
        error: Names of the error's class and of those that it is derived from; empty where there was none.
        text: The error in words.
    """

    moment: int
    error: tuple[str, ...]
    text: str


class Disk:
    """Hears what its process does to files below a folder, and to databases: these are the moments.

    It cannot be taken away again, and belongs into a child.
    """

    def __init__(self, below: Path, reached: Callable[[int], bool], *, recovers: bool) -> None:
        """Listen.

        Args:
            below: Where moments count; all databases count.
            reached: Whether the disk is full at the moment of this number.
            recovers: There is room again after that moment.
        """
        self._below, self._reached, self._recovers = str(below), reached, recovers
        self._moments, self.full_at = 0, 0
        sys.addaudithook(self._hear)
        self._connect = sqlite3.connect
        sqlite3.connect = self._connected  # type: ignore[assignment]  # SQLite opens its files by itself

    def _connected(self, *given: Any, **named: Any) -> sqlite3.Connection:
        made: sqlite3.Connection = self._connect(*given, **named)
        made.set_trace_callback(lambda _: self._moment())
        return made

    def _hear(self, event: str, given: tuple[Any, ...]) -> None:
        writes = event in _CHANGES
        if event == "open":
            writes = any(letter in (given[1] or "") for letter in "wax+") or given[2] & (os.O_WRONLY | os.O_RDWR)
        if writes and self._is_below(str(given[0])) and self._moment():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _is_below(self, path: str) -> bool:
        """Return whether a file is one of the folder; `lab.base.folder` names files relative to a handle of theirs."""
        return path.startswith(self._below) or "/" not in path

    def _moment(self) -> bool:
        """Count; whether the disk becomes full now."""
        self._moments += 1
        if self.full_at or not self._reached(self._moments):
            return False
        self.full_at = self._moments
        if not self._recovers:  # files can still be opened, and nothing can be written into them
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        return True


def on_a_full_disk(work: Callable[[], object], below: Path, at: int, *, recovers: bool = False) -> Ended:
    """Do work in a child, on a disk that is full from one moment on."""
    (ended,) = _told(work, below, lambda moment: moment == at, recovers=recovers)
    return ended


def at_every_moment(work: Callable[[], object], below: Path) -> list[Ended]:
    """Do work once in a child; each moment takes place in a child of its own, too, whose disk is full from then on.

    Children remove no file, and must leave nothing else that the work meets later.
    """
    return list(_told(work, below, lambda _: _is_another(), recovers=False))


def _is_another() -> bool:
    """Become two processes, of which the first waits for the other; whether this is the other."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return False
    os.unlink = os.remove = lambda *_, **__: None  # the temporary file of this moment is the other's, too
    return True


def _told(
    work: Callable[[], object], below: Path, reached: Callable[[int], bool], *, recovers: bool
) -> Iterator[Ended]:
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            _work(work, Disk(below, reached, recovers=recovers), theirs)
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, encoding="utf-8") as answers:
        for line in answers:
            said = json.loads(line)
            yield Ended(said["moment"], tuple(said["error"]), said["text"])
    os.waitpid(child, 0)


def _work(work: Callable[[], object], disk: Disk, answer: int) -> None:
    error: tuple[str, ...] = ()
    text = ""
    try:
        work()
    except BaseException as raised:  # noqa: BLE001 - whatever it is, the test looks at it
        error, text = tuple(kind.__name__ for kind in type(raised).__mro__), str(raised)
    os.write(answer, json.dumps(asdict(Ended(disk.full_at, error, text))).encode() + b"\n")
