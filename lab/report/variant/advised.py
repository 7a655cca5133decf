"""Performance findings of a variant as the page lists them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import PurePosixPath
from typing import Any

from lab.advice.finding import Advice, CodePlace, Rule
from lab.recorded.run_records import VariantRecord
from lab.store.advice import advice_of
from lab.store.database import Store


def advice_rows(advice: Advice, sources: Collection[str]) -> dict[str, Any]:
    """Return the findings, with the words of the terminal, and the sentence behind them.

    Args:
        advice: The findings.
        sources: Names of the source file that the page shows, without folders.
    """
    return {
        "findings": [
            {
                "rule": finding.rule,
                "place": finding.place.short,
                "anchor": _anchor(finding.place, sources),
                "text": finding.place.text,
                "cause": finding.cause,
                "gain": finding.gain_text,
                "remedy": finding.remedy,
            }
            for finding in advice.findings
        ],
        "closing": advice.closing,
        "short": _short(advice),
        "complete": not advice.skipped,
    }


def _short(advice: Advice) -> str:
    """Say in a sentence that no rule found anything, and how many rules lacked their evidence."""
    if not advice.skipped:
        return advice.closing
    missing = ", ".join(dict.fromkeys(str(one.missing) for one in advice.skipped))
    return f"No finding; {len(advice.skipped)} of {len(Rule)} rules were not checked (they need {missing})."


def _anchor(place: CodePlace, sources: Collection[str]) -> str:
    """Return the line of the page's listings that a finding links to: of the source, else of the PTX; or empty."""
    if place.source is not None and PurePosixPath(place.source.file).name in sources:
        return f"source-{place.source.line}"
    return f"ptx-{place.ptx}" if place.ptx else ""


def advice_on(store: Store, record: VariantRecord) -> Advice:
    """Return the advice on a variant, whose lean record is read again as a whole."""
    whole = store.record(record.variant)
    return advice_of(store.variant_folder(record.variant), whole)
