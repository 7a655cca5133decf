"""The words of a verdict, the faults that decide for one of them, and what workers hand back.

Importing this is cheap: a process that only waits for workers needs no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lab.base.expressions import Scalar


class Ruling(StrEnum):
    """The word of a verdict; docs/reference/judge.md defines each."""

    CORRECT = "correct"
    WRONG = "wrong"
    UNSAFE = "unsafe"
    CHEATING = "cheating"
    NOT_JUDGED = "not judged"

    @property
    def exit_code(self) -> int:
        """Exit code of `lab judge`."""
        return _EXIT_CODES[self]


_EXIT_CODES: Final[Mapping[Ruling, int]] = {
    Ruling.CORRECT: 0,
    Ruling.WRONG: 1,
    Ruling.UNSAFE: 4,
    Ruling.CHEATING: 5,
    Ruling.NOT_JUDGED: 6,
}
"""Apart from 2 and 3, which are mistakes of the caller and of the environment."""

_SEVERITY: Final = (Ruling.CHEATING, Ruling.UNSAFE, Ruling.WRONG, Ruling.NOT_JUDGED)


@dataclass(frozen=True, slots=True)
class Fault:
    """A reason against a candidate, with its evidence.

    Attributes:
        ruling: The word that it decides for.
        check: The check that failed.
        reason: One line.
        argument: The output at fault; empty where none is known.
        element: Its index in each dimension.
        got: The value there, as text.
        expected: The expected value, as text.
        problem: The problem's fields; empty for the task's own emulated problem.
        seed: Seed of the inputs; None where inputs do not matter.
        line: Source line: `candidate.cu:12`; empty where none is known.
    """

    ruling: Ruling
    check: str
    reason: str
    argument: str = ""
    element: tuple[int, ...] = ()
    got: str = ""
    expected: str = ""
    problem: Mapping[str, Scalar] = field(default_factory=dict)
    seed: int | None = None
    line: str = ""


def decide(faults: Iterable[Fault]) -> Ruling:
    """Return the word for a candidate with these faults: the most severe one."""
    words = {fault.ruling for fault in faults}
    return next((word for word in _SEVERITY if word in words), Ruling.CORRECT)


def ranked(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Return faults in the order of their severity."""
    return tuple(sorted(faults, key=lambda fault: _SEVERITY.index(fault.ruling)))


@dataclass(frozen=True, slots=True)
class PredictedTime:
    """A predicted time in microseconds.

    Attributes:
        likely_us: The prediction.
        least_us: Under the most favourable assumptions.
        most_us: Under the least favourable ones.
        gpu: The GPU.
        limit: The resource that takes the most of it; empty for a given time.
    """

    likely_us: float
    least_us: float
    most_us: float
    gpu: str = ""
    limit: str = ""


@dataclass(frozen=True, slots=True)
class AdvicePoint:
    """One performance finding in plain values.

    Attributes:
        rule: Its class.
        line: Source line; empty where none is known.
        cause: The cause with its figures.
        remedy: The change that removes it.
        gain: Predicted time now over predicted time without it; None where no time is predicted.
    """

    rule: str
    line: str
    cause: str
    remedy: str
    gain: float | None


@dataclass(frozen=True, slots=True)
class Examination:
    """The pipeline's own outcome for a candidate.

    Attributes:
        faults: What counts against it.
        not_shown: Known gaps, a sentence each.
        resources: Registers, shared and spilled bytes, occupancy.
        time: Predicted time at the problem's own size; None where none is predicted.
        advice: Findings on performance, the largest gain first.
        coverage: Blocks executed at the problem's own size, of how many, and elements compared there.
    """

    faults: tuple[Fault, ...] = ()
    not_shown: tuple[str, ...] = ()
    resources: Mapping[str, float] = field(default_factory=dict)
    time: PredictedTime | None = None
    advice: tuple[AdvicePoint, ...] = ()
    coverage: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dependence:
    """The inputs that an output was shown to depend on.

    Attributes:
        argument: The output.
        on: Each input that its reference depends on, with the share of its elements that change with it.
        moved: Share of its elements whose expected value changed with some input.
    """

    argument: str
    on: Mapping[str, float]
    moved: float


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """The outcome of some checks.

    Attributes:
        faults: What counts against the candidate.
        dependences: Inputs that outputs depend on.
        sizes: Hidden problems that were executed, each with its drawn fields.
        deterministic: Every order of blocks gives the same bits; None where that was not tried.
        not_shown: Known gaps, a sentence each.
        tried_inputs: Some input was changed.
    """

    faults: tuple[Fault, ...] = ()
    dependences: tuple[Dependence, ...] = ()
    sizes: tuple[Mapping[str, Scalar], ...] = ()
    deterministic: bool | None = None
    not_shown: tuple[str, ...] = ()
    tried_inputs: bool = False
