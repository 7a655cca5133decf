"""What is known of a command at one moment: frozen values that the terminal, the log and the page show."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """How far the command is."""

    STARTING = "starting"
    WORKING = "working"
    DRAWING = "drawing the report"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"

    @property
    def over(self) -> bool:
        """Nothing more comes."""
        return self in {Phase.FINISHED, Phase.INTERRUPTED}


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage's progress.

    Attributes:
        name: In a word or two.
        done: Pieces that it is done with.
        total: All of its pieces, as far as they are known; None where their number is not.
    """

    name: str
    done: int
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Best:
    """The best so far among what can be compared.

    Attributes:
        group: What it is the best of: the problem's label, or a class of sizes; empty where there is one group.
        name: Of the variant or kernel.
        variant: The variant's id; empty for a kernel.
        figure: Its throughput with the unit.
        kind: How the figure came to be: measured, estimated, predicted or a ceiling, in the report's words.
    """

    group: str
    name: str
    variant: str
    figure: str
    kind: str


@dataclass(frozen=True, slots=True)
class Row:
    """Something that is finished.

    Attributes:
        number: Counted from 1 in the order in which the rows came.
        variant: Id of a variant; empty for a size.
        name: Of the variant, or the size.
        status: How far it came.
        figure: Its throughput with the unit; empty where there is none.
        kind: How the figure came to be; empty where there is none.
        failed: It did not reach the end.
        reason: Why not.
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
    """Everything that is shown.

    Attributes:
        subject: Name of the experiment or the tuning file.
        question: What it asks.
        hardware: The GPU's name, or why none is used.
        phase: How far the command is.
        elapsed_s: Seconds since it began.
        left_s: Seconds that it still takes, report excluded; None where that is not known.
        pace: How `left_s` comes about.
        stages: Progress by stage.
        best: The best of each group, at most as many as a page shows.
        groups: How many groups have a best one.
        latest: The last thing that became known, in a sentence.
        rows: The newest finished rows, oldest first.
        finished: How many rows there were.
        failures: The first failed rows.
        failed: How many rows failed.
        notes: What a reader of the report is going to see, too.
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
    """Write a duration as a clock does: ``0:07``, ``12:40``, ``3:05:00``."""
    whole = int(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
