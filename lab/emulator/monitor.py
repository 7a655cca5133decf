"""A launch at work: how far it is, and the time after which it is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from lab.emulator.results import Finding

COMPILED_SHARE: Final = 0.9
"""Part of the time limit that machine code may use. The interpreter needs the rest to say where threads are."""


@dataclass(slots=True)
class LaunchMonitor:
    """A time limit, and the state of a launch for any thread to read.

    Attributes:
        limit_s: Seconds after which the launch is stopped.
        clock: Seconds on a clock that nobody can set.
        engine: What executes the launch at present, in words; empty before it begins.
        steps: Instructions that the interpreter has issued.
        blocks: Blocks to execute.
        finished: Blocks that have ended.
        findings: Return the faults so far.
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
        """Start the time of a launch of so many blocks."""
        self.blocks, self._began = blocks, self.clock()

    def hand_over(self, engine: str, findings: Callable[[], tuple[Finding, ...]] = tuple) -> None:
        """Note that an engine executes the launch from its first block on, with faults of its own."""
        self.engine, self.findings, self.steps, self.finished = engine, findings, 0, 0

    def expired(self, share: float = 1.0) -> bool:
        """Return whether a part of the time limit is over."""
        return self.clock() - self._began > share * self.limit_s
