from __future__ import annotations

from dataclasses import replace

import pytest

from lab.emulator.results import Finding, FindingKind
from lab.isa.mix import Counts, KernelMix
from lab.measured.metrics import DeclaredRate
from lab.measured.timing import CardState, Measurement, Merit, Samples, Verification
from lab.recorded.predictions import Bound, Prediction
from lab.recorded.run_records import EmulatedStep, EmulationRecord, LaunchRecord, Status, StepRecord, VariantRecord

COUNTS = Counts(10, {"fma": 4}, {"FFMA": 4}, 32, 0)
LAUNCH = LaunchRecord((1, 1, 1), (32, 1, 1), 0)


def record(**fields: object) -> VariantRecord:
    plain = VariantRecord("v", "k", "", "t", {}, {}, "sm_90", Status.VERIFIED, "", flops=2 * 10**9, bytes_moved=10**6)
    return replace(plain, **fields)  # type: ignore[arg-type]


def mix(name: str, isa: str = "ptx") -> KernelMix:
    return KernelMix(isa, name, COUNTS, (), None)  # type: ignore[arg-type]


def timed(ms: float) -> Measurement:
    return Measurement(Samples((ms, 9 * ms, ms)), None, "", "warm", CardState(), CardState())


def test_a_variant_fails_where_a_fault_was_found_or_it_did_not_reach_the_end() -> None:
    sound = {Status.VERIFIED, Status.PARTIAL}
    assert {status for status in Status if status.sound} == sound
    assert {status for status in Status if not status.failed} == sound | {Status.INSPECTED, Status.PRUNED}


def test_an_unknown_status_is_refused() -> None:
    with pytest.raises(ValueError, match="not a valid Status"):
        Status("fine")


@pytest.mark.parametrize(("merit", "expected"), [(Merit.TFLOPS, 1.0), (Merit.BANDWIDTH, 0.5)])
def test_throughput_is_the_medians_in_the_unit_of_the_merit(merit: Merit, expected: float) -> None:
    one = record(merit=merit, measurement=timed(2.0))
    assert one.throughput == one.rate(2.0) == pytest.approx(expected)
    assert one.tflops == pytest.approx(1.0)


def test_what_was_not_measured_has_no_throughput() -> None:
    assert record().throughput is record().tflops is None


def test_the_mixes_of_a_variant_are_those_of_all_its_launches_each_once() -> None:
    one = record(ptx=mix("k"), sass=mix("k", "sass"))
    assert [mix.name for mix in one.mixes("ptx")] == ["k"]
    steps = (StepRecord("a", LAUNCH, ptx=mix("a")), StepRecord("b", LAUNCH), StepRecord("a", LAUNCH, ptx=mix("a")))
    several = record(steps=steps)
    assert [mix.name for mix in several.mixes("ptx")] == ["a"]
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


def ceilings(*tflops: float) -> Prediction:
    return Prediction("H200", 1.0, 1, "", 66.9, tuple(Bound("x", tflop, "", tflop * 1000) for tflop in tflops), 4800.0)


def test_the_ceiling_is_the_lowest_bound_in_the_unit_of_the_throughput() -> None:
    assert record().ceiling is None
    assert record(prediction=ceilings()).ceiling is None
    assert record(prediction=ceilings(3.0, 2.0)).ceiling == 2000.0
    declared = DeclaredRate("Gkeys/s", 0.5)
    assert record(declared_rate=declared).ceiling is None
    # 2e9 operations in a millisecond are 2 TFLOP/s, 0.5 of a second's unit 500
    assert record(prediction=ceilings(3.0), declared_rate=declared).ceiling == pytest.approx(3000 * 500 / 2, rel=1e-13)
    assert record(prediction=ceilings(3.0), declared_rate=declared, flops=0).ceiling is None
    small = record(prediction=ceilings(3.0), declared_rate=declared, flops=10**8)
    assert small.ceiling == pytest.approx(3000 * 500 / 0.1, rel=1e-13)


def test_units_and_rates() -> None:
    declared = record(declared_rate=DeclaredRate("Gkeys/s", 0.5), measurement=timed(2.0))
    assert (declared.unit, declared.rate(4.0), declared.throughput) == ("Gkeys/s", 125.0, 250.0)
    assert (record().unit, record().rate(4.0)) == (Merit.TFLOPS, 0.5)
    none = record(measurement=timed(0.0))
    assert none.throughput is none.tflops is None
    assert record(measurement=timed(2.0)).tflops == 1.0


def test_an_execution_that_did_not_take_place_says_why() -> None:
    assert EmulationRecord({}, (), failure="no room").fault == "not executed: no room"
    found = EmulationRecord({}, ())
    assert (found.steps, found.bytes_needed, found.flops, found.entry) == (0, 0, 0, "")


def test_two_findings_are_one_and_one_more() -> None:
    found = Finding("shared-race", 4, "st.shared", None, None, None, None, "why")
    assert (
        EmulationRecord({}, (), findings=(found, found)).fault
        == "emulator: shared-race at PTX line 4: why (and 1 more)"
    )
