"""Heartbeats: report the worker's activity to the parent at a limited rate."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from lab.gpu.process.messages import Progress

EVERY_S: Final = 0.2
"""Minimum seconds between two heartbeats of the same activity."""


class SignsOfLife:
    """A sender of heartbeats, which are `Progress` messages.

    Attributes:
        activity: What the worker is doing.
        subject: The survey's kernel that it is working on; else empty.
    """

    def __init__(self, send: Callable[[object], None], now: Callable[[], float] = time.monotonic) -> None:
        """Store the callbacks.

        Args:
            send: Sends a message to the parent.
            now: The host's clock, in seconds.
        """
        self._send, self._now = send, now
        self._last = 0.0
        self.activity = ""
        self.subject = ""

    def begin(self, activity: str, *, on_host: bool = False) -> None:
        """Report an activity; `on_host` means that the worker does not wait for the GPU."""
        self.activity, self._last = activity, self._now()
        self._send(Progress(activity, on_host))

    def begin_with(self, activity: str, subject: str) -> None:
        """Report an activity on one kernel of a survey.

        Every launch is reported, since it may hang or crash. Samples come by the thousand and are reported rarely.
        """
        self.subject = subject
        if activity != self.activity or activity == "launch" or self._due():
            self.activity, self._last = activity, self._now()
            self._send(Progress(activity, on_host=False, subject=subject))

    def alive(self) -> None:
        """Repeat the last report if it was more than `EVERY_S` ago."""
        if self._due():
            self.begin(self.activity)

    def _due(self) -> bool:
        return self._now() - self._last > EVERY_S
