"""Progress of long commands, drawn on stderr while they run. Nothing is decided here."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from lab.store.figures import amount
from lab.store.model import VariantRecord

if TYPE_CHECKING:  # the stages, whose values are shown here, take seconds to import
    from lab.base.sizes import Size
    from lab.experiment.model import Experiment
    from lab.experiment.space import Expansion
    from lab.experiment.variants import Planned
    from lab.stages.build import BuildFailure, Built
    from lab.store.tuning_model import KernelFacts, ProtocolStep
    from lab.tuning.file.load import Tuning


class _Bars:
    """Bars that are drawn while the context is open."""

    _bar: Progress
    _console: Console
    _handler: Any = None

    def __enter__(self) -> Self:
        self._bar.start()
        # whoever ignores or handles Ctrl-C otherwise goes on to do so
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler and _in_main_thread():
            self._handler = signal.signal(signal.SIGINT, self._interrupted)
        return self

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        """Answer Ctrl-C at once: work in progress takes a while to end, and the report to be drawn."""
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the second Ctrl-C ends the command as it is
        text = "stopping: what is finished is kept, and its report is drawn; Ctrl-C again leaves at once\n"
        os.write(2, text.encode())  # not through the console, whose lock the interrupted thread may hold
        signal.default_int_handler(number, frame)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


class RunProgress(_Bars):
    """Bars of a run with the time left and the best variant so far; failures are printed above them."""

    def __init__(self, console: Console) -> None:
        """Draw on this console, which should write to stderr."""
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[best]}"),
            console=console,
        )
        self._best: VariantRecord | None = None

    def planned(self, experiment: Experiment, expansion: Expansion, variants: int, gpu: str) -> None:
        """Print the question and what will be run."""
        self._console.print(Text(experiment.question, style="bold"))
        self._console.print(f"{variants} variants of {expansion.combinations} combinations. {gpu}", highlight=False)
        self._build = self._bar.add_task("build and inspect", total=variants, best="")
        self._done = self._bar.add_task("finish", total=variants, best="")

    def resumed(self, finished: int) -> None:
        """Print that an interrupted run goes on."""
        words = f"resuming: {finished} finished variants are kept (--no-resume starts over)"
        self._console.print(words, highlight=False)

    def drawing(self) -> None:
        """Print that the report is being drawn."""
        self._console.print("drawing the report …", highlight=False)

    def more(self, variants: int) -> None:
        """Lengthen both bars by the variants that a search adds."""
        self._console.print(f"{variants} neighbours of the best ones", highlight=False)
        for bar in (self._build, self._done):
            total = next(task.total for task in self._bar.tasks if task.id == bar)
            self._bar.update(bar, total=(total or 0) + variants)

    def built(self, planned: Planned, outcome: Built | BuildFailure) -> None:
        """Move the first bar."""
        del planned, outcome
        self._bar.advance(self._build)

    def recorded(self, record: VariantRecord) -> None:
        """Move the second bar; print a failure, and show a new best variant."""
        self._bar.advance(self._done)
        name = f"{record.kernel} {record.label}".strip()
        if record.status.failed:
            self._console.print(Text(f"{record.variant} {name}: {record.status}: {record.reason}", style="red"))
        if record.throughput and (self._best is None or record.throughput > (self._best.throughput or 0)):
            self._best = record
            self._bar.update(self._done, best=f"best {amount(record.throughput, record.unit)} {record.unit}: {name}")

    def counting(self, variants: int) -> None:
        """Add a bar for the profiler's work."""
        self._counters = self._bar.add_task("read counters", total=variants, best="")

    def counted(self, variants: int) -> None:
        """Move the profiler's bar."""
        self._bar.advance(self._counters, variants)


def run_progress() -> RunProgress:
    """Make the progress of a run, on stderr."""
    return RunProgress(Console(stderr=True))


class TuneProgress(_Bars):
    """One line for each step of the protocol, and bars that count kernels, sizes and points."""

    def __init__(self, console: Console) -> None:
        """Draw on this console, which should write to stderr."""
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn(), console=console
        )
        self._points = 0

    def began(self, tuning: Tuning, gpu: str, *, measured: bool = True) -> None:
        """Print the question and the GPU."""
        self._verb = "timed" if measured else "predicted"
        self._console.print(Text(tuning.question, style="bold"))
        self._console.print(gpu, highlight=False)
        self._built = self._bar.add_task("kernels built", total=None)
        self._sizes = self._bar.add_task(f"sizes {self._verb}", total=None)

    def resumed(self, points: int) -> None:
        """Print that an unfinished run goes on."""
        self._console.print(f"resuming: {points} times are kept (--no-resume starts over)", highlight=False)

    def built(self, facts: KernelFacts) -> None:
        """Count a kernel; print why one could not be built."""
        self._bar.advance(self._built)
        if facts.failure:
            self._console.print(Text(f"{facts.name}: {facts.failure}", style="red"))

    def timed(self, size: Size, points: int) -> None:
        """Count a size."""
        del size
        self._points += points
        self._bar.update(self._sizes, advance=1, description=f"sizes {self._verb} ({self._points} points)")

    def stepped(self, step: ProtocolStep) -> None:
        """Print what a step kept."""
        self._console.print(f"{step.group}, step {step.number}, {step.title}: {step.text}", highlight=False)
