"""The figures of a results table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.cli.table_figures import shown_figures, varying_names
from lab.store import figures
from lab.store.figures import Basis, Response


def test_names_hold_what_varies_alone(make):
    records = make("sweep").records()
    names = varying_names(records)
    assert len(set(names.values())) == len(records)
    fixed = [name for name in records[0].parameters if len({one.parameters[name] for one in records}) == 1]
    assert fixed
    assert not any(f"{name}=" in text for name in fixed for text in names.values())
    assert varying_names(records[:1]) == {records[0].variant: ""}


def test_variants_of_several_problems_keep_their_labels(make):
    first, other = make("sweep").records()[:2]
    other = replace(other, problem={**other.problem, "m": 1})
    assert varying_names([first, other])[first.variant] == figures.name_of(first)


def test_measured_figures_have_the_digits_of_their_scatter(make):
    records = make("sweep").records()
    response = figures.response_of(records)
    shown = shown_figures(records[:1], records, response)
    assert float(shown.texts[0]) == pytest.approx(records[0].throughput, rel=0.02)
    assert shown.unit == "TFLOP/s"


def test_bytes_beyond_the_peak_are_no_throughput(make, counting_bytes):
    records = counting_bytes(make("no_gpu")).records()
    for rate, title in ((4000.0, "predicted throughput"), (6622.0, "time")):
        scored = {record.variant: rate for record in records}
        response = Response(Basis.SCORE, "scored_gb_s", "predicted throughput", "GB/s", scored=scored)
        assert shown_figures(records[:1], records, response).title == title
