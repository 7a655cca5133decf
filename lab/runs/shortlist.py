"""The best variants of a run and its worst, as text or as a notebook table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from lab.recorded.run_records import RunRecord, Status, VariantRecord
from lab.store.figures import Response, name_of, ranked, ranking, response_of, rule_of, tied_with_best

BEST: Final = 5
"""Number of variants shown besides the worst."""


@dataclass(frozen=True, slots=True)
class ShortlistedVariant:
    """One line of the shortlist.

    Attributes:
        variant: Id.
        name: Kernel and parameters.
        figure: Throughput in the response's unit; None for a variant without one.
        ratio: Its ranking value over that of the best one; 1 for the best itself.
        registers: Registers per thread; None where nothing was built.
        blocks: Blocks that an SM holds; None where that is unknown.
        status: The stage it reached.
    """

    variant: str
    name: str
    figure: float | None
    ratio: float | None
    registers: int | None
    blocks: int | None
    status: Status


@dataclass(frozen=True, slots=True)
class Shortlist:
    """The best variants and the worst.

    Attributes:
        question: What the run asked.
        heading: How many variants there are, and what was not measured.
        response: The quantity they are ranked by.
        best: The best, best first.
        worst: The worst; None where all are among the best.
        tied: Number of variants indistinguishable from the best, itself included.
    """

    question: str
    heading: str
    response: Response
    best: tuple[ShortlistedVariant, ...]
    worst: ShortlistedVariant | None
    tied: int

    @property
    def lines(self) -> tuple[ShortlistedVariant, ...]:
        """The best and the worst."""
        return (*self.best, *([self.worst] if self.worst else []))


def shortlist(run: RunRecord, records: tuple[VariantRecord, ...]) -> Shortlist:
    """Choose the variants to show."""
    response = response_of(records)
    order = ranked(records, response)
    rank = ranking(records, response)
    top = rank(order[0]) if order else None
    lines = [_line(record, response, rank, top) for record in (*order[:BEST], *order[BEST:][-1:])]
    lines = lines or [_line(record, response, rank, None) for record in sorted(records, key=_failed)[:BEST]]
    failed = Counter(record.status for record in records if record.status.failed)
    counted = f"{len(records)} variants" if len(records) != 1 else "1 variant"
    heading = ", ".join([counted, *(f"{count} {status}" for status, count in failed.items())])
    heading += "." + (f" {run.not_measured.rstrip('.')}." if run.not_measured else "")
    heading += f" {rule}" if (rule := rule_of(records, response)) else ""
    tied = len(tied_with_best(records, response)) if order else 0
    worst = lines[BEST] if len(lines) > BEST else None
    return Shortlist(run.question, heading, response, tuple(lines[:BEST]), worst, tied)


def _failed(record: VariantRecord) -> bool:
    return record.status.failed


def _line(
    record: VariantRecord, response: Response, rank: Callable[[VariantRecord], float | None], top: float | None
) -> ShortlistedVariant:
    standing = rank(record)
    blocks = record.prediction.blocks_per_sm if record.prediction else None
    return ShortlistedVariant(
        variant=record.variant,
        name=name_of(record),
        figure=response.of(record),
        ratio=standing / top if standing is not None and top else None,
        registers=record.build.resources.registers if record.build else None,
        blocks=blocks,
        status=record.status,
    )


_MISSING: Final = "–"


def _cells(line: ShortlistedVariant) -> tuple[str, ...]:
    return (
        line.variant,
        line.name,
        _MISSING if line.figure is None else f"{line.figure:.4g}",
        _MISSING if line.ratio is None else f"{line.ratio:.3f}",
        _MISSING if line.registers is None else str(line.registers),
        _MISSING if line.blocks is None else str(line.blocks),
        str(line.status),
    )


def _headings(selection: Shortlist) -> tuple[str, ...]:
    figure = f"{selection.response.title}, {selection.response.unit} ({selection.response.kind})"
    return ("variant", "name", figure, "of the best", "registers", "blocks/SM", "status")


def as_text(selection: Shortlist, page: str) -> str:
    """Return the question, the best variant and the report's path as text."""
    figure = f"{selection.response.kind}"
    lines = [selection.question, selection.heading]
    for line in selection.best[:1]:
        if line.figure is None:
            lines.append(f"first: {line.name} ({line.variant}), {line.status}")
        else:
            word = f"{selection.tied} variants cannot be told apart, the first:" if selection.tied > 1 else "best:"
            lines.append(f"{word} {line.name} ({line.variant}), {line.figure:.4g} {selection.response.unit} ({figure})")
    return "\n".join([*lines, f"report: {page}"])


def as_html(selection: Shortlist, page: str) -> str:
    """Return a table for a notebook; everything in it is escaped."""
    heads = "".join(f"<th>{escape(heading)}</th>" for heading in _headings(selection))
    rows = [f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(line))}</tr>" for line in selection.best]
    if selection.worst:
        rows.append(f"<tr><td colspan={len(_headings(selection))}>the worst:</td></tr>")
        rows.append(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(selection.worst))}</tr>")
    return (
        f"<div><p><b>{escape(selection.question)}</b><br>{escape(selection.heading)}<br>{escape(page)}</p>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def variants_beginning(records: Sequence[VariantRecord], beginning: str) -> tuple[VariantRecord, ...]:
    """Return the variants whose id starts with `beginning`."""
    return tuple(record for record in records if record.variant.startswith(beginning))
