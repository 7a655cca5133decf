"""Arrays in files: ``a.npy``, or ``a-{n}.npy`` for one file per problem."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.base.errors import UserError
from lab.base.expressions import Scalar
from lab.base.functions import text_of

_NAMED = re.compile(r"\{(\w+)\}")
_FILE = re.compile(r"""[^'"\n]+\.npy""")


def is_file(text: str) -> bool:
    """Return whether a reference names a file instead of an expression."""
    return _FILE.fullmatch(text.strip()) is not None


def names_in_path(path: str) -> tuple[str, ...]:
    """Return the fields and parameters in the braces of a path."""
    return tuple(_NAMED.findall(path))


def files_of(path: str, folder: Path) -> tuple[str, ...]:
    """Return the files a path matches, whatever its braces hold; empty if there are none."""
    if not names_in_path(path):
        return (path,) if (folder / path).is_file() else ()
    pattern_path = folder / path
    last = re.compile(_NAMED.sub(r"[^/]*", re.sub(r"[.^$*+?()\[\]\\|]", r"\\\g<0>", pattern_path.name)))
    if names_in_path(str(Path(path).parent)) or not pattern_path.parent.is_dir():
        return ()  # braces name files, not folders
    return tuple(
        str(Path(path).parent / file.name)
        for file in sorted(pattern_path.parent.iterdir())
        if file.is_file() and last.fullmatch(file.name)
    )


def path_for(path: str, names: Mapping[str, Scalar]) -> str:
    """Fill the braces of a path with the values of one problem."""
    return _NAMED.sub(lambda match: text_of(names[match[1]]), path)


def array_in(file: Path, key: str) -> NDArray[Any]:
    """Open the array of an .npy file.

    Args:
        file: The file.
        key: Key of the experiment that names it, for errors.

    Raises:
        UserError: It cannot be read, or holds Python objects.
    """
    try:
        # numpy.load would also open archives of several arrays, whatever their name
        array: NDArray[Any] = np.lib.format.open_memmap(file, mode="r")
    except (OSError, ValueError, EOFError, OverflowError) as error:
        message = f"the file cannot be read: {error}"
        raise UserError(
            message, code="mismatch", key=key, found=str(file), accepted="an .npy file, as numpy.save writes it"
        ) from error
    return array
