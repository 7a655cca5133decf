"""The comparison for programs: JSON, SARIF 2.1.0 and JUnit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final
from xml.etree import ElementTree as ET

from lab.base.version import VERSION
from lab.diff.classify import CodeClass
from lab.diff.comparison import KernelChange, SideComparison
from lab.diff.gates import GateFailure
from lab.diff.render.words import predicted_text, title, unlike_kernels, warnings

SCHEMA: Final = 1
"""Incremented when a key of the JSON is renamed or removed."""
_SARIF: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_CONTROL: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")
_LEVELS: Final = {CodeClass.CHANGED: "warning", CodeClass.EQUIVALENT: "note", CodeClass.RESCHEDULED: "note"}


def as_json(comparison: SideComparison, failures: Sequence[GateFailure] = ()) -> dict[str, Any]:
    """Return the comparison as values JSON can hold."""
    return {
        "schema": SCHEMA,
        "lab": VERSION,
        **asdict(comparison),
        "counts": comparison.counts,
        "failed_gates": [{"gate": f.gate, "kernel": f.kernel, "arch": f.arch, "message": f.message} for f in failures],
    }


def sarif(comparison: SideComparison, failures: Sequence[GateFailure] = ()) -> str:
    """Return the differences as SARIF: an error for each failed threshold, a warning or note for other changes."""
    results = [_result("gate", "error", f"{f.gate}: {f.kernel} {f.arch} {f.message}", f.change) for f in failures]
    results += [
        _result(change.cls.value.replace(" ", "-"), _LEVELS[change.cls], _message(change), change)
        for change in unlike_kernels(comparison)
        if change.cls in _LEVELS
    ]
    results += [_result("missing", "warning", sentence, None) for sentence in comparison.missing_archs]
    rules = [{"id": rule} for rule in dict.fromkeys(str(result["ruleId"]) for result in results)]
    driver = {"name": "lab diff", "version": VERSION, "rules": rules}
    value = {"$schema": _SARIF, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    return json.dumps(value, indent=1) + "\n"


def _message(change: KernelChange) -> str:
    facts = [f"{title(change)} for {change.arch} is {change.cls}", *change.reasons, predicted_text(change)]
    return "; ".join(filter(None, facts))


def _result(rule: str, level: str, message: str, change: KernelChange | None) -> dict[str, object]:
    result: dict[str, object] = {"ruleId": rule, "level": level, "message": {"text": message}}
    if change is not None:
        file, _, line = change.lines[0].rpartition(":") if change.lines else ("", "", "")
        if file:
            place = {"artifactLocation": {"uri": file}, "region": {"startLine": int(line)}}
            result["locations"] = [{"physicalLocation": place}]
        result["partialFingerprints"] = {"kernel": f"{change.name} {change.arch} {rule}"}
    return result


def junit(comparison: SideComparison, failures: Sequence[GateFailure] = ()) -> str:
    """Return the kernels as test cases of JUnit; a case fails where a threshold does."""
    by_kernel: dict[tuple[str, str], list[GateFailure]] = {}
    for failure in failures:
        by_kernel.setdefault((failure.kernel, failure.arch), []).append(failure)
    cases = list(_cases(comparison, by_kernel))
    broken = sum(case.find("failure") is not None for case in cases)
    suite = ET.Element("testsuite", name="lab diff", tests=str(len(cases)), failures=str(broken), errors="0")
    suite.extend(cases)
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _cases(comparison: SideComparison, by_kernel: dict[tuple[str, str], list[GateFailure]]) -> Iterator[ET.Element]:
    for change in comparison.changes:
        case = ET.Element(
            "testcase", classname=f"{change.arch} {_plain(change.where)}".strip(), name=_plain(change.name)
        )
        _add_failures(case, by_kernel.pop((change.name, change.arch), []))
        ET.SubElement(case, "system-out").text = _plain(_message(change))
        yield case
    for (kernel, arch), failed in by_kernel.items():
        case = ET.Element("testcase", classname=arch or "sides", name=_plain(kernel or failed[0].gate))
        _add_failures(case, failed)
        yield case
    for sentence in warnings(comparison, ()):
        case = ET.Element("testcase", classname="sides", name=_plain(sentence))
        ET.SubElement(case, "skipped", message=_plain(sentence))
        yield case


def _add_failures(case: ET.Element, failed: Sequence[GateFailure]) -> None:
    if failed:
        text = "\n".join(f"{failure.gate}: {failure.message}" for failure in failed)
        ET.SubElement(case, "failure", message=_plain(text.splitlines()[0])).text = _plain(text)


def _plain(text: str) -> str:
    """Return text without characters that XML cannot hold."""
    return _CONTROL.sub("?", text)
