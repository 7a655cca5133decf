"""Signs of life: what the worker is doing, told to the parent often enough and not too often."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from lab.gpu.process.messages import Progress

EVERY_S: Final = 0.2
"""Least time in seconds between two signs of the same activity."""


class SignsOfLife:
    """Sends `Progress` messages.

    Attributes:
        activity: What the worker is doing.
        subject: The kernel of a survey that it is doing it with; else empty.
    """

    def __init__(self, send: Callable[[object], None], now: Callable[[], float] = time.monotonic) -> None:
        """Send through `send`.

        Args:
            send: Sends a message to the parent.
            now: The host's clock, in seconds.
        """
        self._send, self._now = send, now
        self._last = 0.0
        self.activity = ""
        self.subject = ""

    def begin(self, activity: str, *, on_host: bool = False) -> None:
        """Announce an activity; `on_host` says that the worker does not wait for the GPU."""
        self.activity, self._last = activity, self._now()
        self._send(Progress(activity, on_host))

    def begin_with(self, activity: str, subject: str) -> None:
        """Announce an activity with one kernel of a survey.

        Every launch is announced, since it may be the last; samples come by the thousand and are announced rarely.
        """
        self.subject = subject
        if activity != self.activity or activity == "launch" or self._due():
            self.activity, self._last = activity, self._now()
            self._send(Progress(activity, on_host=False, subject=subject))

    def alive(self) -> None:
        """Repeat the last announcement if it was some time ago."""
        if self._due():
            self.begin(self.activity)

    def _due(self) -> bool:
        return self._now() - self._last > EVERY_S
