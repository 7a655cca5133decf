"""A run as one JSON object."""

from __future__ import annotations

import json
from dataclasses import replace

from lab.recorded.run_records import Status
from lab.report import analysis
from lab.report.ranking import ranking
from lab.store import figures


def test_variants_come_best_first_and_failed_ones_last(make):
    store = make("sweep")
    first, *others = store.records()
    records = (replace(first, status=Status.WRONG, reason="y[3]"), *others)
    result = ranking(store.run(), records)
    response = figures.response_of(records)
    assert [row["variant"] for row in result["variants"][:-1]] == [
        record.variant for record in figures.ranked(records, response)
    ]
    assert [row["rank"] for row in result["variants"]] == [*range(1, len(records)), None]
    assert (result["variants"][-1]["variant"], result["variants"][-1]["status"]) == (first.variant, "wrong")
    assert result["statuses"]["wrong"] == 1
    json.dumps(result)


def test_the_header_names_run_figure_and_gpu(make):
    store = make("sweep")
    run = store.run()
    result = ranking(run, store.records())
    assert (result["experiment"], result["question"]) == (run.experiment, run.question)
    figure = result["figure"]
    assert (figure["unit"], figure["kind"], figure["gpus"]) == ("TFLOP/s", "measured", [run.gpu.name])
    assert result["variants"][0][figure["column"]] > result["variants"][-1][figure["column"]]


def test_predicted_figures_name_the_gpus_that_they_are_for(make):
    store = make("no_gpu")
    figure = ranking(store.run(), store.records())["figure"]
    assert figure["kind"] == "predicted"
    assert figure["gpus"] == [store.records()[0].prediction.gpu]


def test_the_answer_is_left_out_of_a_run_with_nothing_to_compare_or_too_large_to_analyse_again(make, monkeypatch):
    store = make("sweep")
    records = store.records()
    best = figures.ranked(records, figures.response_of(records))[0]
    assert any(figures.name_of(best) in sentence for sentence in ranking(store.run(), records)["answer"])
    assert ranking(store.run(), records[:1])["answer"] == []
    monkeypatch.setattr(analysis, "MOST_ANSWERED", len(records) - 1)
    assert ranking(store.run(), records)["answer"] == []
