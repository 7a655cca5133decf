"""The lock that keeps a second process from writing into a run directory."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from lab.base.errors import StoreError
from lab.base.folder import Folder

LOCK_NAME = "run.lock"
"""The locked file. It remains, empty and unlocked."""

HOLDER_NAME = "run.holder"
"""The file that names the process that holds the lock."""


class Lock:
    """Exclusive write access to a run directory; the system releases it when the process dies."""

    def __init__(self, folder: Path) -> None:
        """Acquire the lock, creating the directory if it is missing.

        Raises:
            StoreError: another process holds the lock, or the directory cannot be written.
        """
        self._folder = Folder(folder)
        self._handle: int | None = None
        try:
            self._folder.make()
            self._handle = self._folder.open(LOCK_NAME, os.O_RDWR | os.O_CREAT)
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._close()
            holder = (self._folder.read_text(HOLDER_NAME) or "").strip() or "another process"
            raise StoreError(
                f"{folder} is in use by {holder}; wait for it, or choose another directory with --output"
            ) from error
        except OSError as error:
            raise StoreError(f"{folder} cannot be written: {error.strerror}") from error
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with contextlib.suppress(OSError):  # a full disk: the lock holds without its holder's name
            self._folder.write(HOLDER_NAME, f"process {os.getpid()} on {platform.node()} since {now}\n")

    def release(self) -> None:
        """Release the lock. A second call does nothing."""
        if self._handle is not None:
            with contextlib.suppress(OSError):
                self._folder.remove(HOLDER_NAME)
            self._close()

    def _close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        """Release the lock of a store that was not closed."""
        self._close()
