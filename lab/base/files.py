"""Writes files atomically, and reads those that users name."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from lab.base.errors import Location, UserError


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


def read_regular(path: Path, most_bytes: int) -> bytes:
    """Return the bytes of a regular file, without ever waiting for a pipe or reading a device without end.

    Raises:
        UserError: It is not a regular file, has more than `most_bytes` bytes, or cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UserError(f"cannot read the file: {error.strerror}", at=Location(path)) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UserError("not a regular file", at=Location(path), accepted="a regular file")
    with os.fdopen(handle, "rb") as stream:
        content = stream.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise UserError("the file is too large", at=Location(path), accepted=f"at most {most_bytes} bytes")
    return content


def check_below(file: Path, roots: Iterable[Path]) -> None:
    """Check that a file lies below one of some folders once symbolic links are followed.

    Raises:
        UserError: It lies elsewhere.
    """
    real = file.resolve()
    if not any(real.is_relative_to(root.resolve()) for root in roots):
        raise UserError(
            "the file lies outside the folders in which it is looked for",
            at=Location(file),
            found=str(real),
            accepted=f"a file below {', '.join(map(str, roots))}",
        )
