"""`benchmarks/small_page.py`: the page of committed results, without a script."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from planted_tuning import GPU, LABEL, SIZES, facts, invented, plant

from lab.report.analysis import analyse, load
from lab.report.tuning.data import analyse as analyse_tuning
from lab.store.tuning import TuningStore
from lab.store.tuning_model import ProblemType


@pytest.fixture
def small(benchmark_script):
    return benchmark_script("small_page")


def analysed(store):
    records, different = load(store)
    return analyse(store.run(), records, different)


def test_question_answer_and_best_variants(small, make, tmp_path):
    with make("sweep") as store:
        analysis = analysed(store)
    page = small.of_run(analysis)
    assert page.question == analysis.run.question
    assert page.headline == analysis.answer.headline
    answer = analysis.answer
    assert page.answer[:3] == (" ".join(answer.lead), answer.text, " ".join(answer.verdict))
    (table,) = page.tables
    assert (len(table.rows), table.total) == (small.MOST_VARIANTS, 24)
    assert all(len(row) == len(table.columns) for row in table.rows)
    rates = [float(row[1]) for row in table.rows]
    assert rates == sorted(rates, reverse=True)
    text = small.html(page, tmp_path, ("Something is missing.",), "reports/h200/gemm_unroll")
    assert "Something is missing." in text
    assert "python -m lab report reports/h200/gemm_unroll\n" in text.replace("</pre>", "\n")
    assert f"{small.MOST_VARIANTS} of 24 are shown." in text
    assert "<script" not in text


def test_nothing_that_a_user_wrote_is_markup(small, make, tmp_path):
    with make("hostile") as store:
        page = small.of_run(analysed(store))
    text = small.html(page, tmp_path, ("<i>",), "<b>")
    for tag in ("<script", "<img", "<b>", "<i>"):
        assert tag not in text


def test_a_run_that_measured_nothing_says_so(small, make):
    with make("no_gpu") as store:
        analysis = analysed(store)
    page = small.of_run(analysis)
    assert page.kind == "predicted"
    assert dict(page.facts)["GPU"] == f"none: {analysis.run.not_measured}"


def test_pictures_stand_in_the_order_of_the_page(small, tmp_path):
    for name in ("model", "curve-2", "strange_one", "curve", "fastest_float32_nn_8", "mix"):
        (tmp_path / f"{name}.png").touch()
    pictures = small.pictures(tmp_path)
    assert [file for file, _ in pictures] == [
        "curve-2.png",
        "curve.png",
        "mix.png",
        "model.png",
        "fastest_float32_nn_8.png",
        "strange_one.png",
    ]
    assert dict(pictures)["strange_one.png"] == "strange one"


def test_only_files_that_are_there_are_linked(small, make, tmp_path):
    with make("ladder") as store:
        page = small.of_run(analysed(store))
    (tmp_path / "provenance.json").touch()
    (tmp_path / "mix.png").touch()
    text = small.html(page, tmp_path, (), "x")
    assert set(re.findall(r'(?:href|src)="([^"]*)"', text)) == {"data:,", "provenance.json", "mix.png"}


def test_a_tuning_run_shows_what_wins_and_what_gains_most(small, tmp_path):
    with TuningStore(plant(tmp_path, GPU)) as store:
        page = small.of_tuning(analyse_tuning(store))
    wins, gains = page.tables
    assert wins.heading == f"Kernels that win, {LABEL}"
    assert (len(gains.rows), gains.total) == (small.MOST_VARIANTS, len(SIZES))
    assert all(len(row) == len(gains.columns) for row in gains.rows)
    m, n, k = SIZES[0]
    tflops = 2 * m * n * k / invented("small", m, n) / 1e9
    # invented: the planted kernels name no tile, and cuBLAS is as fast as the large one
    assert gains.rows[0] == (f"{LABEL} {m} x {n} x {k}", "", "", f"{tflops:.3f}", "1.50", "2.00", "small")


def test_the_page_of_a_tuning_run_that_was_interrupted_says_so_and_names_what_has_no_times(small, tmp_path):
    with TuningStore(plant(tmp_path, GPU), create=True) as store:
        run = facts(GPU)
        store.write_facts(
            replace(
                run,
                interrupted=True,
                types={**run.types, "float32_tt": ProblemType("float32", "tt")},
                final={**run.final, "float32_tt": run.final[LABEL]},
            )
        )
        page = small.of_tuning(analyse_tuning(store))
    assert page.notes == (
        "The run was interrupted; the report shows what was timed until then.",
        "No size of float32_tt was timed.",
    )
    assert not any("float32_tt" in text for text in (*page.answer, *(table.heading for table in page.tables)))
