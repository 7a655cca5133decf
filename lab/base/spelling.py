"""Texts that hold names of files, as UTF-8 can hold them."""

from __future__ import annotations

import re

_LONE = re.compile("[\ud800-\udc7f\udd00-\udfff]")
"""Surrogates that stand for no byte of a name."""


def spelled(text: str) -> str:
    """Return a text as UTF-8 can hold it.

    Names of files are bytes on Linux. Python keeps those that it cannot read, which are many where the locale is `C`
    and Python's UTF-8 mode is off, as surrogates, which no file and no JSON can hold.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape" if not _LONE.search(text) else "replace").decode(
            "utf-8", "replace"
        )
    return text
