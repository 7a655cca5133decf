"""The lock that keeps a second process from writing into a run directory."""

from __future__ import annotations

import contextlib
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from lab.base.errors import StoreError

LOCK_NAME = "run.lock"
"""The file that is locked. It stays behind, empty and unlocked."""

HOLDER_NAME = "run.holder"
"""The file that names the process holding the lock; a file of its own, since Windows lets nobody read a locked one."""


class Lock:
    """The right to write into a run directory. One process holds it at a time, and the system frees it on its death."""

    def __init__(self, folder: Path) -> None:
        """Take the lock, and create the directory where it is missing.

        Raises:
            StoreError: another process holds the lock, or the directory cannot be written.
        """
        self._holder = folder / HOLDER_NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # any thread may release it: the writer's thread can be the last to use the store
            self._lock = FileLock(folder / LOCK_NAME, thread_local=False)
            self._lock.acquire(blocking=False)
        except Timeout as error:
            raise StoreError(
                f"{folder} is in use by {self._named_holder()}; wait for it, or choose another directory with --output"
            ) from error
        except OSError as error:
            raise StoreError(f"{folder} cannot be written: {error.strerror}") from error
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with contextlib.suppress(OSError):  # a full disk: the lock holds without its holder's name
            self._holder.write_text(f"process {os.getpid()} on {platform.node()} since {now}\n", encoding="utf-8")

    def _named_holder(self) -> str:
        try:
            return self._holder.read_text(encoding="utf-8").strip() or "another process"
        except OSError:
            return "another process"

    def release(self) -> None:
        """Release the lock. A second call does nothing."""
        if self._lock.is_locked:
            with contextlib.suppress(OSError):
                self._holder.unlink(missing_ok=True)
            self._lock.release()
