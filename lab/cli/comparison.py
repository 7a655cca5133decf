"""The answer of `lab compare`: which side is faster, by how much and why; then what differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from lab.advice.contrast import Contrast, DifferenceCause
from lab.base.amounts import digits_of, scale_of, significant, time_text
from lab.cli.terminal import Text
from lab.measured.timing import Kind
from lab.recorded.run_records import RunRecord
from lab.runs.compare import Change, ComparedTime, Comparison, Verdict

VERDICT_STYLES: Final = {
    "faster": "green", "mended": "green", "slower": "red", "broken": "bold red", "ambiguous": "yellow"
}  # fmt: skip
_CHANGES_SHOWN: Final = 60
_SOURCE_SHOWN: Final = 60
"""Most lines of a source diff."""
_FACTS_SHOWN: Final = 20
_CLOSE: Final = 1.5
"""Ratios below this have three significant digits even if they are predicted."""
_NAMED: Final = 3
"""Most parameters that name a variant in a sentence."""


def print_comparison(console: Console, comparison: Comparison, threshold: float) -> None:
    """Print the answer, then what differs between two variants, or a line per variant that differs."""
    single = len(comparison.changes) == 1 and not comparison.only_a and not comparison.only_b
    change = comparison.leading
    answer = _answer(comparison, change) if single else _summary(comparison, change)
    console.print(Text(answer, style=VERDICT_STYLES.get(change.verdict, "")))
    if comparison.contrast is not None and (detail := _detail(comparison.contrast)):
        console.print(Text(detail), soft_wrap=not console.is_terminal)
    console.print()
    if single:
        _print_facts(console, comparison, change)
        _print_source(console, comparison.source)
    else:
        _print_changes(console, comparison, threshold)


def _answer(comparison: Comparison, change: Change) -> str:
    """Return the first line: the faster variant, the factor with its kind and range, and the cause with its line."""
    a, b = _names(change)
    if change.verdict is Verdict.BROKEN:
        return f"{b} is {change.unlike['status'][1]} and {a} is {change.unlike['status'][0]}: {change.reasons[1]}"
    if change.verdict is Verdict.MENDED:
        return f"{b} is {change.unlike['status'][1]} and {a} is {change.unlike['status'][0]}: {change.reasons[0]}"
    if change.ratio is None:
        return f"{b} and {a}: no times to compare{_why_untimed(change)}"
    cause = _cause(comparison.contrast, decided=change.verdict in (Verdict.FASTER, Verdict.SLOWER))
    if change.verdict is Verdict.SAME:
        within = f", within {change.tolerance - 1:.0%}" if change.kind is Kind.PREDICTED else ""
        return f"{b} and {a} take the same time, {_source_of(comparison, change)}{within}{cause}"
    if change.verdict is Verdict.AMBIGUOUS:
        source, range_ = _source_of(comparison, change), interval_text(change)
        return f"{b} and {a} cannot be told apart: {change.ratio:.2f} x, {source}, {range_}{cause}"
    ratio, low, high = (value or 0.0 for value in (change.ratio, change.low, change.high))
    faster, slower = b, a
    if ratio < 1:
        ratio, low, high, faster, slower = 1 / ratio, 1 / high, 1 / low, a, b
    digits = 4 if change.kind is Kind.MEASURED else 2
    interval = f"{significant(low, digits)} to {significant(high, digits)}"
    claim = f"is {significant(ratio, max(digits, 3 if ratio < _CLOSE else 0))} x as fast as"
    return f"{faster} {claim} {slower}, {_source_of(comparison, change)}, {interval}{cause}"


def _why_untimed(change: Change) -> str:
    reasons = [f"{name} {reason}" for name, reason in zip("AB", change.reasons, strict=True) if reason]
    return f" ({'; '.join(reasons)})" if reasons else ": neither was measured or executed on the CPU"


def _source_of(comparison: Comparison, change: Change) -> str:
    """Return the kind of the times, and the GPU or GPUs."""
    gpus = [
        (time.gpu if time is not None and time.gpu else run.gpu.name if run.gpu else "")
        for time, run in ((change.time_a, comparison.a), (change.time_b, comparison.b))
    ]
    preposition = "for" if change.kind is Kind.PREDICTED else "on"
    where = gpus[0] if gpus[0] == gpus[1] else f"{gpus[0]} (A) and {gpus[1]} (B)"
    return f"{change.kind} {preposition} {where}" if where else str(change.kind)


def _cause(contrast: Contrast | None, *, decided: bool) -> str:
    """Return the cause with its line, for the first line; of times that are the same, what changed most."""
    if contrast is None:
        return ""
    cause, bound = contrast.cause, f"{contrast.bound} takes longest in both" if contrast.bound else ""
    if cause is None:
        return f": {bound}" if bound else ""
    where = cause.place.source
    place = f" at line {where.line}" if where is not None else ""
    if decided and not cause.hidden:
        return f"; cause: {cause.name}{place} of {cause.holder}"
    hidden = ", hidden behind other costs" if cause.hidden else ""
    return f"{f': {bound}' if bound else ''}; changed most: {cause.name}{place} of {cause.holder}{hidden}"


def _detail(contrast: Contrast) -> str:
    """Return the second line: the cause with its figures and its remedy."""
    cause: DifferenceCause | None = contrast.cause
    if cause is None:
        return ""
    place = f" at {cause.place.short}" if cause.place.short else ""
    remedy = f"\nremedy: {cause.remedy}" if cause.remedy else ""
    return f"{cause.holder}: {cause.name}{place}: {cause.detail}{remedy}"


def _names(change: Change) -> tuple[str, str]:
    """Return the names of both variants: A and B with the values of what varies, as far as these are few."""
    varying = {
        name: texts for name, texts in change.unlike.items() if name not in _NOT_NAMES and not name.startswith("hot-")
    }
    if not varying or len(varying) > _NAMED:
        return "A", "B"
    names = ["kernel"] if "kernel" in varying else list(varying)
    sides = []
    for place, letter in enumerate("AB"):
        values = [texts[place] if name == "kernel" else f"{name}={texts[place] or 'none'}" for name in names
                  for texts in (varying[name],)]  # fmt: skip
        sides.append(f"{letter} ({' '.join(values)})")
    return sides[0], sides[1]


_NOT_NAMES: Final = frozenset({"template", "status"})


def _summary(comparison: Comparison, change: Change) -> str:
    """Return the first line on two runs: the counts of the verdicts and the leading change."""
    total, counts = len(comparison.changes), comparison.counts
    words = [f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict]]
    text = f"B against A, {total} variants: {', '.join(words)}"
    name = f"{change.kernel} {change.label}".strip()
    if change.verdict is Verdict.BROKEN:
        return f"{text}. Broken: {name}: {change.reasons[1]}"
    if change.ratio is None or change.verdict is Verdict.SAME:
        return f"{text}{f' ({_source_of(comparison, change)})' if change.ratio else ''}"
    difference = f"{change.ratio - 1:+.1%} ({_source_of(comparison, change)})"
    return f"{text}. Largest: {name}, {difference}{_cause(comparison.contrast, decided=True)}"


def _print_facts(console: Console, comparison: Comparison, change: Change) -> None:
    """Print the facts that differ between two variants, one per row."""
    rows = list(_rows(comparison, change))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("what differs", overflow="fold")
    for letter, variant in (("A", change.variant_a), ("B", change.variant_b)):
        table.add_column(f"{letter} {variant}", justify="right", overflow="fold")
    for row in rows[:_FACTS_SHOWN]:
        table.add_row(*map(Text, row))
    console.print(table)
    if len(rows) > _FACTS_SHOWN:
        console.print(f"… {len(rows) - _FACTS_SHOWN} further differences; --json has them all", highlight=False)
    if change.same_code:
        console.print("the machine code is the same")


def _rows(comparison: Comparison, change: Change) -> Iterator[tuple[str, str, str]]:
    facts = comparison.contrast.facts if comparison.contrast is not None else ()
    yield from ((name, *texts) for name, texts in change.unlike.items() if not name.startswith("hot-"))
    if change.time_a is not None and change.time_b is not None and change.verdict is not Verdict.SAME:
        yield f"time, {change.kind}", _time(change.time_a, change.kind), _time(change.time_b, change.kind)
    yield from ((fact.name, fact.a, fact.b) for fact in facts)


def _time(time: ComparedTime, kind: Kind | None) -> str:
    """Return a time in the digits that its error allows, and its range where it is predicted."""
    digits = digits_of((time.high - time.low) / 2 / time.ms) if time.ms else 2
    if kind is not Kind.PREDICTED:
        return time_text(time.ms, digits)
    factor, unit = scale_of("ms", (time.ms,))
    middle, low, high = (significant(ms * factor, digits) for ms in (time.ms, time.low, time.high))
    return f"≈ {middle} {unit}, {low} to {high}"


def _print_source(console: Console, lines: Sequence[str]) -> None:
    styles: Mapping[str, str] = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines[:_SOURCE_SHOWN]:
        console.print(Text(line, style=styles.get(line[:1], "")), soft_wrap=True)
    if len(lines) > _SOURCE_SHOWN:
        console.print(f"… {len(lines) - _SOURCE_SHOWN} more lines; --json has them all", highlight=False)


def _print_changes(console: Console, comparison: Comparison, threshold: float) -> None:
    """Print one row per variant that differs, the largest loss first, and what is in one run alone."""
    console.print(Text(f"A: {_run_in_words(comparison.a)}"))
    console.print(Text(f"B: {_run_in_words(comparison.b)}"))
    shown = [change for change in comparison.changes if _differs(change)]
    shown.sort(key=lambda change: change.ratio or 0.0)
    if shown:
        kinds = {change.kind for change in shown} - {None}
        relative = ", relative to the baseline" if comparison.relative else ""
        kind = f", {', '.join(map(str, kinds))}" if kinds else ""
        console.print(Text(f"throughput B / A{kind}{relative}; only what differs:"))
        table = Table(box=None, pad_edge=False)
        for header in ("", "variant", "B / A", "range", "code", "changes"):
            table.add_column(header, justify="right" if header == "B / A" else "left")
        for change in shown[:_CHANGES_SHOWN]:
            mark = " ✗" if change.regressed(threshold) else ""
            table.add_row(
                Text(f"{change.verdict}{mark}", style=VERDICT_STYLES.get(change.verdict, "")),
                Text(f"{change.kernel} {change.label}".strip()),
                "" if change.ratio is None else significant(change.ratio, 3),
                interval_text(change),
                {True: "same", False: "differs", None: ""}[change.same_code],
                Text(_figures(change)),
            )
        console.print(table)
        if len(shown) > _CHANGES_SHOWN:
            console.print(f"… and {len(shown) - _CHANGES_SHOWN} more; --json has them all")
    if comparison.baseline is not None:
        console.print(f"the baseline itself: {comparison.baseline:.4f} of its throughput in A", highlight=False)
    for name, unmatched in (("A", comparison.only_a), ("B", comparison.only_b)):
        if unmatched:
            console.print(f"{len(unmatched)} variants are in {name} alone")


def _figures(change: Change) -> str:
    return ", ".join(f"{name} {_pair(*pair)}" for name, pair in change.figures.items() if pair[0] != pair[1])


def _differs(change: Change) -> bool:
    figures = any(pair[0] != pair[1] for pair in change.figures.values())
    return change.verdict is not Verdict.SAME or change.same_code is False or figures


def interval_text(change: Change) -> str:
    """Return the interval of a ratio; empty where there is none."""
    if change.low is None or change.high is None:
        return ""
    digits = 4 if change.kind is Kind.MEASURED else 2
    return f"{significant(change.low, digits)} to {significant(change.high, digits)}"


def _run_in_words(run: RunRecord) -> str:
    gpu = run.gpu.name if run.gpu else "no GPU"
    return ", ".join(filter(None, [run.experiment, run.started, gpu, run.commit and f"commit {run.commit}"]))


def _pair(before: float | None, after: float | None) -> str:
    return " → ".join("none" if value is None else f"{value:.4g}" for value in (before, after))
