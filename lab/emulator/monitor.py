"""Launch monitoring: progress, and the time limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from lab.emulator.results import Finding

COMPILED_SHARE: Final = 0.9
"""The share of the time limit for compiled code. The interpreter needs the rest to locate threads."""


@dataclass(slots=True)
class LaunchMonitor:
    """A time limit, and a launch's state for any thread to read.

    Attributes:
        limit_s: Seconds after which the launch is stopped.
        clock: A monotonic clock, in seconds.
        engine: The engine executing the launch now; empty before it starts.
        steps: Instructions that the interpreter has issued.
        blocks: Blocks to execute.
        finished: Blocks that have ended.
        findings: A function that returns the faults so far.
    """

    limit_s: float
    clock: Callable[[], float] = time.monotonic
    engine: str = ""
    steps: int = 0
    blocks: int = 0
    finished: int = 0
    findings: Callable[[], tuple[Finding, ...]] = tuple
    _began: float = field(default=0.0, init=False)

    def begin(self, blocks: int) -> None:
        """Start timing a launch of this many blocks."""
        self.blocks, self._began = blocks, self.clock()

    def hand_over(self, engine: str, findings: Callable[[], tuple[Finding, ...]] = tuple) -> None:
        """Record that an engine starts the launch from its first block, with new findings."""
        self.engine, self.findings, self.steps, self.finished = engine, findings, 0, 0

    def expired(self, share: float = 1.0) -> bool:
        """Return whether a share of the time limit has passed."""
        return self.clock() - self._began > share * self.limit_s
