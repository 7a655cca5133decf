"""Committed results show no prediction that physics forbids."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.measured.timing import Merit
from lab.predict.variant_scores import lean, rate, scores
from lab.store import figures, published

REPORTS = Path(__file__).parents[2] / "reports"
RUNS = sorted(file.parent for file in REPORTS.glob(f"**/{published.RECORDS}"))
ERROR = re.compile(r"([\w ]+): median absolute error ([\d.]+)%")


def name_of(folder: Path) -> str:
    return folder.relative_to(REPORTS).as_posix()


def largest_share(folder: Path) -> float:
    """The largest predicted throughput over the GPU's peak, of kernels whose throughput counts operations."""
    every = published.read_records(folder).records
    records = tuple(lean(record) for record in every if record.merit is Merit.TFLOPS)
    kernel_scores = scores(records)
    predicted = [
        (rate(record, kernel_scores[record.variant]), figures.peak(record))
        for record in records
        if record.variant in kernel_scores
    ]
    return max((value / peak for value, peak in predicted if value and peak), default=0.0)


@pytest.mark.parametrize("folder", RUNS, ids=name_of)
def test_no_predicted_time_is_faster_than_the_peak_allows(folder):
    assert largest_share(folder) <= 1


def test_no_committed_page_has_an_error_of_a_bound_or_of_a_wrong_scale():
    for page in sorted(REPORTS.glob("**/index.html")):
        for what, error in ERROR.findall(page.read_text(encoding="utf-8")):
            assert what.strip().lower() != "ceiling", page
            assert float(error) < 100, page
