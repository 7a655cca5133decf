"""The texts that lab builds on, as files beside the checkout. The project holds no copy of them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SGEMM: Final = "sgemm-ladder.txt"


def folder() -> Path:
    """Return the folder of the texts: the environment variable LAB_TEXTS, else `../shared/reference`."""
    return Path(os.environ.get("LAB_TEXTS", ROOT.parent / "shared" / "reference"))


def read(name: str) -> str:
    """Return a text.

    Raises:
        FileNotFoundError: The folder has no such file; the message says where it was looked for.
    """
    file = folder() / name
    if not file.is_file():
        raise FileNotFoundError(f"{file} is not here; LAB_TEXTS names the folder of the texts")
    return file.read_text(encoding="utf-8")


def cut_namespaces(text: str, *names: str) -> str:
    """Return the namespaces of a CUDA listing, each from its opening line to the comment that closes it.

    Raises:
        ValueError: The text lacks one of them.
    """
    parts = []
    for name in names:
        match = re.search(rf"^namespace {name}\b.*?^\}};? *// namespace {name}$", text, re.DOTALL | re.MULTILINE)
        if match is None:
            raise ValueError(f"the text has no namespace {name}")
        parts.append(match[0])
    return "\n\n".join(parts) + "\n"


def replaced(source: str, old: str, new: str, after: str = "") -> str:
    """Return a source with a piece of it replaced wherever it stands behind `after`.

    Raises:
        ValueError: `after` or `old` is not there, so that the text is another one.
    """
    head, found, tail = source.partition(after) if after else ("", "", source)
    if old not in tail or (after and not found):
        raise ValueError(f"the source has no {old!r}{f' behind {after!r}' if after else ''}")
    return head + found + tail.replace(old, new)
