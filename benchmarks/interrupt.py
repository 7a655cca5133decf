"""Press Ctrl-C at many moments of a run, and require exit code 130, one line and no traceback each time.

python benchmarks/interrupt.py [--moments 40] [--seconds 10] [--rounds 1]

The run is `python -m lab run experiments/gemm_unroll.yaml --no-gpu` with an empty cache and an empty output folder.
Every second run has a terminal of its own, which sends SIGINT to its foreground processes when it reads Ctrl-C; the
others write to a pipe and get SIGINT as a group. The moments are dense at the beginning, while Python imports.

A moment at which Python itself still starts says nothing about lab: it is moved by 20 ms until lab's `main` has begun.

Exit code 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMAND = (sys.executable, "-m", "lab", "run", "experiments/gemm_unroll.yaml", "--no-gpu", "--output")

PATIENCE_S = 60.0
"""Seconds after Ctrl-C within which the command must have ended."""

GONE_S = 10.0
"""Seconds after the command's end within which its processes must have ended."""

_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TOLD = re.compile(r"^(?:.*\^C)?(?:interrupted|stopping: )", re.MULTILINE)
_ALARM = re.compile(r"Traceback|Exception ignored|KeyboardInterrupt|internal error|Fatal Python error")
_CODE_INTERRUPTED = 130


@dataclass(frozen=True)
class Ending:
    """The end of an interrupted command.

    Attributes:
        code: Exit code, negative for a signal; None where it hung and was killed.
        text: Everything it printed.
        waited_s: Seconds from Ctrl-C to its end.
        left: Command lines of its processes that were still there after `GONE_S`.
    """

    code: int | None
    text: str
    waited_s: float
    left: tuple[str, ...]

    @property
    def early(self) -> bool:
        """Lab's `main` had not begun: its module is not in the traceback of Python's that the signal brought."""
        return self.code in {1, -signal.SIGINT} and f"{os.sep}lab{os.sep}__main__.py" not in self.text

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults of this end, in words."""
        lines = len(_TOLD.findall(self.text))
        return (
            *([f"exit code {self.code}"] if self.code != _CODE_INTERRUPTED else []),
            *([f"{lines} lines about the interruption"] if lines != 1 else []),
            *dict.fromkeys(_ALARM.findall(self.text)),
            *(f"left behind: {command}" for command in self.left),
        )


def interrupt(moment_s: float, *, terminal: bool) -> Ending:
    """Start the command, press Ctrl-C at a moment, and wait for the end."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` lets this process, and so lab, ignore it
    with tempfile.TemporaryDirectory(prefix="lab-interrupt-", ignore_cleanup_errors=True) as folder:
        ours, theirs = pty.openpty() if terminal else os.pipe()
        with os.fdopen(ours, "r+b" if terminal else "rb", buffering=0) as screen:
            process = subprocess.Popen(
                [*COMMAND, str(Path(folder) / "out")],
                cwd=ROOT,
                env={**os.environ, "XDG_CACHE_HOME": folder, "LAB_CACHE_DIR": f"{folder}/cache", "TERM": "xterm"},
                stdin=theirs if terminal else subprocess.DEVNULL,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
                preexec_fn=partial(fcntl.ioctl, 0, termios.TIOCSCTTY, 0) if terminal else None,  # noqa: PLW1509 - no threads
            )
            os.close(theirs)
            text = bytearray()
            _read(screen.fileno(), text, process, time.monotonic() + moment_s)
            pressed = time.monotonic()
            if terminal:
                screen.write(b"\x03")
            else:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGINT)
            _read(screen.fileno(), text, process, pressed + PATIENCE_S)
            code, waited = process.poll(), time.monotonic() - pressed
            left = tuple(_left_after(process.pid, GONE_S))
            _kill_session(process.pid)
            process.wait()
            _read(screen.fileno(), text, None, time.monotonic() + 1.0)
    return Ending(code, _STYLE.sub("", text.decode(errors="replace")).replace("\r", "\n"), waited, left)


def _read(screen: int, text: bytearray, process: subprocess.Popen[bytes] | None, until: float) -> None:
    """Collect what is printed until a time or the end of the process; without one, until the end of the output."""
    while (left := until - time.monotonic()) > 0 and (process is None or process.poll() is None):
        if select.select([screen], [], [], min(left, 0.01))[0]:
            chunk = b""
            with contextlib.suppress(OSError):  # nobody has the terminal open any more
                chunk = os.read(screen, 1 << 16)
            text += chunk
            if not chunk and process is None:
                return
            if not chunk:
                time.sleep(0.01)


def _left_after(leader: int, seconds: float) -> list[str]:
    """Wait until the session is empty; return what is left of it after some seconds."""
    until = time.monotonic() + seconds
    while (left := dict(_session(leader))) and time.monotonic() < until:
        time.sleep(0.05)
    return list(left.values())


def _session(leader: int) -> Iterator[tuple[int, str]]:
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = (place / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == leader and fields[0] != "Z":
                    yield int(place.name), (place / "cmdline").read_text().replace("\0", " ").strip()[:100]


def _kill_session(leader: int) -> None:
    for process, _ in _session(leader):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def interrupt_lab(moment_s: float, *, terminal: bool) -> tuple[float, Ending]:
    """Interrupt the command once lab has begun; return the moment at which that was, too."""
    while (ending := interrupt(moment_s, terminal=terminal)).early:
        moment_s += 0.02
    return moment_s, ending


def main() -> int:
    """Interrupt at each moment; print what was wrong, and how many ended well."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--moments", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    good, longest = 0, 0.0
    for number in range(options.rounds * options.moments):
        place = (number % options.moments + number // options.moments / options.rounds) / options.moments
        moment, ending = interrupt_lab(options.seconds * place**2, terminal=bool(number % 2))
        good, longest = good + (not ending.faults), max(longest, ending.waited_s)
        screen = "terminal" if number % 2 else "pipe"
        told = "; ".join(ending.faults) or "ok"
        print(f"{moment:6.3f} s, {screen:8}: ended after {ending.waited_s:5.2f} s: {told}", flush=True)
        if ending.faults:
            print(ending.text[-2000:])
    total = options.rounds * options.moments
    print(f"{good} of {total} ended with 130, one line and no traceback; the longest took {longest:.1f} s")
    return 0 if good == total else 1


if __name__ == "__main__":
    sys.exit(main())
