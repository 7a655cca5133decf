"""The answer of `lab compare` in words."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from lab.advice.contrast import Contrast, DifferenceCause, DifferentFact
from lab.advice.finding import CodePlace
from lab.cli.comparison import print_comparison
from lab.isa.model import SourceLocation
from lab.measured.timing import Kind
from lab.runs.compare import ComparedTime, Verdict, compare

PLACE = CodePlace(SourceLocation("kernel.cu", 12), 48, 39)
CAUSE = DifferenceCause("bank conflict", PLACE, "A", "32-way: 7,936 of 8,448 wavefronts", remedy="pad by 4 bytes")


def flat(lines):
    return " ".join(" ".join(lines).split())


@pytest.fixture
def said(make):
    """The lines that a comparison of two predicted variants prints in 80 columns, with some fields changed."""
    store = make("no_gpu")
    record = store.records()[0]
    whole = compare((store.run(), (record,)), (store.run(), (record,)))
    times = ComparedTime(0.32, 0.17, 0.5, "H200"), ComparedTime(0.16, 0.11, 0.35, "H200")
    change = replace(
        whole.changes[0],
        kind=Kind.PREDICTED,
        unlike={"padding": ("0", "4")},
        time_a=times[0],
        time_b=times[1],
        same_code=False,
    )

    def lines(contrast, **fields):
        written = io.StringIO()
        changed = replace(whole, changes=(replace(change, **fields),), contrast=contrast)
        print_comparison(Console(file=written, width=80), changed, 0.05)
        return written.getvalue().splitlines()

    return lines


def test_the_first_line_says_which_is_faster_by_how_much_where_and_why(said):
    facts = (DifferentFact("registers", "32", "40"),)
    first, *rest = said(Contrast(CAUSE, facts), verdict=Verdict.FASTER, ratio=2.0, low=1.7, high=2.4)
    answer = flat([first, *rest])
    assert "B (padding=4) is 2.0 x as fast as A (padding=0), predicted for H200, 1.7 to 2.4" in answer
    assert "cause: bank conflict at line 12 of A" in answer
    assert "remedy: pad by 4 bytes" in rest
    assert ["registers", "32", "40"] in [line.split() for line in rest]
    assert any("≈ 320 µs, 170 to 500" in line for line in rest)
    assert all(len(line) <= 80 for line in rest[rest.index("remedy: pad by 4 bytes") :])


def test_the_faster_variant_is_the_subject(said):
    first = flat(said(None, verdict=Verdict.SLOWER, ratio=0.5, low=0.4, high=0.625)[:2])
    assert first.startswith("A (padding=0) is 2.0 x as fast as B (padding=4), predicted for H200, 1.6 to 2.5")


def test_of_times_that_are_the_same_the_bound_is_named(said):
    contrast = Contrast(replace(CAUSE, hidden=True), (), "DRAM")
    first = flat(said(contrast, verdict=Verdict.SAME, ratio=1.01, low=0.9, high=1.2, tolerance=1.05)[:3])
    assert "take the same time, predicted for H200, within 5%: DRAM takes longest in both" in first
    assert "changed most: bank conflict at line 12 of A, hidden behind other costs" in first


def test_an_interval_that_holds_1_does_not_name_a_winner(said):
    first = flat(said(None, verdict=Verdict.AMBIGUOUS, ratio=1.14, low=0.95, high=1.4)[:2])
    assert "cannot be told apart: 1.14 x, predicted for H200, 0.95 to 1.4" in first


def test_a_broken_variant_comes_with_its_reason(said):
    unlike = {"status": ("verified", "wrong")}
    first = said(None, verdict=Verdict.BROKEN, ratio=None, unlike=unlike, reasons=("", "C[3] differs"))[0]
    assert first == "B is wrong and A is verified: C[3] differs"
