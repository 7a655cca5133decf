"""Keeps files of the working directory from being imported in place of installed packages.

`python -m` puts the working directory first on the path of imports, and so does `python -c`, by which worker processes
are started. A file `numpy.py` in a folder of somebody else's experiments would then run.
"""

from __future__ import annotations

import os

HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120 - see below
"""The folder that `lab` was imported from. Only modules that Python has imported already are used here, unlike pathlib:
the path is not clean yet."""


def without(folder: str, path: list[str], home: str = HOME) -> list[str]:
    """Return a path of imports without a folder, unless that is where `lab` itself is.

    Args:
        folder: The working directory.
        path: The path; an empty entry means the working directory.
        home: The folder that `lab` was imported from.
    """
    unwanted = {"", os.curdir, folder, os.path.realpath(folder)}
    if os.path.realpath(folder) == os.path.realpath(home):
        return list(path)
    return [entry for entry in path if entry not in unwanted]
