"""Findings, suspicions and differences of the pipeline as faults of a candidate."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from lab.base.expressions import Scalar
from lab.emulator.results import Finding
from lab.judging.faults import Fault, Ruling
from lab.recorded.run_records import Condition, Suspicion

_WORST = re.compile(
    r"(?P<argument>\w+)\[(?P<element>[\d, ]*)\]: got (?P<got>.+?), expected (?P<expected>\S+)"
    r"(?: ± (?P<margin>\S+?))?(?:; (?P<wrong>\d+) of (?P<of>\d+) elements are wrong.*)?\Z",
    re.DOTALL,
)


def of_difference(
    check: str,
    worst: str,
    *,
    ruling: Ruling = Ruling.WRONG,
    prefix: str = "",
    problem: Mapping[str, Scalar] | None = None,
    seed: int | None = None,
) -> Fault:
    """Return the fault of outputs that differ from the reference.

    Args:
        check: The check that failed.
        worst: The worst element in the words of `Operator.verify`.
        ruling: The word that it decides for.
        prefix: Said before the element.
        problem: The problem's fields, if not the task's own.
        seed: Seed of the inputs.
    """
    reason = f"{prefix}: {worst}" if prefix else worst
    match = _WORST.search(worst)
    if match is None:
        return Fault(ruling, check, reason, problem=problem or {}, seed=seed)
    element = tuple(int(index) for index in match["element"].split(",") if index.strip())
    return Fault(
        ruling, check, reason, match["argument"], element, match["got"], match["expected"], problem or {}, seed
    )


_NOT_WRITTEN: Final = "never-written"


def of_finding(
    check: str, finding: Finding, *, problem: Mapping[str, Scalar] | None = None, seed: int | None = None
) -> Fault:
    """Return the fault of a finding: an output that is not written is wrong, everything else unsafe."""
    ruling = Ruling.WRONG if finding.kind == _NOT_WRITTEN else Ruling.UNSAFE
    return Fault(
        ruling,
        check,
        finding.summary,
        finding.variable.partition("[")[0].rpartition(" ")[2] if finding.variable else "",
        problem=problem or {},
        seed=seed,
        line=line_of(finding),
    )


def line_of(finding: Finding) -> str:
    """Return the source line of a finding, or its PTX line; empty where it has neither."""
    if finding.source is not None:
        return finding.source.short
    return f"PTX line {finding.line}" if finding.line else ""


_UNSAFE: Final = frozenset({Condition.ORDER})
"""Conditions under which a difference means a race and not another result."""


def of_suspicion(suspicion: Suspicion, seed: int) -> Fault:
    """Return the fault that a suspicion is."""
    check = str(suspicion.condition)
    if suspicion.finding is not None:
        fault = of_finding(check, suspicion.finding, seed=seed)
        return fault if fault.ruling is Ruling.WRONG else Fault(
            Ruling.UNSAFE, check, suspicion.summary, seed=seed, line=fault.line, argument=fault.argument
        )  # fmt: skip
    ruling = Ruling.UNSAFE if suspicion.condition in _UNSAFE else Ruling.WRONG
    return of_difference(check, suspicion.detail, ruling=ruling, seed=seed)
