"""Runs a compiler or an assembler as a command, in a folder of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab.base.errors import CompileError, MissingToolError
from lab.base.workers import environment
from lab.toolchain.base import check_not_killed

TIMEOUT_S = 600.0
"""A build that takes longer has hung."""


def run_tool(
    arguments: Sequence[str], folder: Path, *, name: str, shown: str, install: str, timeout_s: float = TIMEOUT_S
) -> tuple[int, str]:
    """Run a tool to its end.

    Args:
        arguments: The tool's path and what it gets.
        folder: Where it runs.
        name: What messages call it.
        shown: The command in a form that can be repeated, for errors.
        install: What installs it.
        timeout_s: Seconds after which it is stopped.

    Returns:
        Its exit status, and everything that it printed.

    Raises:
        CompileError: It did not finish.
        MissingToolError: It cannot be started.
        WorkerLostError: It was killed.
    """
    try:
        done = subprocess.run(
            list(arguments),
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            env=environment(),
        )
    except OSError as error:
        raise MissingToolError(f"cannot run {name} ({error}); install it: {install}") from error
    except subprocess.TimeoutExpired as error:
        raise CompileError(f"{name} did not finish within {timeout_s:.0f} s", str(error), shown) from error
    log = done.stdout + done.stderr
    check_not_killed(name, done.returncode, log)
    return done.returncode, log
