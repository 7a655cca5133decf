from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.hardware.latencies import NEVER_COMPARED
from lab.recorded.run_records import VariantRecord
from lab.store import published
from lab.store.constant_sources import constants_of, never_compared

REPORTS = Path(__file__).parents[2] / "reports" / "h200"


@pytest.fixture(scope="module")
def record() -> VariantRecord:
    return published.read_records(REPORTS / "micro" / "launch").records[0]


def on(record: VariantRecord, gpu: str) -> VariantRecord:
    assert record.prediction is not None
    return replace(record, prediction=replace(record.prediction, gpu=gpu))


def test_an_h200_was_measured_and_nothing_is_said(record: VariantRecord) -> None:
    assert constants_of(record) == "measured on an H200"
    assert never_compared([record]) == ""


def test_other_gpus_are_named_once(record: VariantRecord) -> None:
    said = never_compared([on(record, "A100"), record, on(record, "A100"), on(record, "L4")])
    assert "for the A100 SXM 80GB and L4 stand on published figures" in said
    assert NEVER_COMPARED in said
    assert constants_of(replace(record, prediction=None)) == ""
    assert constants_of(on(record, "what")) == ""
