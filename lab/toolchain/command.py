"""Run a compiler or an assembler as a command, in its own folder."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab.base.errors import CompileError, MissingToolError
from lab.base.workers import environment
from lab.toolchain.base import check_not_killed

TIMEOUT_S = 600.0
"""Seconds after which a build counts as hung."""


def run_tool(
    arguments: Sequence[str], folder: Path, *, name: str, command: str, install: str, timeout_s: float = TIMEOUT_S
) -> tuple[int, str]:
    """Run a tool until it ends.

    Args:
        arguments: The tool's path and its arguments.
        folder: Where it runs.
        name: Its name in messages.
        command: The command as a user can repeat it, for errors.
        install: The command that installs it.
        timeout_s: Seconds after which it is stopped.

    Returns:
        Its exit status, and everything that it printed.

    Raises:
        CompileError: It did not finish.
        MissingToolError: It cannot be started.
        WorkerLostError: It was killed.
    """
    try:
        completed = subprocess.run(
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
        raise CompileError(f"{name} did not finish within {timeout_s:.0f} s", str(error), command) from error
    log = completed.stdout + completed.stderr
    check_not_killed(name, completed.returncode, log)
    return completed.returncode, log
