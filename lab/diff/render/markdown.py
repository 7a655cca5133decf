"""The comparison as a comment on a pull request: collapsible, at most 60 KB."""

from __future__ import annotations

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

MOST_BYTES: Final = 60_000
"""GitHub refuses comments beyond 65,536 characters."""
MARKER: Final = "<!-- lab diff -->"
"""First line of the comment, by which the next run finds and replaces it."""
_MOST_ROWS: Final = 60
_LISTING_ROWS: Final = 60


def markdown(comparison: SideComparison, failures: Sequence[GateFailure] = ()) -> str:
    """Return the comment. Where it would be too long, listings go first, then details, then rows."""
    unlike = unlike_kernels(comparison)
    for rows, detailed, listing in (
        (_MOST_ROWS, len(unlike), _LISTING_ROWS),
        (_MOST_ROWS, 20, 30),
        (_MOST_ROWS, 20, 0),
        (_MOST_ROWS, 5, 0),
        (20, 0, 0),
        (5, 0, 0),
    ):
        text = "\n".join(_lines(comparison, failures, rows=rows, detailed=detailed, listing=listing)) + "\n"
        if len(text.encode()) <= MOST_BYTES:
            return text
    return text.encode()[: MOST_BYTES - 4].decode(errors="ignore") + "\n"


def _lines(
    comparison: SideComparison, failures: Sequence[GateFailure], *, rows: int, detailed: int, listing: int
) -> Iterator[str]:
    unlike = unlike_kernels(comparison)
    yield MARKER
    yield f"### {'❌ ' if failures else ''}Kernels: {_escaped(headline(comparison))}"
    yield ""
    sentences = list(warnings(comparison, failures))
    yield from (f"- **{_escaped(sentence)}**" for sentence in sentences[:_MOST_ROWS])
    if len(sentences) > _MOST_ROWS:
        yield f"- and {len(sentences) - _MOST_ROWS} more"
    yield ""
    if unlike:
        yield "| kernel | arch | class | registers | spills | hot loop | predicted | why |"
        yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
        for change in unlike[:rows]:
            cells = [_code(title(change)), change.arch, change.cls.value, *short_figures(change)]
            cells += [predicted_text(change, short=True), _escaped("; ".join(change.reasons[:2]))]
            yield f"| {' | '.join(cells)} |"
        if len(unlike) > rows:
            yield f"\nand {len(unlike) - rows} more kernels"
    for change, archs in grouped(unlike)[:detailed]:
        yield from _details(change, archs, listing)
    for word, kernels in (("added", comparison.added), ("removed", comparison.removed)):
        if kernels:
            yield ""
            yield f"<details><summary>{len(kernels)} kernels {word}</summary>"
            yield ""
            yield from (f"- {_code(kernel.name)} {kernel.arch} {_escaped(kernel.where)}" for kernel in kernels[:rows])
            yield ""
            yield "</details>"
    if comparison.verdicts:
        yield ""
        yield from (f"- {_escaped(line)}" for line in list(experiment_lines(comparison))[:rows])
    yield ""
    yield f"BASE {_code(comparison.base)}, HEAD {_code(comparison.head)}. Times are predicted, none is measured."


def _details(change: KernelChange, archs: str, listing: int) -> Iterator[str]:
    yield ""
    yield f"<details><summary>{_escaped(title(change))} {archs}: {change.cls.value}</summary>"
    yield ""
    yield from (f"- {_escaped(reason)}" for reason in change.reasons)
    if change.lines:
        yield f"- at {', '.join(_code(line) for line in change.lines)}"
    if text := predicted_text(change):
        yield f"- {text}"
    rows = list(figure_rows(change))
    if rows:
        yield ""
        yield "| figure | BASE | HEAD |"
        yield "| --- | --- | --- |"
        yield from (f"| {name.strip()} | {before} | {after} |" for name, before, after in rows)
    if listing and change.listing:
        yield ""
        yield "```diff"
        yield from listing_lines(change, listing)
        yield "```"
    yield ""
    yield "</details>"


def _code(text: str) -> str:
    """Return text as code that cannot end early: a backtick becomes an apostrophe."""
    return "`" + text.replace("`", "'").replace("|", "\\|").replace("\n", " ") + "`"


def _escaped(text: str) -> str:
    for character in "\\`*_<>[]|":
        text = text.replace(
            character, f"\\{character}" if character not in "<>" else {"<": "&lt;", ">": "&gt;"}[character]
        )
    return text.replace("\n", " ").replace("@", "@\u200b")
