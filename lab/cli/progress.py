"""Progress of long commands on stderr: a board on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live

from lab.cli.live.board import Board
from lab.cli.live.progress_lines import MOST_FAILURES, ProgressLines
from lab.cli.live.run_account import RunAccount
from lab.cli.live.tune_account import TuneAccount
from lab.cli.terminal import print_flowing, stderr
from lab.recorded.run_records import Status, VariantRecord
from lab.runs.observer import RunObserver
from lab.store.figures import name_of

if TYPE_CHECKING:  # the stages, whose values are shown here, take seconds to import
    from lab.base.sizes import Size
    from lab.cli.live.account import Account
    from lab.experiment.model import Experiment
    from lab.experiment.space import Expansion
    from lab.experiment.variants import Planned
    from lab.stages.build import BuildFailure, Built
    from lab.store.tuning_model import KernelFacts, ProtocolStep
    from lab.tuning.file.load import Tuning
    from lab.tuning.watched import SizeLeader


class _Progress:
    """A display of an account's state while the context is open.

    A terminal gets a board that is drawn again and again; a file, a pipe and a terminal without a cursor get lines.
    """

    def __init__(self, console: Console, account: Account, clock: Callable[[], float] = time.monotonic) -> None:
        """Show nothing yet.

        Args:
            console: Where to, which should be on stderr.
            account: What is known.
            clock: Seconds on a clock that nobody can set.
        """
        self._console = console
        self._board = Board(account)
        self._view: Live | ProgressLines = (
            Live(self._board, console=console, refresh_per_second=5)
            if console.is_interactive
            else ProgressLines(console, account, clock)
        )
        self._failures = 0
        self._shown: set[str] = set()

    def __enter__(self) -> Self:
        self._view.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._board.over = True
        self._view.__exit__(kind, error, trace)

    @property
    def _lines(self) -> bool:
        """True if nobody looks at a terminal."""
        return isinstance(self._view, ProgressLines)

    def _first(self, event: str) -> None:
        """Draw at once on the first event of a kind, rather than with the next refresh of the board."""
        if event not in self._shown:
            self._shown.add(event)
            if isinstance(self._view, Live):
                self._view.refresh()

    def _announce(self, text: str, style: str = "") -> None:
        print_flowing(self._console, text, style)

    def _failed(self, text: str) -> None:
        """Print a failure; without a terminal, only the first ones."""
        self._failures += 1
        if self._lines and self._failures > MOST_FAILURES:
            return
        self._announce(text, style="red")
        if self._lines and self._failures == MOST_FAILURES:
            self._announce("further failures are counted here and listed in the report")


class RunProgress(_Progress, RunObserver):
    """Progress of a run."""

    def __init__(
        self, console: Console, account: RunAccount | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Show nothing yet.

        Args:
            console: Where to, which should be on stderr.
            account: Keeps account of the run; one of its own by default.
            clock: Seconds on a clock that nobody can set.
        """
        self.prefix = ""
        """What stands in front of failures, as where they rest on a guess."""
        self._reasons: set[tuple[Status, str]] = set()
        self._account = account or RunAccount(clock)
        super().__init__(console, self._account, clock)

    def planned(self, experiment: Experiment, expansion: Expansion, variants: int, gpu: str) -> None:
        """Print the question and what will be run."""
        self._account.planned(experiment, expansion, variants, gpu)
        self._announce(experiment.question, style="bold")
        self._announce(f"{variants} variants of {expansion.combinations} combinations. {gpu}")

    def resumed(self, finished: int) -> None:
        """Print that an interrupted run is resumed."""
        self._account.resumed(finished)
        self._announce(f"resuming: {finished} finished variants are kept (--no-resume starts over)")

    def drawing(self) -> None:
        """Show that the report is being drawn."""
        self._account.drawing()

    def more(self, variants: int) -> None:
        """Count the variants a search adds."""
        self._account.more(variants)
        if not self._lines:
            self._announce(f"{variants} neighbours of the best ones")

    def built(self, planned: Planned, outcome: Built | BuildFailure) -> None:
        """Count a build."""
        self._account.built(planned, outcome)
        self._first("built")

    def executed(self, record: VariantRecord) -> None:
        """Count an emulation."""
        self._account.executed(record)
        self._first("executed")

    def noted(self, sentence: str) -> None:
        """Keep a note, which is printed after the run and shown on the live page until then."""
        self._account.noted(sentence)

    def recorded(self, record: VariantRecord) -> None:
        """Count a finished variant; print a failure whose reason was not printed before."""
        self._account.recorded(record)
        self._first("recorded")
        if record.status.failed and (record.status, record.reason) not in self._reasons:
            self._reasons.add((record.status, record.reason))
            self._failed(f"{self.prefix}{record.variant} {name_of(record)}: {record.status}: {record.reason}")

    def confirming(self) -> None:
        """Show that the fastest variants are measured again."""
        self._account.confirming()

    def counting(self, variants: int) -> None:
        """Begin to count the profiler's work."""
        self._account.counting(variants)

    def counted(self, variants: int) -> None:
        """Count the profiler's work."""
        self._account.counted(variants)


def run_progress(account: RunAccount | None = None, prefix: str = "") -> RunProgress:
    """Make the progress of a run, on stderr; see `RunProgress.prefix`."""
    progress = RunProgress(stderr(), account)
    progress.prefix = prefix
    return progress


class RunWatch:
    """Opener of a run's progress with a given account; in another process, with a new account."""

    def __init__(self, account: RunAccount) -> None:
        """Watch with this account."""
        self._account = account

    def __call__(self) -> RunProgress:
        """Open the progress."""
        return run_progress(self._account)

    def __reduce__(self) -> tuple[type[RunWatch], tuple[RunAccount]]:
        """Create a new one in the process it is sent to."""
        return _anew, ()  # type: ignore[return-value]


def _anew() -> RunWatch:
    return RunWatch(RunAccount())


class TuneProgress(_Progress):
    """Progress of a tuning run; a `TuningObserver`. Each step of the protocol gets a line."""

    def __init__(
        self, console: Console, account: TuneAccount | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Show nothing yet.

        Args:
            console: Where to, which should be on stderr.
            account: Keeps account of the run; one of its own by default.
            clock: Seconds on a clock that nobody can set.
        """
        self._account = account or TuneAccount(clock)
        super().__init__(console, self._account, clock)

    def began(self, tuning: Tuning, gpu: str, *, measured: bool = True) -> None:
        """Print the question and the GPU."""
        self._account.began(tuning, gpu, measured=measured)
        self._announce(tuning.question, style="bold")
        self._announce(gpu)

    def resumed(self, points: int) -> None:
        """Print that an unfinished run is resumed."""
        self._account.resumed(points)
        self._announce(f"resuming: {points} times are kept (--no-resume starts over)")

    def asked(self, step: str, sizes: int) -> None:
        """Count the sizes of a step."""
        self._account.asked(step, sizes)

    def built(self, facts: KernelFacts) -> None:
        """Count a kernel; print why one could not be built."""
        self._account.built(facts)
        if facts.failure:
            self._failed(f"{facts.name}: {facts.failure}")

    def timed(self, size: Size, points: int, leader: SizeLeader | None = None) -> None:
        """Count a size."""
        self._account.timed(size, points, leader)
        self._first("timed")

    def stepped(self, step: ProtocolStep) -> None:
        """Print what a step kept."""
        self._account.stepped(step)
        self._announce(f"{step.group}, step {step.number}, {step.title}: {step.text}")

    def drawing(self) -> None:
        """Show that the report is being drawn."""
        self._account.drawing()
