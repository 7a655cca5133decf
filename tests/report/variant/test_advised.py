"""Performance findings on the page."""

from __future__ import annotations

from lab.advice.finding import Advice, CodePlace, PerformanceFinding, Rule
from lab.isa.model import SourceLocation
from lab.report.variant.advised import advice_on, advice_rows
from lab.store.advice import advice_of


def test_rows_have_the_words_of_the_terminal():
    place = CodePlace(SourceLocation("/kernel.cu", 7), 40, 90, "ld.shared.f32")
    said = Advice((PerformanceFinding(Rule.BANK_CONFLICT, place, "32-way", "pad", 0.9, 1.5),))
    (row,) = advice_rows(said, {"kernel.cu"})["findings"]
    first, second = said.text()
    assert f"1. {row['rule']} at {row['place']}: {row['cause']}; {row['gain']}" == first
    assert f"   remedy: {row['remedy']}" == second
    assert row["anchor"] == "source-7"
    (other,) = advice_rows(said, {"other.cu"})["findings"]
    assert other["anchor"] == "ptx-40"


def test_lean_record_is_read_again_as_a_whole(make):
    store = make("no_gpu")
    record = store.records()[0]
    assert advice_on(store, record) == advice_of(store.variant_folder(record.variant), record)
