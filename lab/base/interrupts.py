"""Handling of Ctrl-C: end the process at once, or stop work that has finished results to show.

A command writes each file completely or not at all, so that it can end at any instruction. `end_at_once` therefore
makes SIGINT end the process in its handler. An exception at an arbitrary instruction is less reliable: callbacks and
destructors swallow it, and it leaves locks held and objects half built.

Within `stoppable`, the first Ctrl-C raises `KeyboardInterrupt` instead, though only while the main thread is in `wait`.

`lab` imports this module first. Until then Ctrl-C prints a traceback, so the module imports little itself.
"""

from __future__ import annotations

import os
import signal
from _thread import allocate_lock, get_ident, start_new_thread
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    T = TypeVar("T")

EXIT_CODE = 130
STOPPING = "interrupted: stopping; Ctrl-C again leaves at once"

_SHOW_CURSOR = "\x1b[?25h"
"""Escape sequence that shows the cursor, which a progress display hides."""

_STARTING = allocate_lock()
_folders: set[str] = set()


class _State:
    """The effect of the next Ctrl-C.

    Attributes:
        thread: The thread that is in `stoppable`; None outside of it.
        worthwhile: Returns whether there are results to show.
        message: Line to print when work is stopped.
        asked: Ctrl-C was pressed within `stoppable`.
        waiting: The thread is in `wait`.
    """

    def __init__(self) -> None:
        self.thread: int | None = None
        self.worthwhile: Callable[[], bool] = lambda: False
        self.message = ""
        self.asked = self.waiting = False


_state = _State()


def end_at_once() -> None:
    """Make Ctrl-C end this process with one line and `EXIT_CODE`, unless SIGINT is ignored or has another handler."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)


def is_handled() -> bool:
    """Return whether Ctrl-C reaches this process: `nohup` and the shell's `&` make it ignore SIGINT."""
    return signal.getsignal(signal.SIGINT) in {signal.default_int_handler, _interrupted}


@contextmanager
def stoppable(worthwhile: Callable[[], bool] = lambda: True, message: str = STOPPING) -> Iterator[None]:
    """Within this context, raise `KeyboardInterrupt` for the first Ctrl-C: in `wait`, or at the end of the context.

    Args:
        worthwhile: Called when Ctrl-C is pressed. False ends the process at once, as outside of this context.
        message: The line to print; empty where another process prints it.
    """
    _state.asked, _state.message, _state.worthwhile, _state.thread = False, message, worthwhile, get_ident()
    try:
        yield
        check()
    finally:
        _state.thread = None


def check() -> None:
    """Raise `KeyboardInterrupt` if Ctrl-C was pressed within `stoppable`; for long work that never calls `wait`."""
    if _state.asked and _state.thread == get_ident():
        raise KeyboardInterrupt


def wait(blocking: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that blocks; within `stoppable`, Ctrl-C raises `KeyboardInterrupt` in it."""
    if _state.thread != get_ident():
        return blocking(*args, **kwargs)
    _state.waiting = True
    try:
        check()
        return blocking(*args, **kwargs)
    finally:
        _state.waiting = False


@contextmanager
def starting() -> Iterator[None]:
    """Start processes in this context, with SIGINT blocked.

    SIGINT is blocked in them until they unblock it, since a terminal sends it to them, too, while Python starts. Ctrl-C
    ends this process only after the context, since a child without its instructions would print a traceback.
    """
    with _STARTING:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def removing(folder: str) -> Iterator[None]:
    """Within this context, remove a folder when Ctrl-C ends the process."""
    _folders.add(folder)
    try:
        yield
    finally:
        _folders.discard(folder)


def _interrupted(number: int, frame: FrameType | None) -> None:
    del number, frame
    if _state.asked or _state.thread is None or not _state.worthwhile():
        _print("interrupted", _SHOW_CURSOR)
        if _STARTING.acquire(blocking=False):
            _leave()
        # the thread that was interrupted may hold the lock: it goes on when this handler returns
        start_new_thread(_leave_after_start, ())
        return
    _state.asked = True
    _print(_state.message)
    if _state.waiting:
        raise KeyboardInterrupt


def _leave_after_start() -> None:
    with _STARTING:
        _leave()


def _leave() -> None:
    if _folders:
        from shutil import rmtree  # noqa: PLC0415 - whoever created them has imported it

        for folder in tuple(_folders):
            rmtree(folder, ignore_errors=True)
    os._exit(EXIT_CODE)


def _print(message: str, control: str = "") -> None:
    """Write to the stderr descriptor, since the interrupted code may hold the lock of `sys.stderr`.

    Args:
        message: A line; a terminal gets it below the `^C` that it shows.
        control: Control sequence written before it on a terminal.
    """
    if message:
        with suppress(OSError):
            before = f"{control}\n" if os.isatty(2) else ""
            os.write(2, f"{before}{message}\n".encode())
