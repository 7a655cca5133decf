from __future__ import annotations

from collections import Counter

from lab.recorded.run_records import Status, VariantRecord
from lab.store.memo import remembered, remembering

ASKED: Counter[str] = Counter()


def record(variant: str = "v") -> VariantRecord:
    return VariantRecord(variant, "k", "l", "t", {}, {}, "sm_90", Status.INSPECTED, "", 1, 1)


@remembered
def named(one: VariantRecord, *words: str) -> str:
    ASKED[one.variant] += 1
    return " ".join((one.variant, *words))


def test_within_the_context_each_result_is_computed_once() -> None:
    ASKED.clear()
    one = record()
    with remembering():
        assert [named(one), named(one), named(one, "x"), named(one, "x")] == ["v", "v", "v x", "v x"]
    assert ASKED["v"] == 2


def test_outside_of_it_and_in_another_nothing_is_kept() -> None:
    ASKED.clear()
    one = record()
    for _ in range(2):
        named(one)
        with remembering():
            named(one)
    assert ASKED["v"] == 4


def test_a_record_that_is_gone_is_not_taken_for_another_one() -> None:
    with remembering():
        assert [named(record(str(number))) for number in range(50)] == [str(number) for number in range(50)]
