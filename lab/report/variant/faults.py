"""A variant's findings and suspicions as the page lists them, and the PTX lines they mark."""

from __future__ import annotations

from pathlib import PurePosixPath

from lab.emulator.results import Access, Finding
from lab.isa.model import SourceLocation
from lab.recorded.run_records import Suspicion, VariantRecord


def findings_of(record: VariantRecord) -> list[dict[str, object]]:
    """Return every finding of the emulator, with both accesses of a race; then the suspicions, with conditions."""
    if record.emulation is None:
        return []
    suspicions = [_suspicion(suspicion) for suspicion in record.emulation.suspicions]
    return [*(_finding(finding) for finding in record.emulation.findings), *suspicions]


def _suspicion(suspicion: Suspicion) -> dict[str, object]:
    if suspicion.finding is not None:
        return _finding(suspicion.finding) | {"condition": str(suspicion.condition)}
    return {
        "kind": "other results",
        "condition": str(suspicion.condition),
        "line": 0,
        "text": "",
        "source": None,
        "detail": suspicion.detail,
        "facts": [],
        "other": None,
    }


def _finding(finding: Finding) -> dict[str, object]:
    facts = [
        ("block", _index(finding.block)),
        ("thread", _thread(finding.thread, finding.warp)),
        ("variable", finding.variable),
        ("address", "" if finding.address is None else f"{finding.address:#x}"),
        ("called at", _calls(finding.calls)),
        ("other side called at", _calls(finding.other.calls) if finding.other else ""),
        ("remedy", finding.remedy),
        ("seen", f"{finding.count:,} times" if finding.count > 1 else ""),
    ]
    return {
        "kind": finding.kind,
        "condition": "",
        "line": finding.line,
        "text": finding.text,
        "source": _source(finding.source),
        "detail": finding.detail,
        "facts": [(name, text) for name, text in facts if text],
        "other": _other(finding.other) if finding.other else None,
    }


def _other(side: Access) -> dict[str, object]:
    return {
        "kind": side.kind,
        "line": side.line,
        "thread": _thread(side.thread, side.warp),
        "block": _index(side.block),
        "source": _source(side.source),
    }


def _index(index: tuple[int, int, int] | None) -> str:
    return "" if index is None else f"({', '.join(map(str, index))})"


def _thread(index: tuple[int, int, int] | None, warp: int | None) -> str:
    return _index(index) + ("" if index is None or warp is None else f" of warp {warp}")


def _source(place: SourceLocation | None) -> tuple[str, int] | None:
    """Return file and line; the page links lines of the kernel's own source."""
    return None if place is None else (place.file, place.line)


def _calls(calls: tuple[SourceLocation, ...]) -> str:
    return ", from ".join(f"{PurePosixPath(call.file).name} line {call.line}" for call in calls)


def marked_lines(record: VariantRecord) -> list[int]:
    """Return the PTX lines of findings, both accesses of a race included, in ascending order."""
    lines, emulation = set(), record.emulation
    for finding in (
        (*emulation.findings, *(suspicion.finding for suspicion in emulation.suspicions if suspicion.finding))
        if emulation
        else ()
    ):
        lines |= {finding.line, finding.other.line if finding.other else 0}
    return sorted(lines - {0})
