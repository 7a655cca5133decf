"""The rows of the page's first screen: the cost of the best variant, what limits it, and why the slowest is slow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.measured.timing import Kind
from lab.predict.variant_scores import scores
from lab.recorded.run_records import RunRecord, VariantRecord
from lab.report.facts import counted
from lab.report.facts.causes import because, causes
from lab.report.facts.lead import percent_text
from lab.store import figures
from lab.store.figures import Basis, Response, name_of


@dataclass(frozen=True, slots=True)
class ScreenRow:
    """One row of the first screen.

    Attributes:
        label: What it answers.
        text: The answer.
        kind: Kind of its figures.
        variant: Id of the variant it is about; empty where the row above names it.
        name: Name of the variant, which the page links; empty likewise.
    """

    label: str
    text: str
    kind: Kind
    variant: str
    name: str


def screen_rows(run: RunRecord, records: tuple[VariantRecord, ...], response: Response) -> tuple[ScreenRow, ...]:
    """Return the rows; none where no variant has a response."""
    best = figures.ranked(records, response)
    if not best:
        return ()
    first, last = best[0], best[-1]
    fastest = "Fastest" if response.kind is Kind.MEASURED else "Predicted fastest"
    rows = [(fastest, cost(first), Kind.STATIC, first), ("What limits it", *limit(first, records), None)]
    alone = not run.problem_axes and response.basis is not Basis.CEILING
    if alone and len(best) > 1 and not response.tied(first, last):
        rows.append(("Why the slowest is slow", slowness(first, last, response), response.kind, last))
    return tuple(
        ScreenRow(label, text, kind, r.variant if r else "", name_of(r) if r else "")
        for label, text, kind, r in rows
        if text
    )


def cost(record: VariantRecord) -> str:
    """Return the resources of a variant: registers, shared memory, spills, and how many blocks an SM holds."""
    parts = []
    if record.build is not None:
        used = record.build.resources
        parts.append(f"{used.registers} registers a thread")
        shared = figures.shared_bytes(record)
        parts += [f"{shared / 1024:.4g} KiB shared memory a block"] if shared else []
        parts.append(f"{used.spill_bytes} B spilled" if used.spill_bytes else "no spills")
    prediction = record.prediction
    if prediction is not None and prediction.blocks_per_sm:
        blocks = f"{prediction.blocks_per_sm} block{'s' if prediction.blocks_per_sm > 1 else ''} per SM"
        limiter = f", limited by {prediction.limited_by}" if prediction.limited_by else ""
        parts.append(f"{blocks} ({prediction.occupancy:.0%} occupancy{limiter})")
    return "; ".join(parts)


def limit(record: VariantRecord, records: tuple[VariantRecord, ...]) -> tuple[str, Kind]:
    """Return what a variant's time goes to: by hardware counters, else by the predicted time."""
    if measured := counted.sentence(record):
        text = measured.removeprefix("According to the hardware counters, ").removesuffix(".")
        return text[0].upper() + text[1:], Kind.MEASURED
    score = scores(records).get(record.variant)
    if score is None or not score.seconds:
        return "", Kind.PREDICTED
    return _shares(score.resources, score.seconds), Kind.PREDICTED


def _shares(resources: Mapping[str, float], seconds: float) -> str:
    """Format the three resources that need most of the time: each is what it would take by itself."""
    largest = list(resources.items())[:3]
    parts = [f"{name} {time / seconds:.0%}" for name, time in largest if time > 0]
    return f"Shares of the predicted time that each would take by itself: {', '.join(parts)}" if parts else ""


def slowness(best: VariantRecord, slowest: VariantRecord, response: Response) -> str:
    """Compare the slowest variant with the best one, with the causes in its machine code."""
    ratio = (response.of(slowest) or 0.0) / (response.of(best) or 1.0)
    text = f"{response.text(response.of(slowest) or 0.0)} {response.unit}, {percent_text(ratio)} of the fastest"
    text = text if ratio <= 0.5 else text.replace(" of the fastest", " against the fastest")  # noqa: PLR2004 - as percent_text
    pairs = ((best, slowest),)
    cause = because(causes(pairs, ratio), pairs) if ratio > 0 else ""
    return f"{text}, {cause}" if cause else f"{text}; no figure of its code explains it"
