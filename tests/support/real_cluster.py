"""A cluster of real processes on the loopback, started by lab's own commands."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Self

from lab.base import workers


def free_port() -> int:
    """Return a port of the loopback that nobody listens at now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RealCluster:
    """A scheduler and workers. Use as a context manager: leaving it kills whatever is left of them."""

    def __init__(self, folder: Path, *, jobs: int = 2) -> None:
        self.folder, self.address, self.jobs = folder, f"tcp://127.0.0.1:{free_port()}", jobs
        self.scheduler = self.started("scheduler")
        self.worker = self.started("worker")

    def started(self, what: str) -> subprocess.Popen[bytes]:
        """Start one of the two."""
        more = ["--jobs", str(self.jobs), "--no-gpus", "--host", "tcp://127.0.0.1"] if what == "worker" else []
        with (self.folder / f"{what}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "lab", "cluster", what, self.address, "--insecure", *more],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=workers.environment() | {"LAB_CACHE_DIR": str(self.folder / "cache")},
            )

    def log(self, what: str) -> str:
        """What one of the two has printed."""
        return (self.folder / f"{what}.log").read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (self.worker, self.scheduler):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
