"""Thresholds of `--fail-on`: `spills>0`, `registers>+8`, `predicted>+3%`, `class>renamed`, `removed`, `missing`.

A threshold is a figure, a comparison and a value. A value with a sign is a change against BASE, with `%` a relative
one. A figure that is not known fails the gate: what was not looked at has not passed.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lab.base.errors import UserError, did_you_mean
from lab.diff.classify import CodeClass
from lab.diff.comparison import KernelChange, SideComparison
from lab.diff.figures import KernelFigures

_SLOW: Final = {"local": "local memory", "division": "division", "fp64": "FP64", "fences": "wide fences"}


def _loop_instructions(figures: KernelFigures) -> float | None:
    return figures.loop.instructions if figures.loop else 0


def _slow_count(kind: str) -> Callable[[KernelFigures], float | None]:
    return lambda figures: figures.slow.get(kind, 0)


FIGURES: Final[Mapping[str, Callable[[KernelFigures], float | None]]] = {
    "registers": lambda figures: figures.registers,
    "spills": lambda figures: figures.spill_bytes,
    "stack": lambda figures: figures.stack_bytes,
    "shared": lambda figures: figures.shared_bytes,
    "code": lambda figures: figures.code_bytes,
    "instructions": lambda figures: figures.instructions,
    "occupancy": lambda figures: None if figures.occupancy is None else 100 * figures.occupancy,
    "loop": _loop_instructions,
    **{name: _slow_count(kind) for name, kind in _SLOW.items()},
}
"""Figures that a threshold may name: bytes, counts, and occupancy in percent."""
WORDS: Final = ("removed", "added", "missing", "failed", "verdict")
"""Gates without a value: kernels gone or new, architectures missing on a side, sources that do not compile, and results
of the experiment."""
_GATE = re.compile(r"\s*([a-z]+)\s*(?:(>=|<=|>|<|=)\s*([+-]?)\s*([\w. ]+?)\s*(%?)\s*)?")
_OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "=": operator.eq,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Gate:
    """A threshold.

    Attributes:
        text: As the user wrote it.
        figure: A key of `FIGURES`, `predicted`, `class`, or one of `WORDS`.
        compare: The comparison; None for a word.
        value: What the figure is compared with; for a class, its place among the classes.
        change: The value is a change against BASE.
        relative: The value is in percent of BASE.
    """

    text: str
    figure: str
    compare: Callable[[float, float], bool] | None = None
    value: float = 0.0
    change: bool = False
    relative: bool = False


@dataclass(frozen=True, slots=True)
class GateFailure:
    """A threshold that a comparison does not hold.

    Attributes:
        gate: The threshold as it was written.
        kernel: The kernel; empty where it is about a side.
        arch: Its architecture.
        message: What was found.
        change: The change, for its place.
    """

    gate: str
    kernel: str
    arch: str
    message: str
    change: KernelChange | None = None


def read_gate(text: str) -> Gate:
    """Read a threshold.

    Raises:
        UserError: It is malformed, or names an unknown figure.
    """
    match = _GATE.fullmatch(text)
    names = (*FIGURES, "predicted", "class", *WORDS)
    if match is None or match[1] not in names:
        raise UserError(
            "not a threshold",
            code="wrong-value",
            key="--fail-on",
            found=text,
            accepted=f"a figure with a value, spills>0, registers>+8, predicted>+3%, class>renamed, or a word; "
            f"{', '.join(names)}",
            suggestion=did_you_mean(re.split(r"[^a-z]", text.strip())[0], names),
        )
    name, comparison, sign, value, percent = match.groups()
    if (name in WORDS) != (comparison is None):
        wanted = "the word alone" if name in WORDS else f"{name}>VALUE"
        raise UserError("not a threshold", code="wrong-value", key="--fail-on", found=text, accepted=wanted)
    if name in WORDS:
        return Gate(text, name)
    if name == "class":
        classes = [cls.value for cls in CodeClass]
        if value not in classes or sign or percent:
            raise UserError("not a class", code="unknown-name", key="--fail-on", found=value, accepted=classes)
        return Gate(text, name, _OPERATORS[comparison], classes.index(value))
    try:
        number = float(value)
    except ValueError:
        raise UserError(
            "not a number", code="wrong-type", key="--fail-on", found=value, accepted=f"{name}{comparison}8"
        ) from None
    if name == "predicted" and not (sign and percent):
        raise UserError(
            "not a threshold", code="wrong-value", key="--fail-on", found=text, accepted="a change: predicted>+3%"
        )
    return Gate(text, name, _OPERATORS[comparison], -number if sign == "-" else number, bool(sign), bool(percent))


def check_gates(comparison: SideComparison, gates: Sequence[Gate]) -> tuple[GateFailure, ...]:
    """Return the thresholds that a comparison does not hold, in the order of its kernels."""
    return tuple(failure for gate in gates for failure in _failures(comparison, gate))


def _failures(comparison: SideComparison, gate: Gate) -> Iterator[GateFailure]:
    if gate.figure in WORDS:
        yield from _word_failures(comparison, gate)
    elif gate.figure == "predicted" and comparison.times:  # of whole launches, in place of the hot loops
        for time in comparison.times:
            percent = 100 * (time.ratio - 1)
            if gate.compare is not None and gate.compare(percent, gate.value):
                yield GateFailure(gate.text, time.variant, "", f"{percent:+.1f} % {time.kind}")
    else:
        for change in comparison.changes:
            if message := _message(change, gate):
                yield GateFailure(gate.text, change.name, change.arch, message, change)


def _word_failures(comparison: SideComparison, gate: Gate) -> Iterator[GateFailure]:
    if gate.figure == "removed":
        yield from (GateFailure(gate.text, k.name, k.arch, "is not in HEAD") for k in comparison.removed)
    elif gate.figure == "added":
        yield from (GateFailure(gate.text, k.name, k.arch, "is not in BASE") for k in comparison.added)
    elif gate.figure == "missing":
        yield from (GateFailure(gate.text, "", "", sentence) for sentence in comparison.missing_archs)
    elif gate.figure == "failed":
        yield from (GateFailure(gate.text, "", "", f"{side}: {p}: {why}") for side, p, why in comparison.failures)
    else:
        for verdict in comparison.verdicts:
            if not verdict.passed:
                yield GateFailure(gate.text, verdict.variant, "", f"{verdict.side}: {verdict.word}: {verdict.reason}")


def _message(change: KernelChange, gate: Gate) -> str:
    """Return what is wrong with a kernel; empty where the threshold holds."""
    assert gate.compare is not None  # noqa: S101 - only words have none
    if gate.figure == "class":
        place = list(CodeClass).index(change.cls)
        return f"is {change.cls}" if gate.compare(place, gate.value) else ""
    if gate.figure == "predicted":
        return _predicted_message(change, gate)
    if change.cls is CodeClass.IDENTICAL and gate.change:
        return ""
    if change.head is None or change.base is None:
        return f"{gate.figure} unknown: {'; '.join(change.reasons)}"
    return _figure_message(FIGURES[gate.figure](change.base), FIGURES[gate.figure](change.head), gate)


def _predicted_message(change: KernelChange, gate: Gate) -> str:
    if change.predicted is None:  # nothing changes, or the loops do unlike work, which the class and figures show
        return ""
    percent = 100 * (change.predicted.ratio - 1)
    return f"{percent:+.1f} % predicted" if gate.compare is not None and gate.compare(percent, gate.value) else ""


def _figure_message(before: float | None, after: float | None, gate: Gate) -> str:
    if after is None or (gate.change and before is None):
        return f"{gate.figure} unknown"
    value = after
    if gate.change:
        value = after - (before or 0)
        if gate.relative:
            value = 100 * value / before if before else (100.0 if value > 0 else 0.0)
    shown = f"{gate.figure} {'unknown' if before is None else f'{before:g}'} -> {after:g}"
    return shown if gate.compare is not None and gate.compare(value, gate.value) else ""
