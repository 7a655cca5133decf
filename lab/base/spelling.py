"""Conversion of file names to valid UTF-8."""

from __future__ import annotations

import re

_LONE = re.compile("[\ud800-\udc7f\udd00-\udfff]")
"""Surrogates that do not encode a byte of a file name."""


def spelled(text: str) -> str:
    """Return a text in a form that UTF-8 can encode.

    On Linux, file names are bytes. Python represents bytes that it cannot decode as surrogates, which UTF-8 files and
    JSON cannot hold; with the locale `C` and Python's UTF-8 mode off, there are many of them.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape" if not _LONE.search(text) else "replace").decode(
            "utf-8", "replace"
        )
    return text
