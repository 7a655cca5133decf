from __future__ import annotations

from dataclasses import replace

import pytest

from lab.emulator.results import Finding, FindingKind
from lab.isa.mix import Counts, KernelMix
from lab.measured.timing import CardState, Measurement, Merit, Samples, Verification
from lab.store.model import EmulatedStep, EmulationRecord, LaunchRecord, PruneRule, Status, StepRecord, VariantRecord

COUNTS = Counts(10, {"fma": 4}, {"FFMA": 4}, 32, 0)
LAUNCH = LaunchRecord((1, 1, 1), (32, 1, 1), 0)


def record(**fields: object) -> VariantRecord:
    plain = VariantRecord("v", "k", "", "t", {}, {}, "sm_90", Status.VERIFIED, "", flops=2 * 10**9, bytes_moved=10**6)
    return replace(plain, **fields)  # type: ignore[arg-type]


def mix(name: str, isa: str = "ptx") -> KernelMix:
    return KernelMix(isa, name, COUNTS, (), None)  # type: ignore[arg-type]


def timed(ms: float) -> Measurement:
    return Measurement(Samples((ms, 9 * ms, ms)), None, "", "warm", CardState(), CardState())


def test_a_variant_fails_where_it_did_not_reach_the_end() -> None:
    fine = {Status.INSPECTED, Status.VERIFIED, Status.PRUNED}
    assert {status for status in Status if not status.failed} == fine


@pytest.mark.parametrize(("merit", "expected"), [(Merit.TFLOPS, 1.0), (Merit.BANDWIDTH, 0.5)])
def test_throughput_is_the_medians_in_the_unit_of_the_merit(merit: Merit, expected: float) -> None:
    one = record(merit=merit, measurement=timed(2.0))
    assert one.throughput == one.rate(2.0) == pytest.approx(expected)
    assert one.tflops == pytest.approx(1.0)


def test_what_was_not_measured_has_no_throughput() -> None:
    assert record().throughput is record().tflops is None


def test_the_mixes_of_a_variant_are_those_of_all_its_launches_each_once() -> None:
    one = record(ptx=mix("k"), sass=mix("k", "sass"))
    assert [found.name for found in one.mixes("ptx")] == ["k"]
    steps = (StepRecord("a", LAUNCH, ptx=mix("a")), StepRecord("b", LAUNCH), StepRecord("a", LAUNCH, ptx=mix("a")))
    several = record(steps=steps)
    assert [found.name for found in several.mixes("ptx")] == ["a"]
    assert several.mixes("sass") == ()


def judged(*, passed: bool, worst: str) -> Verification:
    return Verification(passed=passed, max_error=1.0, tolerance=0.1, worst=worst, executed_on="emulator")


def test_the_first_fault_is_named_and_the_others_are_counted() -> None:
    clean = EmulationRecord({}, (EmulatedStep("a", LAUNCH), EmulatedStep("b", LAUNCH)))
    assert (clean.entry, clean.fault) == ("a, b", "")
    assert replace(clean, verification=judged(passed=True, worst="")).fault == ""
    wrong = replace(clean, verification=judged(passed=False, worst="C[0]: got 1, expected 2"))
    assert wrong.fault == "emulator: C[0]: got 1, expected 2"
    kind: FindingKind = "shared-race"
    found = [Finding(kind, line, "st.shared", None, None, None, None, "two threads write it") for line in (4, 5, 9)]
    assert replace(wrong, findings=tuple(found[:1])).fault == f"emulator: {kind} at PTX line 4: two threads write it"
    several = replace(wrong, findings=tuple(found))
    assert several.fault == f"emulator: {kind} at PTX line 4: two threads write it (and 2 more)"


def test_the_rule_of_a_pruned_variant_is_in_its_reason_where_a_schema_had_no_field() -> None:
    assert record(status=Status.PRUNED, reason="spills: 8 bytes").prune_rule is PruneRule.SPILLS
    assert record(reason="spills: not pruned").prune_rule is None
    both = record(status=Status.PRUNED, reason="spills: 8 bytes", pruned_by=PruneRule.OCCUPANCY)
    assert both.prune_rule is PruneRule.OCCUPANCY
