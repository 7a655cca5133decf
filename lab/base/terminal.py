"""Output to the terminal: the only place that writes to standard output and standard error.

Questions, labels, compiler logs and the output of kernels come from other people's files. Control characters in them
could change a terminal's title, its clipboard or the order of letters, so they are written as escapes.
"""

from __future__ import annotations

import io
import re
import sys
import warnings
from typing import Final

_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""C0 controls except tab and line feed, DEL, C1, and characters that set the text direction or end lines."""


def visible(text: str) -> str:
    r"""Return a text with its control characters escaped, such as ``\u001b``; line feeds are kept.

    The escapes are those of JSON, so that a JSON text keeps its meaning.
    """
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text.replace("\r\n", "\n"))


def write(text: str, *, error: bool = False, end: str = "\n") -> None:
    """Write a text to standard output or, for an `error`, to standard error."""
    stream = sys.stderr if error else sys.stdout
    stream.write(visible(text) + end)
    stream.flush()


def prepare() -> None:
    """Set up this process's standard streams for any text.

    Characters that their encoding lacks, such as in a file name, are written as escapes. Warnings of packages may quote
    their input, so they are sanitised like all other output.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning


def _show_warning(message: Warning | str, category: type[Warning], *position: object, **options: object) -> None:
    del position, options
    write(f"{category.__name__}: {message}", error=True)
