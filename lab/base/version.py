"""The package version and the commit of a clone.

The build hook loads this file by its path, so it imports only the standard library.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

VERSION = "0.1.0"
"""The version stored in records."""

COMMIT_FILE = "commit.txt"
"""File with the commit, written into a wheel's `lab/` by the build hook."""


def commit_of(root: Path, variables: Mapping[str, str] | None = None) -> str:
    """Return the commit of a clone, with `+dirty` if files are modified; empty without a clone or git.

    Args:
        root: The clone's folder.
        variables: Git's environment; this process's by default.
    """
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return ""
    command = [git, "-C", str(root), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+dirty"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False, env=variables)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return process.stdout.strip()
