"""The account of a tuning run: finished sizes, and the fastest kernel so far in each class of sizes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from lab.base.sizes import Size
from lab.cli.live.account import Account
from lab.cli.live.snapshot import Best, Row, Stage

if TYPE_CHECKING:  # tuning takes seconds to import
    from lab.store.tuning_model import KernelFacts, ProtocolStep
    from lab.tuning.file.load import Tuning
    from lab.tuning.watched import SizeLeader

KERNELS: Final = "kernels built"
SIZES: Final = "sizes of this step"
POINTS: Final = "times"

_PREFIXES: Final = ("", "k", "M", "G", "T", "P", "E")


class TuneAccount(Account):
    """The state of a tuning run; a `TuningObserver`."""

    subject_pieces = "sizes"

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start empty.

        Args:
            clock: A monotonic clock, in seconds.
        """
        super().__init__(clock)
        self._leading: dict[int, tuple[float, Best]] = {}
        self._verb, self._asked = "timed", 0

    def began(self, tuning: Tuning, gpu: str, *, measured: bool = True) -> None:
        """Record the tuning file and the GPU."""
        with self._lock:
            self._verb = "timed" if measured else "predicted"
            self._begin(tuning.name, tuning.question, gpu, (Stage(KERNELS, 0), Stage(POINTS, 0)))

    def resumed(self, points: int) -> None:
        """Record that an unfinished run is resumed."""
        with self._lock:
            self._latest = f"{points} times of an earlier, unfinished run are kept"

    def asked(self, step: str, sizes: int) -> None:
        """Record that kernels are about to be timed at some sizes; earlier steps are done."""
        with self._lock:
            points = self._stages.pop(POINTS)
            self._stages |= {SIZES: Stage(SIZES, 0, sizes), POINTS: points}
            self._asked = sizes
            self._latest = f"{step}: {sizes} sizes"
            self._pace.begin()

    def built(self, facts: KernelFacts) -> None:
        """Record that a kernel was built, or could not be."""
        with self._lock:
            self._advance(KERNELS)
            self._latest = f"built: {facts.name}"
            if facts.failure:
                self._append(Row(0, "", facts.name, "build failed", failed=True, reason=facts.failure))

    def timed(self, size: Size, points: int, leader: SizeLeader | None = None) -> None:
        """Record that kernels were timed at a size; `leader` is the fastest one there."""
        with self._lock:
            if SIZES in self._stages:
                self._advance(SIZES)
            self._advance(POINTS, points)
            if points:
                self._pace.add()
            else:  # all of its times are known from before: it says nothing of the pace
                self._pace.begin()
            if leader is None:
                return
            figure = f"{leader.tflops:.3g} TFLOP/s{leader.beside}"
            self._append(Row(0, "", f"{size_text(size)}: {leader.kernel}", self._verb, figure, leader.kind))
            self._latest = f"{size_text(size)}: {leader.kernel}, {figure} ({leader.kind})"
            group = size_class(size)
            leading = self._leading.get(group)
            if leading is None or leader.tflops > leading[0]:
                name = f"{leader.kernel} at {size_text(size)}"
                best = Best(class_text(group), name, "", figure, leader.kind)
                self._leading[group] = leader.tflops, best

    def stepped(self, step: ProtocolStep) -> None:
        """Record a finished step of the protocol."""
        self.noted(f"{step.group}, step {step.number}, {step.title}: {step.text}")

    def _best(self) -> tuple[Best, ...]:
        return tuple(best for _, (_, best) in sorted(self._leading.items(), reverse=True))

    def _left(self) -> float | None:
        stage = self._stages.get(SIZES)
        return self._pace.left_s((stage.total or 0) - stage.done) if stage else None

    def _pace_words(self) -> str:
        return (
            f"the time of the last {self._pace.counted} sizes, for each remaining one of this step; "
            "later steps are not included"
        )


def size_class(size: Size) -> int:
    """Return the class of a size: the decade of its floating-point operations, 2 m n k."""
    return math.floor(math.log10(2 * math.prod(size)))


def class_text(decade: int) -> str:
    """Name a class of sizes: ``10 to 100 GFLOP``."""
    return f"{_operations(decade)} to {_operations(decade + 1)}"


def _operations(decade: int) -> str:
    prefix, zeros = divmod(decade, 3)
    return f"{10**zeros} {_PREFIXES[prefix]}FLOP"


def size_text(size: Size) -> str:
    """Format a size as reports do: ``4096 x 4096 x 64``."""
    return " x ".join(map(str, size))
