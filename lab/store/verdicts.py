"""Reasons of verdicts in words, grouped over variants; docs/verdict.md defines each verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lab.emulator.results import Finding
from lab.recorded.run_records import FullSizeRecord, Status, VariantRecord

EXPLAINED: Final = (Status.WRONG, Status.SUSPECT, Status.NOT_EXECUTED, Status.COMPILE_FAILED, Status.PARTIAL)
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
        """The group on one line: number of variants, verdict, reason."""
        count = len(self.variants)
        subject = f"variant {self.variants[0]}" if count == 1 else f"{count} variants"
        return f"{self.status}, {subject}: {self.reason}"


def group_reasons(records: Iterable[VariantRecord]) -> tuple[ReasonGroup, ...]:
    """Group variants by verdict and reason: the worst verdict first, then the largest group.

    Faults on the same line of the source are one reason, whatever thread and element they name.
    """
    groups: dict[object, list[VariantRecord]] = {}
    for record in records:
        if record.status in EXPLAINED:
            groups.setdefault((record.status, _cause(record)), []).append(record)
    reason_groups = [
        ReasonGroup(members[0].status, members[0].reason, tuple(member.variant for member in members))
        for members in groups.values()
    ]
    return tuple(sorted(reason_groups, key=lambda group: (EXPLAINED.index(group.status), -len(group.variants))))


def _cause(record: VariantRecord) -> object:
    """Return the common cause of similar reasons: condition and place of the fault, else the whole sentence."""
    emulation = record.emulation
    if emulation is not None and record.status is Status.WRONG and emulation.findings:
        return _place(emulation.findings[0]) or record.reason
    if emulation is not None and record.status is Status.SUSPECT and emulation.suspicions:
        first = emulation.suspicions[0]
        place = _place(first.finding) if first.finding is not None else None
        return (first.condition, place) if place else record.reason
    return record.reason


def _place(finding: Finding) -> object:
    """Return a fault's kind and source line; None without a source line, since PTX lines differ between variants."""
    return (finding.kind, finding.source.file, finding.source.line) if finding.source is not None else None


def describe_full_size(full_size: FullSizeRecord) -> str:
    """Return a clause about the execution at the problem's own size."""
    compared = f"{full_size.compared:,} elements compared" if full_size.compared else "no elements compared"
    covered = "all elements written" if full_size.covered else "not shown that all elements are written"
    return f"{full_size.blocks:,} of {full_size.of_blocks:,} blocks executed on the CPU, {compared}, {covered}"


def summarise_full_size(records: Iterable[VariantRecord]) -> str:
    """Return a clause about the executions at the problem's own size over all variants; empty if there are none."""
    full_sizes = [record.emulation.full_size for record in records if record.emulation and record.emulation.full_size]
    if not full_sizes:
        return ""
    total = FullSizeRecord(
        {},
        sum(full_size.blocks for full_size in full_sizes),
        sum(full_size.of_blocks for full_size in full_sizes),
        sum(full_size.compared for full_size in full_sizes),
        covered=all(full_size.covered for full_size in full_sizes),
    )
    over = f" of {len(full_sizes)} variants" if len(full_sizes) > 1 else ""
    return f"at the problem's own size{over}: {describe_full_size(total)}"
