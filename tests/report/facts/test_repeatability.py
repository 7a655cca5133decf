"""Summaries of a repeated run: equal, different, over several problems, or without times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.measured.timing import Kind
from lab.recorded.run_records import RepeatedFigure, RepeatRecord
from lab.report.facts import repeatability
from lab.store.figures import Basis, Response

MEASURED = Response(Basis.MEASURED, "measured_tflops", "throughput")
FIGURE = RepeatedFigure("throughput", Kind.MEASURED, 24, 0, 0.0012, 0.031, -0.05, "abc", -0.001)
FOUND = RepeatRecord(
    "2026-11-21T05:00:00+00:00", "", 24, 0, 20, 24, (FIGURE,), {"abc": -0.05, "def": 0.001}, 0, 1, 1, 0.987
)


def test_differences_are_given_by_size():
    lines = repeatability.sentences(FOUND, MEASURED)
    assert lines[0].replace("\N{NO-BREAK SPACE}", " ") == (
        "Run again in another process, the measured throughput differs by 0.12 % in the median, by less than 3.10 % "
        "for 95 % of 24 variants, and by 5.00 % at most."
    )
    assert lines[1] == (
        "In the second run the best variant is the same, and Spearman's rank correlation of both runs is 0.987."
    )
    assert len(lines) == 2


def test_equal_runs_say_nothing_about_winners():
    equal = replace(FOUND, differences={"abc": 0.0}, figures=(replace(FIGURE, median=0.0),))
    assert repeatability.sentences(equal, MEASURED) == (
        "Run again in another process, the measured throughput is the same for all 24 variants.",
    )


@pytest.mark.parametrize(
    ("winners", "same", "words"),
    [
        (1, 0, "another variant is the best"),
        (5, 3, "3 of 5 best variants are the same"),
        (5, 5, "5 of 5 best variants are the same"),
    ],
)
def test_winners_are_compared(winners, same, words):
    found = replace(FOUND, winners=winners, same_winners=same, rank_correlation=None)
    assert repeatability.sentences(found, MEASURED)[1] == f"In the second run {words}."


def test_without_times_the_figures_depend_on_the_input_alone():
    found = replace(FOUND, not_measured="There is no GPU.", differences={})
    assert repeatability.sentences(found, MEASURED)[-1].startswith("No times were compared")


def test_differences_beyond_the_scatter_are_counted():
    line = repeatability.sentences(replace(FOUND, outside=7), MEASURED)[-1]
    assert line.startswith("7 of 24 variants differ by more than the scatter within the runs explains")


def test_no_figure_in_both_runs():
    found = replace(FOUND, figures=(), winners=0, differences={})
    assert repeatability.sentences(found, MEASURED) == ("The run was repeated; no variant has a figure in both runs.",)


def test_what_was_compared():
    assert repeatability.facts(FOUND).endswith("20 have the same machine code and 24 the same status.")
    assert repeatability.facts(replace(FOUND, only_one=3)).endswith("; 3 were tried in only one run.")
