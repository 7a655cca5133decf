"""A cluster of real processes on the loopback, started by lab's own commands."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from lab.base.workers import environment


def free_port() -> int:
    """Return a port of the loopback that nobody listens at now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RealCluster:
    """A scheduler and workers. Use as a context manager: leaving it kills whatever is left of them."""

    def __init__(self, folder: Path, *, jobs: int = 2, host: str = "127.0.0.1", workers: int = 1) -> None:
        """Start them.

        Args:
            folder: Of their logs and their cache.
            jobs: CPU jobs of a worker.
            host: Address at which they listen.
            workers: How many workers.
        """
        self.folder, self.address, self.jobs, self._host = folder, f"tcp://{host}:{free_port()}", jobs, host
        self._all: list[subprocess.Popen[bytes]] = []
        self.scheduler = self.started("scheduler")
        self.workers = [self.started("worker") for _ in range(workers)]

    def started(
        self, what: str, *, host: str = "", within: Sequence[str] = (), **variables: str
    ) -> subprocess.Popen[bytes]:
        """Start one of the two.

        Args:
            what: `scheduler` or `worker`.
            host: Address at which a worker listens, where it is another one.
            within: What is put before the command, so that it runs on a host of its own.
            variables: Of its environment.
        """
        more = ["--jobs", str(self.jobs), "--no-gpus", "--host", f"tcp://{host or self._host}"]
        with (self.folder / f"{what}.log").open("ab") as log:
            process = subprocess.Popen(
                [
                    *(*within, sys.executable, "-m", "lab", "cluster", what, self.address, "--insecure"),
                    *(more if what == "worker" else ()),
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=environment() | {"LAB_CACHE_DIR": str(self.folder / "cache")} | variables,
            )
        self._all.append(process)
        return process

    def log(self, what: str) -> str:
        """Return the output of the scheduler or of the workers."""
        return (self.folder / f"{what}.log").read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._all:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
