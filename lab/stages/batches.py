"""Builds in worker processes, several to a worker: the disassembler takes longer to start than for a kernel.

A variant that a compiler hangs or dies on costs nobody but itself: what was built beside it is built again, each alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from pebble import ProcessExpired, ProcessPool

from lab.stages.build import BuildFailure, BuildTask, Built, build

BUILD_TIMEOUT_S = 300.0
"""A compiler that takes longer on one variant is stopped, and the variant is a row that says so."""

BATCH_TIMEOUT_S = 30.0
"""A batch that takes longer holds a variant that does: its variants are built one by one."""

_MOST = 8
"""Variants in a batch: by then nvdisasm's start is an eighth of what it is for each alone, and more saves little."""

_WORTH_S = 4.0
"""Compiling that a batch should hold at most: more of it makes the start small beside it, and a batch late."""


@dataclass
class Batches:
    """What is built together, and what becomes of it.

    Attributes:
        pool: The workers.
        jobs: Their number.
    """

    pool: ProcessPool
    jobs: int

    def __post_init__(self) -> None:
        """Nothing is known of how long the compiler takes."""
        self._begun, self._compiled, self._seconds = 0, 0, 0.0

    def size(self, waiting: int) -> int:
        """How many of those that wait to build together next.

        One for every worker at first, for the stages behind; then as many as are worth it, and towards the end less,
        so that workers finish together.
        """
        if self._begun < self.jobs:
            return 1
        share = -(-waiting // self.jobs)
        if self._seconds:
            share = min(share, int(_WORTH_S * self._compiled / self._seconds))
        return max(1, min(share, _MOST))

    def start(self, tasks: Sequence[BuildTask]) -> Future[Any]:
        """Have a worker build variants."""
        self._begun += 1
        timeout = BUILD_TIMEOUT_S if len(tasks) == 1 else BATCH_TIMEOUT_S
        future: Future[Any] = self.pool.schedule(build, args=[tasks], timeout=timeout)
        return future

    def outcomes(self, future: Future[Any], size: int) -> list[Built | BuildFailure] | None:
        """What became of variants that were built together; None where each has to be built by itself.

        Raises:
            MissingToolError: the compiler or the disassembler cannot run here.
        """
        try:
            made: list[Built | BuildFailure] = future.result()
        except (TimeoutError, MemoryError, ProcessExpired) as error:
            return [_failure(error)] if size == 1 else None
        for one in made:
            if isinstance(one, Built) and not one.cached:
                self._compiled, self._seconds = self._compiled + 1, self._seconds + one.build.seconds
        return made


def _failure(error: TimeoutError | MemoryError | ProcessExpired) -> BuildFailure:
    """What stopped a build of one variant, in words."""
    if isinstance(error, TimeoutError):
        return BuildFailure(f"the build took longer than {BUILD_TIMEOUT_S:.0f} s")
    if isinstance(error, MemoryError):
        return BuildFailure("the build needs more memory than its share")
    return BuildFailure(f"the build process ended by itself: {error}")
