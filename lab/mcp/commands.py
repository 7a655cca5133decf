"""Commands of lab as processes of their own, each with limits on time, memory and output."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.base import workers
from lab.base.errors import UserError

_TAIL: Final = 2000
"""Characters of an error's text that are handed on."""

_BEAT_S: Final = 2.0
"""Seconds between two reports of progress."""


@dataclass(frozen=True, slots=True)
class CallLimits:
    """The limits of one call.

    Attributes:
        seconds: Time after which it is stopped.
        megabytes: Address space of each of its processes.
        characters: Output that is handed on.
    """

    seconds: float = 120.0
    megabytes: int = 16_384
    characters: int = 20_000


def run_command(
    words: Sequence[str], folder: Path, limits: CallLimits, beat: Callable[[float], None] = lambda _: None
) -> str:
    """Run a command of lab, and return what it prints.

    Args:
        words: The command with its arguments.
        folder: Its working directory.
        limits: Its limits.
        beat: Called every few seconds with the seconds so far.

    Raises:
        UserError: It took too long, or failed without printing a result.
    """
    most = limits.megabytes << 20
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "lab", *words],
        cwd=folder,
        env={**os.environ, **workers.environment()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    with contextlib.suppress(ProcessLookupError):  # it may have ended
        resource.prlimit(process.pid, resource.RLIMIT_AS, (most, most))  # its own processes inherit that
    seconds = 0.0
    try:
        while True:
            try:
                output, errors = process.communicate(timeout=min(_BEAT_S, limits.seconds - seconds))
                break
            except subprocess.TimeoutExpired:
                seconds += _BEAT_S
                if seconds >= limits.seconds:
                    raise _too_long(words, limits) from None
                beat(seconds)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # and with it the workers that it started
        process.wait()
    if process.returncode and not output.strip():
        raise UserError(errors.strip()[-_TAIL:] or f"exit code {process.returncode}", code="refused")
    return shortened(output.strip(), limits.characters)


def _too_long(words: Sequence[str], limits: CallLimits) -> UserError:
    return UserError(
        "the call took too long",
        code="out-of-range",
        key=words[0],
        found=" ".join(words)[:_TAIL],
        accepted=f"at most {limits.seconds:g} s; start the server with a larger --seconds, or use smaller sizes",
    )


def shortened(text: str, characters: int) -> str:
    """Return a text, cut in the middle where it is too long."""
    if len(text) <= characters:
        return text
    half = characters // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
