"""The one place where text is written to standard output and standard error.

Questions, labels, logs of compilers and what kernels print come from files of others. A terminal obeys
control characters in them, and changes its title, its clipboard or the order of letters. They are written as escapes.
"""

from __future__ import annotations

import io
import re
import sys
import warnings
from typing import Final

_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""C0 but for tab and line feed, DEL, C1, and what sets the direction of text or ends lines."""


def visible(text: str) -> str:
    r"""Return a text with its control characters as escapes: ``\u001b``. Lines stay lines.

    The escapes are those of JSON, so that a JSON text keeps its meaning.
    """
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text.replace("\r\n", "\n"))


def write(text: str, *, error: bool = False, end: str = "\n") -> None:
    """Write a text to standard output, or, where it is about an `error`, to standard error."""
    stream = sys.stderr if error else sys.stdout
    stream.write(visible(text) + end)
    stream.flush()


def prepare() -> None:
    """Prepare this process's streams for any text.

    What their encoding lacks, in the name of a file for instance, is shown by its code. Warnings of packages, which may
    quote what they were given, are written as all else is.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning


def _show_warning(message: Warning | str, category: type[Warning], *where: object, **more: object) -> None:
    del where, more
    write(f"{category.__name__}: {message}", error=True)
