"""Words and rows that all renderers share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lab.diff.classify import CodeClass
from lab.diff.comparison import KernelChange, SideComparison
from lab.diff.figures import KernelFigures
from lab.diff.gates import GateFailure

_NAMED: Final = 4
"""Most kernels that a sentence about a threshold names."""


def headline(comparison: SideComparison) -> str:
    """Return the answer in one sentence."""
    counts = comparison.counts
    total = len(comparison.changes)
    kernels = _counted(total, "kernel")
    unlike = [f"{n} {cls}" for cls, n in reversed(counts.items()) if cls != CodeClass.IDENTICAL]
    if comparison.added:
        unlike.append(f"{len(comparison.added)} added")
    if comparison.removed:
        unlike.append(f"{len(comparison.removed)} removed")
    if not unlike:
        return f"{kernels} compared, all identical" if total else "No kernel of one side matches one of the other"
    return f"{kernels} compared: {', '.join(unlike)}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def warnings(comparison: SideComparison, failures: Sequence[GateFailure]) -> Iterator[str]:
    """Yield what a reader must know before the table: missing architectures, failed builds, thresholds."""
    for sentence in comparison.missing_archs:
        yield f"{sentence}: nothing of it was compared"
    for side, place, reason in comparison.failures:
        yield f"{side}: {place} was not compared: {reason}"
    by_gate: dict[str, list[str]] = {}
    for failure in failures:
        where = (failure.kernel, failure.arch, failure.message)
        by_gate.setdefault(failure.gate, []).append(" ".join(filter(None, where)))
    for gate, messages in by_gate.items():
        more = f" and {len(messages) - _NAMED} more" if len(messages) > _NAMED else ""
        yield f"--fail-on '{gate}': {', '.join(messages[:_NAMED])}{more}"


def title(change: KernelChange) -> str:
    """Return a kernel's name, with its old name where that differs."""
    return change.name if change.name == change.base_name else f"{change.base_name} -> {change.name}"


def unlike_kernels(comparison: SideComparison) -> tuple[KernelChange, ...]:
    """Return the kernels that are not identical."""
    return tuple(change for change in comparison.changes if change.cls is not CodeClass.IDENTICAL)


def figure_rows(change: KernelChange) -> Iterator[tuple[str, str, str]]:
    """Yield name, value in BASE and value in HEAD of the figures that differ, registers and hot loop in any case."""
    if change.base is None or change.head is None:
        return
    for name, before, after in _pairs(change.base, change.head):
        if before != after or name in ("registers", "hot loop"):
            yield name, before, after


def _pairs(base: KernelFigures, head: KernelFigures) -> Iterator[tuple[str, str, str]]:
    yield "registers", str(base.registers), str(head.registers)
    yield "spills", _bytes(base.spill_bytes), _bytes(head.spill_bytes)
    yield "stack", _bytes(base.stack_bytes), _bytes(head.stack_bytes)
    yield "shared memory", _bytes(base.shared_bytes), _bytes(head.shared_bytes)
    yield "constants", _bytes(base.constant_bytes), _bytes(head.constant_bytes)
    yield "barriers", str(base.barriers), str(head.barriers)
    yield "occupancy", _occupancy(base), _occupancy(head)
    yield "code", _bytes(base.code_bytes), _bytes(head.code_bytes)
    yield "instructions", str(base.instructions), str(head.instructions)
    yield "hot loop", _loop(base), _loop(head)
    kinds = dict.fromkeys([*(base.loop.by_class if base.loop else ()), *(head.loop.by_class if head.loop else ())])
    for kind in kinds:
        before, after = ((f.loop.by_class.get(kind, 0) if f.loop else 0) for f in (base, head))
        yield f"  {kind}", str(before), str(after)
    if base.loop and head.loop:
        yield "  fma : ld.shared", _ratio(base.loop.fma_per_ld_shared), _ratio(head.loop.fma_per_ld_shared)
    for kind in dict.fromkeys([*base.slow, *head.slow]):
        yield f"slow: {kind}", str(base.slow.get(kind, 0)), str(head.slow.get(kind, 0))


