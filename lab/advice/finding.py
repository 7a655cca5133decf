"""A performance finding, and the outcome of all rules on a variant."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lab.isa.model import SourceLocation
from lab.measured.timing import Kind


class Rule(StrEnum):
    """A class of lost time."""

    BANK_CONFLICT = "bank conflict"
    UNCOALESCED = "uncoalesced access"
    MISALIGNED = "misaligned access"
    LOCAL_MEMORY = "local memory"
    OCCUPANCY = "occupancy"
    TAIL_WAVE = "tail wave"
    LATENCY = "latency-bound loop"
    DIVERGENT_CONSTANT = "divergent constant load"
    CONTENDED_ATOMIC = "contended atomic"
    DOUBLE_PRECISION = "accidental double precision"
    DIVISION = "integer division"
    NARROW_LOADS = "narrow loads"
    CODE_SIZE = "code size"
    BYTES_IN_FLIGHT = "bytes in flight"
    REDUNDANT_BARRIER = "redundant barrier"


@dataclass(frozen=True, slots=True)
class CodePlace:
    """The code that a finding is about.

    Attributes:
        source: Line of the user's code; None where none is known.
        ptx: PTX line; 0 where no single instruction is meant.
        sass: SASS line; 0 where none is known.
        text: The PTX or SASS instruction; empty where none is meant.
    """

    source: SourceLocation | None = None
    ptx: int = 0
    sass: int = 0
    text: str = ""

    @property
    def line(self) -> int:
        """Number of the source line; 0 where none is known."""
        return self.source.line if self.source is not None else 0

    @property
    def short(self) -> str:
        """``kernel.cu:12 (PTX line 40, SASS line 90)``; empty where no place is known."""
        lines = [f"{isa} line {line}" for isa, line in (("PTX", self.ptx), ("SASS", self.sass)) if line]
        if self.source is None:
            return ", ".join(lines)
        where = self.source.short
        return f"{where} ({', '.join(lines)})" if lines else where


@dataclass(frozen=True, slots=True)
class PerformanceFinding:
    """One cause of lost time.

    Attributes:
        rule: Its class.
        place: Where it is.
        cause: The cause with its figures, one clause.
        remedy: The change that removes it, one clause.
        waste: Share of the resource's work that it wastes, 0 to 1.
        gain: Predicted time now over predicted time with the cost removed; None where no time is predicted.
        kind: Kind of the gain.
    """

    rule: Rule
    place: CodePlace
    cause: str
    remedy: str
    waste: float
    gain: float | None = None
    kind: Kind = Kind.PREDICTED

    @property
    def gain_text(self) -> str:
        """``1.36 x faster without it (predicted)``."""
        if self.gain is None:
            return "gain not predicted"
        if self.gain < HIDDEN:
            return f"hidden behind other costs ({self.kind})"
        return f"{self.gain:.2f} x faster without it ({self.kind})"

    @property
    def lines(self) -> tuple[str, str]:
        """The finding in two lines: cause with place and gain; remedy."""
        place = f" at {self.place.short}" if self.place.short else ""
        return f"{self.rule}{place}: {self.cause}; {self.gain_text}", f"remedy: {self.remedy}"


HIDDEN = 1.01
"""A smaller gain is below what the time model tells apart."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A rule that could not be checked.

    Attributes:
        rule: The rule.
        missing: What it needs and the evidence lacks: `counts of an execution`.
    """

    rule: Rule
    missing: str


@dataclass(frozen=True, slots=True)
class Advice:
    """The outcome of all rules.

    Attributes:
        findings: The largest gain first.
        skipped: Rules that could not be checked.
    """

    findings: tuple[PerformanceFinding, ...]
    skipped: tuple[Skipped, ...] = ()

    @property
    def closing(self) -> str:
        """The sentence behind the findings: which rules were not checked, or that nothing was found; else empty."""
        if self.skipped:
            by_missing: dict[str, list[str]] = {}
            for one in self.skipped:
                by_missing.setdefault(one.missing, []).append(one.rule)
            parts = [f"{', '.join(rules)} (needs {missing})" for missing, rules in by_missing.items()]
            return f"not checked: {'; '.join(parts)}"
        return "" if self.findings else f"no performance findings: all {len(Rule)} rules were checked"

    def text(self, most: int | None = None) -> tuple[str, ...]:
        """Return the lines that every command and the page show.

        Args:
            most: Findings to show; None for all.
        """
        shown = self.findings if most is None else self.findings[:most]
        lines = [line for number, one in enumerate(shown, 1) for line in _numbered(number, one)]
        if len(shown) < len(self.findings):
            further = len(self.findings) - len(shown)
            lines.append(f"{further} further finding{'s' if further > 1 else ''}")
        return (*lines, *filter(None, [self.closing]))


def _numbered(number: int, one: PerformanceFinding) -> tuple[str, str]:
    first, second = one.lines
    return f"{number}. {first}", f"   {second}"
