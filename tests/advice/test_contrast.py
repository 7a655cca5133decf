"""The cause of the difference of two variants."""

from __future__ import annotations

import pytest

from lab.advice.contrast import ContrastSide, contrast
from lab.advice.evidence import Evidence
from lab.advice.finding import Advice, CodePlace, PerformanceFinding, Rule
from lab.isa.model import SourceLocation
from lab.predict.time_estimates import COUNTS, TimeEstimate
from lab.recorded.run_records import Status, VariantRecord

RECORD = VariantRecord("v", "k", "", "t", {}, {}, "sm_90", Status.VERIFIED, "", 1, 1)


def finding(rule, line, gain, waste=0.5):
    return PerformanceFinding(rule, CodePlace(SourceLocation("k.cu", line)), f"{rule} {gain}", "", waste, gain)


def side(*findings, ms=1.0, **shares):
    estimate = TimeEstimate(ms, ms, ms, COUNTS, shares)
    return ContrastSide(RECORD, Evidence(), Advice(findings), estimate, "source")


def test_the_cause_is_the_finding_that_only_the_slower_variant_has():
    common = finding(Rule.LATENCY, 3, 3.0)
    slow = side(common, finding(Rule.BANK_CONFLICT, 12, 1.9), ms=2.0)
    for pair, ratio, holder in (((slow, side(common)), 2.0, "A"), ((side(common), slow), 0.5, "B")):
        cause = contrast(*pair, ratio).cause
        assert (cause.name, cause.place.source.line, cause.holder) == (Rule.BANK_CONFLICT, 12, holder)


def test_a_finding_that_explains_little_gives_way_to_the_resource():
    slow = side(finding(Rule.TAIL_WAVE, 3, 1.02), ms=4.0, DRAM=0.9, latency=0.2)
    cause = contrast(slow, side(DRAM=0.5, latency=0.5), 4.0).cause
    assert (cause.name, cause.holder) == ("DRAM", "A")
    assert cause.detail == "3.6 ms instead of 500 µs of DRAM"


def test_of_equal_times_what_only_one_variant_has_comes_first_and_is_hidden():
    a = side(finding(Rule.LATENCY, 3, 2.0), finding(Rule.BANK_CONFLICT, 12, 1.0, 0.1), DRAM=0.9)
    found = contrast(a, side(finding(Rule.LATENCY, 3, 1.9), DRAM=0.9), 1.01, 1.05)
    assert (found.cause.name, found.cause.hidden, found.bound) == (Rule.BANK_CONFLICT, True, "DRAM")


def test_costs_that_are_equal_are_no_facts():
    found = contrast(side(DRAM=0.9, L1=0.5), side(DRAM=0.9, L1=0.2), 1.0)
    assert [(fact.name, fact.a, fact.b) for fact in found.facts] == [("time of L1", "500 µs", "200 µs")]


@pytest.mark.parametrize("ratio", [None, 1.0, 2.0])
def test_without_evidence_there_is_no_cause(ratio):
    nothing = ContrastSide(RECORD, Evidence(), Advice(()))
    assert contrast(nothing, nothing, ratio).cause is None
