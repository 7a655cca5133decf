"""Who may write into a run directory."""

from __future__ import annotations

import fcntl
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from lab.base.errors import StoreError


class Lock:
    """The right to write into a run directory, held by one process at a time; its death ends it."""

    def __init__(self, folder: Path) -> None:
        """Take it.

        Raises:
            StoreError: another process holds it, or the directory cannot be written.
        """
        path = folder / "run.lock"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+", encoding="utf-8")
        except OSError as error:
            raise StoreError(f"{folder} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.seek(0)
            holder = self._file.read().strip() or "another process"
            self._file.close()
            raise StoreError(
                f"{folder} is in use by {holder}; wait for it, or choose another directory with --output"
            ) from error
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {platform.node()} since {now}\n")
        self._file.flush()

    def release(self) -> None:
        """Give it back."""
        self._file.close()
