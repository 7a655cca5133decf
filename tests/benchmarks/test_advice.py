"""The planted performance faults, and the table of what lab says of them."""

from __future__ import annotations

import pytest

from lab.advice.finding import Advice, CodePlace, PerformanceFinding, Rule
from lab.isa.model import SourceLocation


@pytest.fixture
def script(benchmark_script):
    return benchmark_script("advice")


def test_each_of_five_classes_has_five_cases_with_a_marked_line(script):
    names = sorted(path.stem for path in script.CASES.glob("*.yaml"))
    assert [sum(name.startswith(f"{cls}_") for name in names) for cls in script.CLASSES] == [5] * 5
    for name in names:
        assert (script.CASES / f"{name}.cu").read_text().count(script.MARK) >= 1
        assert "PLANTED: [1, 0]" in (script.CASES / f"{name}.yaml").read_text()


def finding(rule: Rule, line: int) -> PerformanceFinding:
    return PerformanceFinding(rule, CodePlace(SourceLocation("k.cu", line)), "", "", 1.0, 1.5)


@pytest.mark.parametrize(
    ("planted", "clean", "first", "placed", "silent"),
    [
        ([(Rule.BANK_CONFLICT, 7)], [], True, True, True),
        ([(Rule.BANK_CONFLICT, 8)], [(Rule.TAIL_WAVE, 1)], True, False, True),
        ([(Rule.TAIL_WAVE, 7), (Rule.BANK_CONFLICT, 7)], [(Rule.BANK_CONFLICT, 7)], False, False, False),
        ([], [], False, False, True),
    ],
)
def test_outcome_is_judged_by_the_first_finding_its_line_and_the_twin(script, planted, clean, first, placed, silent):
    both = [Advice(tuple(finding(*one) for one in some)) for some in (planted, clean)]
    outcome = script.Outcome("bank_rows", *both, 7)
    assert (outcome.first, outcome.placed, outcome.silent) == (first, placed, silent)
    assert script.table([outcome]).splitlines()[-1] == (
        f"Named first: {first:d} of 1; with its line: {placed:d}; silent on the twin: {silent:d}."
    )
