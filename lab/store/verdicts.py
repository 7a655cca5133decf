"""The reasons of verdicts in words, those of many variants grouped; docs/explanation/verdict.md defines each word."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lab.emulator.results import Finding
from lab.recorded.run_records import FullSizeRecord, Status, VariantRecord

EXPLAINED: Final = (Status.WRONG, Status.SUSPECT, Status.NOT_EXECUTED, Status.PARTIAL)
"""Verdicts with a reason, the worst first."""


@dataclass(frozen=True, slots=True)
class ReasonGroup:
    """Variants with one verdict for one reason.

    Attributes:
        status: Their verdict.
        reason: The reason of the first one.
        variants: Their ids, in the run's order.
    """

    status: Status
    reason: str
    variants: tuple[str, ...]

    @property
    def text(self) -> str:
        """The group on one line: how many variants, the verdict, the reason."""
        count = len(self.variants)
        who = f"variant {self.variants[0]}" if count == 1 else f"{count} variants"
        return f"{self.status}, {who}: {self.reason}"


def group_reasons(records: Iterable[VariantRecord]) -> tuple[ReasonGroup, ...]:
    """Group variants by verdict and reason: the worst verdict first, then the largest group.

    Faults on the same line of the source are one reason, whatever thread and element they name.
    """
    groups: dict[object, list[VariantRecord]] = {}
    for record in records:
        if record.status in EXPLAINED:
            groups.setdefault((record.status, _cause(record)), []).append(record)
    made = [
        ReasonGroup(members[0].status, members[0].reason, tuple(one.variant for one in members))
        for members in groups.values()
    ]
    return tuple(sorted(made, key=lambda group: (EXPLAINED.index(group.status), -len(group.variants))))


def _cause(record: VariantRecord) -> object:
    """Return what reasons of one kind share: the condition and the place of the fault, else the whole sentence."""
    done = record.emulation
    if done is not None and record.status is Status.WRONG and done.findings:
        return _place(done.findings[0]) or record.reason
    if done is not None and record.status is Status.SUSPECT and done.suspicions:
        first = done.suspicions[0]
        place = _place(first.finding) if first.finding is not None else None
        return (first.condition, place) if place else record.reason
    return record.reason


def _place(found: Finding) -> object:
    """Return a fault's kind and source line; None where no line is known, since PTX lines differ between variants."""
    return (found.kind, found.source.file, found.source.line) if found.source is not None else None


def describe_full_size(done: FullSizeRecord) -> str:
    """Return what was executed at the problem's own size, as a clause."""
    compared = f"{done.compared:,} elements compared" if done.compared else "no elements compared"
    covered = "all elements written" if done.covered else "not shown that all elements are written"
    return f"{done.blocks:,} of {done.of_blocks:,} blocks executed on the CPU, {compared}, {covered}"


def summarise_full_size(records: Iterable[VariantRecord]) -> str:
    """Return what was executed at the problem's own size, of all variants together; empty where nothing was."""
    found = [one.emulation.full_size for one in records if one.emulation and one.emulation.full_size]
    if not found:
        return ""
    total = FullSizeRecord(
        {},
        sum(one.blocks for one in found),
        sum(one.of_blocks for one in found),
        sum(one.compared for one in found),
        covered=all(one.covered for one in found),
    )
    over = f" of {len(found)} variants" if len(found) > 1 else ""
    return f"at the problem's own size{over}: {describe_full_size(total)}"
