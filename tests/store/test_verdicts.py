"""The reasons of verdicts in words."""

from __future__ import annotations

from dataclasses import replace

from lab.emulator.results import Finding
from lab.isa.model import SourceLocation
from lab.recorded.run_records import Condition, EmulationRecord, FullSizeRecord, Status, Suspicion, VariantRecord
from lab.store.verdicts import EXPLAINED, describe_full_size, group_reasons, summarise_full_size


def record(variant: str, status: Status, reason: str, emulation: EmulationRecord | None = None) -> VariantRecord:
    return VariantRecord(variant, "k", "", "t", {}, {}, "sm_90", status, reason, 1, 1, emulation=emulation)


def fault(line: int, thread: int) -> Finding:
    place = SourceLocation("k.cu", line)
    return Finding("misaligned", 40 + thread, "ld.global", place, None, (thread, 0, 0), None, f"thread {thread}")


def suspect(variant: str, line: int, thread: int, condition: Condition = Condition.FULL_SIZE) -> VariantRecord:
    found = Suspicion(condition, "", fault(line, thread))
    return record(variant, Status.SUSPECT, found.summary, EmulationRecord({}, (), suspicions=(found,)))


def test_variants_with_one_fault_are_one_group_whatever_thread_it_names() -> None:
    records = [suspect("a", 12, 1), suspect("b", 12, 2), suspect("c", 13, 1), suspect("d", 12, 1, Condition.ORDER)]
    groups = group_reasons(records)
    assert [group.variants for group in groups] == [("a", "b"), ("c",), ("d",)]
    assert groups[0].reason == records[0].reason
    assert "k.cu:12" in groups[0].text
    assert str(Condition.FULL_SIZE) in groups[0].text
    assert "2 variants" in groups[0].text
    assert "variant c" in groups[1].text


def test_the_worst_verdict_comes_first_and_one_without_a_reason_is_left_out() -> None:
    records = [record(status.name, status, "why") for status in Status]
    assert [group.status for group in group_reasons(records)] == list(EXPLAINED)


def test_wrong_variants_are_grouped_by_the_line_at_fault_and_others_by_their_sentence() -> None:
    done = [EmulationRecord({}, (), findings=(fault(7, thread),)) for thread in (1, 2)]
    records = [record(str(i), Status.WRONG, one.wrong, one) for i, one in enumerate(done)]
    records += [record(name, Status.WRONG, f"C[{name}]: got 1") for name in ("2", "3")]
    assert [group.variants for group in group_reasons(records)] == [("0", "1"), ("2",), ("3",)]


def test_the_execution_at_full_size_is_counted_over_all_variants() -> None:
    size = FullSizeRecord({"n": 1_000_003}, 23, 7813, 2944, covered=True)
    assert describe_full_size(size).startswith("23 of 7,813 blocks")
    assert "2,944 elements" in describe_full_size(size)
    whole = record("a", Status.VERIFIED, "", EmulationRecord({}, (), full_size=size))
    less = replace(size, compared=0, covered=False)
    other = replace(whole, emulation=EmulationRecord({}, (), full_size=less))
    assert summarise_full_size([whole]) == f"at the problem's own size: {describe_full_size(size)}"
    both = summarise_full_size([whole, other])
    assert "2 variants" in both
    assert "46 of 15,626 blocks" in both
    assert "not shown that all elements are written" in both
    assert "no elements compared" in summarise_full_size([other])
    assert summarise_full_size([record("a", Status.VERIFIED, "")]) == ""
