"""Relay of a GPU worker's standard output, to which the driver writes the kernels' `printf`."""

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
    """A relay from this process's standard output to its standard error.

    C's stdout is line-buffered, so that a killed process loses little output.
    """

    def __init__(self) -> None:
        """Redirect standard output and start the relay."""
        self._end, end = os.pipe()
        os.dup2(end, 1)
        os.close(end)
        self._c = ctypes.CDLL(None)
        self._c.setvbuf(ctypes.c_void_p.in_dll(self._c, "stdout"), None, _LINE_BUFFERED, ctypes.c_size_t(0))
        self._thread = threading.Thread(target=self._relay, name="lab-stdout", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the relay once everything is written."""
        self._c.fflush(None)
        os.dup2(2, 1)
        self._thread.join()

    def _relay(self) -> None:
        decoder = getincrementaldecoder("utf-8")("backslashreplace")
        while chunk := os.read(self._end, 1 << 16):
            write(decoder.decode(chunk), error=True, end="")
