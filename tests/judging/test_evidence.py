import pytest

from lab.emulator.results import Finding
from lab.isa.model import SourceLocation
from lab.judging.evidence import of_difference, of_finding, of_suspicion
from lab.judging.faults import Ruling
from lab.recorded.run_records import Condition, Suspicion

PLACE = SourceLocation("/x/candidate.cu", 7)


def finding(kind="out-of-bounds", source=PLACE):
    return Finding(
        kind, 40, "st.global.f32", source, (0, 0, 0), (1, 0, 0), None, "4 bytes past the end", variable="c[5]"
    )


def test_a_difference_is_taken_apart():
    fault = of_difference("hidden problem", "c[2, 31]: got 0, expected 1.5 ± 2e-07; 3 of 64 elements are wrong", seed=9)
    assert (fault.argument, fault.element, fault.got, fault.expected, fault.seed) == ("c", (2, 31), "0", "1.5", 9)
    assert (
        of_difference("x", "c[]: got nothing: it was not written, expected 2; 1 of 1 elements are wrong").element == ()
    )


@pytest.mark.parametrize(
    ("kind", "ruling"),
    [("out-of-bounds", Ruling.UNSAFE), ("global-race", Ruling.UNSAFE), ("never-written", Ruling.WRONG)],
)
def test_findings_are_unsafe_but_for_missing_outputs(kind, ruling):
    fault = of_finding("small size", finding(kind))
    assert (fault.ruling, fault.line, fault.argument) == (ruling, "candidate.cu:7", "c")


def test_without_a_source_the_line_is_that_of_the_ptx():
    assert of_finding("small size", finding(source=None)).line == "PTX line 40"


@pytest.mark.parametrize(
    ("condition", "ruling"),
    [(Condition.ORDER, Ruling.UNSAFE), (Condition.FULL_SIZE, Ruling.WRONG), (Condition.INPUTS, Ruling.WRONG)],
)
def test_suspicions_keep_their_condition(condition, ruling):
    fault = of_suspicion(Suspicion(condition, "c[0]: got 1, expected 2; 1 of 4 elements are wrong"), 4)
    assert (fault.ruling, fault.check, fault.seed) == (ruling, str(condition), 4)
    assert of_suspicion(Suspicion(condition, finding=finding()), 4).ruling is Ruling.UNSAFE
