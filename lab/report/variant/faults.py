"""The emulator's findings and suspicions of a variant as the page lists them, and the PTX lines that they mark."""

from __future__ import annotations

from pathlib import PurePosixPath

from lab.emulator.results import Access, Finding
from lab.isa.model import SourceLocation
from lab.recorded.run_records import Suspicion, VariantRecord


def findings_of(record: VariantRecord) -> list[dict[str, object]]:
    """Return every finding of the CPU execution, with both accesses of a race; then the suspicions, with conditions."""
    if record.emulation is None:
        return []
    suspicions = [_suspicion(found) for found in record.emulation.suspicions]
    return [*(_finding(found) for found in record.emulation.findings), *suspicions]


def _suspicion(found: Suspicion) -> dict[str, object]:
    if found.finding is not None:
        return _finding(found.finding) | {"condition": str(found.condition)}
    return {
        "kind": "other results",
        "condition": str(found.condition),
        "line": 0,
        "text": "",
        "source": None,
        "detail": found.detail,
        "facts": [],
        "other": None,
    }


def _finding(found: Finding) -> dict[str, object]:
    facts = [
        ("block", _index(found.block)),
        ("thread", _thread(found.thread, found.warp)),
        ("variable", found.variable),
        ("address", "" if found.address is None else f"{found.address:#x}"),
        ("called at", _calls(found.calls)),
        ("other side called at", _calls(found.other.calls) if found.other else ""),
        ("remedy", found.remedy),
        ("seen", f"{found.count:,} times" if found.count > 1 else ""),
    ]
    return {
        "kind": found.kind,
        "condition": "",
        "line": found.line,
        "text": found.text,
        "source": _source(found.source),
        "detail": found.detail,
        "facts": [(name, text) for name, text in facts if text],
        "other": _other(found.other) if found.other else None,
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
    return ", from ".join(f"{PurePosixPath(one.file).name} line {one.line}" for one in calls)


def marked_lines(record: VariantRecord) -> list[int]:
    """Return the PTX lines that findings name, both accesses of a race included, in ascending order."""
    lines, done = set(), record.emulation
    for found in (*done.findings, *(one.finding for one in done.suspicions if one.finding)) if done else ():
        lines |= {found.line, found.other.line if found.other else 0}
    return sorted(lines - {0})
