"""The state of a command at one moment: frozen values the terminal, the log and the page show."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """The phase of a command."""

    STARTING = "starting"
    WORKING = "working"
    DRAWING = "drawing the report"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"

    @property
    def over(self) -> bool:
        """True if the command is over."""
        return self in {Phase.FINISHED, Phase.INTERRUPTED}


@dataclass(frozen=True, slots=True)
class Stage:
    """The progress of a stage.

    Attributes:
        name: Its name, a word or two.
        done: Number of finished tasks.
        total: Number of tasks, as far as it is known; None where it is not.
    """

    name: str
    done: int
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Best:
    """The best so far of a group of comparable variants or kernels.

    Attributes:
        group: Its group: the problem's label, or a class of sizes; empty where there is one group.
        name: Of the variant or kernel.
        variant: The variant's id; empty for a kernel.
        figure: Its throughput with the unit.
        kind: Kind of the figure: measured, estimated, predicted or a ceiling, in the report's words.
    """

    group: str
    name: str
    variant: str
    figure: str
    kind: str


@dataclass(frozen=True, slots=True)
class Row:
    """A finished variant or size.

    Attributes:
        number: Counted from 1 in the order in which the rows came.
        variant: Id of a variant; empty for a size.
        name: Of the variant, or the size.
        status: The stage it reached.
        figure: Its throughput with the unit; empty where there is none.
        kind: Kind of the figure; empty where there is none.
        failed: It did not reach the end.
        reason: Why it failed.
    """

    number: int
    variant: str
    name: str
    status: str
    figure: str = ""
    kind: str = ""
    failed: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """An address that belongs to the command, such as that of Dask's dashboard."""

    title: str
    address: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The complete state of a command.

    Attributes:
        subject: Name of the experiment or the tuning file.
        question: What it asks.
        hardware: The GPU's name, or why none is used.
        phase: Phase of the command.
        elapsed_s: Seconds since it began.
        left_s: Estimate of the remaining seconds, report excluded; None where it is not known.
        pace: Basis of the estimate `left_s`.
        stages: Progress by stage.
        best: The best of each group, at most as many as a page shows.
        groups: How many groups have a best one.
        latest: The latest event, in a sentence.
        rows: The newest finished rows, oldest first.
        finished: How many rows there were.
        failures: The first failed rows.
        failed: How many rows failed.
        notes: Notes that the report shows, too.
        links: Addresses beside the page.
        reported: The report is there.
    """

    subject: str
    question: str
    hardware: str
    phase: Phase
    elapsed_s: float
    left_s: float | None
    pace: str
    stages: tuple[Stage, ...]
    best: tuple[Best, ...]
    groups: int
    latest: str
    rows: tuple[Row, ...]
    finished: int
    failures: tuple[Row, ...]
    failed: int
    notes: tuple[str, ...]
    links: tuple[Link, ...]
    reported: bool


def clock_text(seconds: float) -> str:
    """Format a duration as a clock does: ``0:07``, ``12:40``, ``3:05:00``."""
    total = int(seconds)
    hours, minutes = divmod(total // 60, 60)
    return f"{hours}:{minutes:02d}:{total % 60:02d}" if hours else f"{minutes}:{total % 60:02d}"
