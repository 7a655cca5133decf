"""Hears what the fuzzer's process does while an input is read: files that it changes, processes, connections."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Any

_TRIES, _BETWEEN_TRIES_S = 500, 0.002


class Watch:
    """Hears what Python does while an input is read; `lab`'s own processes and their socket are expected."""

    CHANGES = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod")
    STARTS = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.startfile", "pty.spawn")
    REACHES = ("socket.connect", "socket.bind", "socket.getaddrinfo", "ctypes.dlopen", "webbrowser.open")

    def __init__(self) -> None:
        """Hear nothing yet; a hook cannot be taken away again, so that there is one for all."""
        self.reading, self.inside, self.heard = False, "", list[str]()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.reading:
            return
        if event == "open":
            path, mode, flags = arguments
            if isinstance(path, int) or self._is_inside(path):
                return  # a descriptor, whose opening was heard
            writes = any(letter in (mode or "") for letter in "wax+") or flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes and not str(path).endswith("fuzz.cu.j2") and path != os.devnull:
                self.heard.append(f"opened {str(path)!r} for writing")
        elif event == "subprocess.Popen":
            if not self._is_ours([str(word) for word in arguments[1]]):
                self.heard.append(f"started {arguments[1]!r}")
        elif event in self.CHANGES and all(self._is_inside(path) for path in arguments if isinstance(path, str)):
            return
        elif event in {*self.CHANGES, *self.STARTS, *self.REACHES} and "/pymp-" not in repr(arguments):
            self.heard.append(f"{event}{arguments!r}"[:200])

    def _is_inside(self, path: object) -> bool:
        """Return whether a file is in the folder that is read; a name alone is relative to a handle of its folder."""
        return bool(self.inside) and ("/" not in str(path) or f"{path}/".startswith(f"{self.inside}/"))

    @staticmethod
    def _is_ours(words: list[str]) -> bool:
        """The renderer, and multiprocessing's server, whose workers ask operators of the user's own for problems."""
        served = ("lab.templates.rendering", "multiprocessing.forkserver", "multiprocessing.resource_tracker")
        return words[0] == sys.executable and any(name in word for word in words for name in served)

    def foreign_processes(self) -> list[str]:
        """Command lines of processes below this one that are neither the renderer nor its own."""
        proc, parents = Path("/proc"), dict[int, int]()
        for place in proc.iterdir():
            if place.name.isdigit():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
        below = {os.getpid()}
        for _ in range(5):
            below |= {child for child, parent in parents.items() if parent in below}
        lines = []
        for one in below - {os.getpid()}:  # of these alone: threads of the kernel never have words
            with contextlib.suppress(OSError):
                lines.append(command_line(proc / str(one)))
        return [line for line in lines if not self._is_ours(line.split("\0"))]


def command_line(place: Path) -> str:
    """Read a process's words, each followed by a NUL, from its folder in /proc.

    The kernel closes a new program's inherited files, which ends `subprocess.Popen`, before it sets the words: for a
    moment there are none. A zombie has none any more and is told by its name, in the parentheses that `stat` has.
    """
    for _ in range(_TRIES):
        if words := (place / "cmdline").read_text():
            return words
        state = (place / "stat").read_text()
        if state.rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(_BETWEEN_TRIES_S)
    return state[state.index("(") : state.rindex(")") + 1]


WATCH = Watch()
