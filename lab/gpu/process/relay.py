"""The output of a GPU worker: `printf` of a kernel is written by the driver, to the process's standard output."""

from __future__ import annotations

import ctypes
import os
import threading
from codecs import getincrementaldecoder
from typing import Final

from lab.base.terminal import write

_LINE_BUFFERED: Final = 1
"""`_IOLBF` of C on Linux."""


class StdoutRelay:
    """Writes what this process prints on standard output to standard error, as text of others.

    C's own buffer is emptied with each line, so that a process that is killed loses little.
    """

    def __init__(self) -> None:
        """Begin."""
        self._end, end = os.pipe()
        os.dup2(end, 1)
        os.close(end)
        self._c = ctypes.CDLL(None)
        self._c.setvbuf(ctypes.c_void_p.in_dll(self._c, "stdout"), None, _LINE_BUFFERED, ctypes.c_size_t(0))
        self._thread = threading.Thread(target=self._relay, name="lab-stdout", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Wait until everything is written."""
        self._c.fflush(None)
        os.dup2(2, 1)
        self._thread.join()

    def _relay(self) -> None:
        decoder = getincrementaldecoder("utf-8")("backslashreplace")
        while part := os.read(self._end, 1 << 16):
            write(decoder.decode(part), error=True, end="")
