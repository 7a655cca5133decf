"""Writes files atomically."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


def write_atomically(path: Path, content: str | bytes | Iterator[str | bytes]) -> None:
    """Write a file so that a reader sees either the old content or the new, never a part of it.

    Args:
        path: The file.
        content: The whole content, or an iterator over its parts, so that it need not be in memory at once. Text is
            encoded as UTF-8.

    Raises:
        OSError: The file cannot be written. The old content stays, and no temporary file is left.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            parts = (content,) if isinstance(content, str | bytes) else content
            stream.writelines(part.encode() if isinstance(part, str) else part for part in parts)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