def _bytes(number: int | None) -> str:
    return "unknown" if number is None else f"{number} B"


def _ratio(ratio: float | None) -> str:
    return "none" if ratio is None else f"{ratio:.2f}"


def _occupancy(figures: KernelFigures) -> str:
    if figures.occupancy is None:
        return "unknown"
    assumed = " assumed" if figures.threads_assumed else ""
    return f"{figures.occupancy:.0%} at {figures.threads} threads{assumed}"


def _loop(figures: KernelFigures) -> str:
    if figures.loop is None:
        return "none"
    name = "no loop" if figures.loop.label == "body" else figures.loop.label
    return f"{figures.loop.instructions} instructions ({name})"


def predicted_text(change: KernelChange, *, short: bool = False) -> str:
    """Return the predicted change of the hot loop's time with its range; empty where it is not known."""
    predicted = change.predicted
    if predicted is None:
        return ""
    percent = f"{100 * (predicted.ratio - 1):+.1f} %"
    if short:
        return percent
    span = f"{100 * (predicted.low - 1):+.1f} to {100 * (predicted.high - 1):+.1f} %"
    work = "" if abs(predicted.work - 1) < 0.01 else f", work of an iteration x {predicted.work:.2f}"  # noqa: PLR2004 - equal
    return f"hot loop {percent} predicted ({span}{work})"


def experiment_lines(comparison: SideComparison) -> Iterator[str]:
    """Yield the verdicts and times of the experiment, unsound verdicts first, sound ones counted."""
    for verdict in comparison.verdicts:
        if not verdict.passed:
            yield f"{verdict.side}: {verdict.variant} is {verdict.word}: {verdict.reason}"
    for side in ("BASE", "HEAD"):
        sound = sum(verdict.passed for verdict in comparison.verdicts if verdict.side == side)
        if sound:
            yield f"{side}: {_counted(sound, 'variant')} of the experiment verified"
    for time in comparison.times:
        span = f"{100 * (time.low - 1):+.1f} to {100 * (time.high - 1):+.1f} %"
        yield f"{time.variant}: time {100 * (time.ratio - 1):+.1f} %, {time.kind}, {span}"


def short_figures(change: KernelChange) -> tuple[str, str, str]:
    """Return registers, spills and instructions of the hot loop as `32->40`; one number where they agree."""
    base, head = change.base, change.head
    if base is None or head is None:
        return "", "", ""
    loops = tuple(str(figures.loop.instructions) if figures.loop else "-" for figures in (base, head))
    spills = tuple("?" if f.spill_bytes is None else str(f.spill_bytes) for f in (base, head))
    return (
        _arrow(str(base.registers), str(head.registers)), _arrow(*spills), _arrow(*loops),
    )  # fmt: skip


def _arrow(before: str, after: str) -> str:
    return before if before == after else f"{before}->{after}"


def listing_lines(change: KernelChange, most: int | None = None) -> Iterator[str]:
    """Yield the aligned listing as a unified diff: `-` and `+` lines, equal lines behind a blank."""
    gone: list[str] = []
    new: list[str] = []
    for row in change.listing[:most]:
        if row.mark in "-+!":
            gone += [f"- {row.base}"] if row.base else []
            new += [f"+ {row.head}"] if row.head else []
            continue
        yield from (*gone, *new)
        gone, new = [], []
        yield f"@@ {row.base}".rstrip() if row.mark == "@" else f"{row.mark} {row.base}"
    yield from (*gone, *new)


def grouped(changes: Sequence[KernelChange]) -> list[tuple[KernelChange, str]]:
    """Return the kernels, those that differ alike on several architectures once, each with its architectures."""
    groups: dict[object, list[KernelChange]] = {}
    for change in changes:
        groups.setdefault((title(change), change.where, change.cls, change.reasons, change.lines), []).append(change)
    return [(alike[0], ", ".join(dict.fromkeys(c.arch for c in alike))) for alike in groups.values()]
