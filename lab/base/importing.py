"""Keeps files in the working directory from shadowing installed packages.

`python -m` puts the working directory first in `sys.path`, and so does `python -c`, which starts the worker
processes. A file `numpy.py` in somebody else's folder of experiments would then run.
"""

from __future__ import annotations

import os

HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120 - see below
"""The folder that `lab` was imported from. Only modules that Python has already imported are used here, which excludes
pathlib: `sys.path` is not clean yet."""


def without(folder: str, path: list[str], home: str = HOME) -> list[str]:
    """Return an import path without a folder, unless `lab` itself is in that folder.

    Args:
        folder: The working directory.
        path: The path; an empty entry means the working directory.
        home: The folder that `lab` was imported from.
    """
    unwanted = {"", os.curdir, folder, os.path.realpath(folder)}
    if os.path.realpath(folder) == os.path.realpath(home):
        return list(path)
    return [entry for entry in path if entry not in unwanted]
