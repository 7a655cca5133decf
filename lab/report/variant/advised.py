"""Performance findings of a variant as the page lists them."""

from __future__ import annotations

from lab.advice.finding import Advice
from lab.recorded.run_records import VariantRecord
from lab.store.advice import advice_of
from lab.store.database import Store


def advice_rows(advice: Advice) -> dict[str, object]:
    """Return the findings, with the words of the terminal, and the sentence behind them."""
    return {
        "findings": [
            {
                "rule": one.rule,
                "place": one.place.short,
                "source": (one.place.source.file, one.place.source.line) if one.place.source is not None else None,
                "ptx": one.place.ptx,
                "text": one.place.text,
                "cause": one.cause,
                "gain": one.gain_text,
                "remedy": one.remedy,
            }
            for one in advice.findings
        ],
        "closing": advice.closing,
    }


def advice_on(store: Store, record: VariantRecord) -> Advice:
    """Return the advice on a variant, whose lean record is read again as a whole."""
    whole = store.record(record.variant)
    return advice_of(store.variant_folder(record.variant), whole)
