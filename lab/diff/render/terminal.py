"""The comparison on a terminal: the answer first, 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from lab.diff.comparison import KernelChange, SideComparison
from lab.diff.gates import GateFailure
from lab.diff.render.words import (
    experiment_lines,
    figure_rows,
    grouped,
    headline,
    listing_lines,
    predicted_text,
    short_figures,
    title,
    unlike_kernels,
    warnings,
)

WIDTH: Final = 80
_MOST_DETAILED: Final = 5
"""Kernels whose figures are listed without `--full`."""
_MOST_ROWS: Final = 30
_HEADINGS: Final = ("kernel", "arch", "class", "regs", "spills", "hot loop", "predicted")


def terminal_lines(
    comparison: SideComparison, failures: Sequence[GateFailure] = (), *, full: bool = False
) -> Iterator[str]:
    """Yield the lines of a comparison.

    Args:
        comparison: The comparison.
        failures: Thresholds that it does not hold.
        full: Show every kernel, and the aligned listings.
    """
    yield from _wrapped(f"{headline(comparison)}.")
    for sentence in warnings(comparison, failures):
        yield from _wrapped(f"! {sentence}", "  ")
    yield from _wrapped(f"BASE {comparison.base}, HEAD {comparison.head}")
    unlike = unlike_kernels(comparison)
    if unlike:
        yield ""
        yield from _table(unlike if full else unlike[:_MOST_ROWS])
        if len(unlike) > _MOST_ROWS and not full:
            yield f"and {len(unlike) - _MOST_ROWS} more: --full"
    groups = grouped(unlike)
    for change, archs in groups if full else groups[:_MOST_DETAILED]:
        yield ""
        yield from _details(change, archs, full=full)
    for word, kernels in (("added", comparison.added), ("removed", comparison.removed)):
        for kernel in kernels if full else kernels[:_MOST_ROWS]:
            yield from _wrapped(f"{word}: {kernel.name} {kernel.arch} {kernel.where}".rstrip(), "  ")
    for line in experiment_lines(comparison):
        yield from _wrapped(line, "  ")
    for note in comparison.notes if full else comparison.notes[:_MOST_DETAILED]:
        yield from _wrapped(f"note: {note}", "  ")


def _table(changes: Sequence[KernelChange]) -> Iterator[str]:
    rows = [(title(c), c.arch, c.cls.value, *short_figures(c), predicted_text(c, short=True)) for c in changes]
    widths = [max(len(_HEADINGS[i]), *(len(row[i]) for row in rows)) for i in range(1, len(_HEADINGS))]
    name_width = max(12, WIDTH - sum(widths) - 2 * len(widths))
    name_width = min(name_width, max(len(row[0]) for row in (_HEADINGS, *rows)))
    for row in (_HEADINGS, *rows):
        name = _shortened(row[0], name_width)
        cells = [cell.ljust(width) for cell, width in zip(row[1:], widths, strict=True)]
        yield "  ".join([name.ljust(name_width), *cells]).rstrip()


def _shortened(name: str, width: int) -> str:
    if len(name) <= width:
        return name
    half = (width - 2) // 2
    return f"{name[: width - 2 - half]}..{name[len(name) - half :]}"


def _details(change: KernelChange, archs: str, *, full: bool) -> Iterator[str]:
    yield from _wrapped(f"{title(change)} {archs} {change.where}".rstrip(), "  ")
    yield from _wrapped(f"  {change.cls}: {'; '.join(change.reasons)}", "    ")
    if change.lines:
        yield from _wrapped(f"  at {', '.join(change.lines)}", "    ")
    if text := predicted_text(change):
        yield from _wrapped(f"  {text}", "    ")
    if change.toolchain and "->" in change.toolchain:
        yield f"  compiled by {change.toolchain}"
    for name, before, after in figure_rows(change):
        yield from _wrapped(f"  {name:<16} {before}{f' -> {after}' if before != after else ''}", " " * 19)
    if full:
        yield from (f"  {line}" for line in listing_lines(change))


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    ) or [""]
