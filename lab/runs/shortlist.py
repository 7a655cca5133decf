"""The best variants of a run and its worst, as a few lines of text or as a table in a notebook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from lab.recorded.run_records import RunRecord, Status, VariantRecord
from lab.store.figures import Response, name_of, ranked, ranking, response_of, rule_of, tied_with_best

BEST: Final = 5
"""Variants that are shown besides the worst."""


@dataclass(frozen=True, slots=True)
class ShortlistedVariant:
    """One line.

    Attributes:
        variant: Id.
        name: Kernel and parameters.
        figure: Throughput in the response's unit; None for a variant without one.
        ratio: Of what ranks it to that of the best one, 1 for the best itself.
        registers: Of a thread; None where nothing was built.
        blocks: Blocks that an SM holds; None where that is unknown.
        status: How far it came.
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
        response: What they are ranked by.
        best: The best, best first.
        worst: The worst; None where all are among the best.
        tied: Variants that cannot be told apart from the best, with itself.
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
    shown = [_line(record, response, rank, top) for record in (*order[:BEST], *order[BEST:][-1:])]
    shown = shown or [_line(record, response, rank, None) for record in sorted(records, key=_failed)[:BEST]]
    failed = Counter(record.status for record in records if record.status.failed)
    counted = f"{len(records)} variants" if len(records) != 1 else "1 variant"
    heading = ", ".join([counted, *(f"{count} {status}" for status, count in failed.items())])
    heading += "." + (f" {run.not_measured.rstrip('.')}." if run.not_measured else "")
    heading += f" {rule}" if (rule := rule_of(records, response)) else ""
    tied = len(tied_with_best(records, response)) if order else 0
    worst = shown[BEST] if len(shown) > BEST else None
    return Shortlist(run.question, heading, response, tuple(shown[:BEST]), worst, tied)


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


def _cells(one: ShortlistedVariant) -> tuple[str, ...]:
    return (
        one.variant,
        one.name,
        _MISSING if one.figure is None else f"{one.figure:.4g}",
        _MISSING if one.ratio is None else f"{one.ratio:.3f}",
        _MISSING if one.registers is None else str(one.registers),
        _MISSING if one.blocks is None else str(one.blocks),
        str(one.status),
    )


def _headings(found: Shortlist) -> tuple[str, ...]:
    figure = f"{found.response.title}, {found.response.unit} ({found.response.kind})"
    return ("variant", "name", figure, "of the best", "registers", "blocks/SM", "status")


def as_text(found: Shortlist, page: str) -> str:
    """Return a few lines: the question, the best variant, and where the report is."""
    figure = f"{found.response.kind}"
    lines = [found.question, found.heading]
    for one in found.best[:1]:
        if one.figure is None:
            lines.append(f"first: {one.name} ({one.variant}), {one.status}")
        else:
            word = f"{found.tied} variants cannot be told apart, the first:" if found.tied > 1 else "best:"
            lines.append(f"{word} {one.name} ({one.variant}), {one.figure:.4g} {found.response.unit} ({figure})")
    return "\n".join([*lines, f"report: {page}"])


def as_html(found: Shortlist, page: str) -> str:
    """Return a table for a notebook; everything in it is escaped."""
    heads = "".join(f"<th>{escape(one)}</th>" for one in _headings(found))
    rows = [f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(one))}</tr>" for one in found.best]
    if found.worst:
        rows.append(f"<tr><td colspan={len(_headings(found))}>the worst:</td></tr>")
        rows.append(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(found.worst))}</tr>")
    return (
        f"<div><p><b>{escape(found.question)}</b><br>{escape(found.heading)}<br>{escape(page)}</p>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def variants_beginning(records: Sequence[VariantRecord], beginning: str) -> tuple[VariantRecord, ...]:
    """Return the variants whose id begins so."""
    return tuple(record for record in records if record.variant.startswith(beginning))
