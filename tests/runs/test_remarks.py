"""Remarks about the variants of a run as a whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.emulator.results import NEVER_SET, ExecutedCounts
from lab.recorded.run_records import EmulatedStep, EmulationRecord
from lab.runs.remarks import Remarks


@pytest.fixture
def variant(make):
    """A variant by its parameters, with machine code, warnings and, unless told otherwise, an execution."""
    model = make("no_gpu").records()[0]
    steps = (EmulatedStep("k", model.launch, ExecutedCounts(64, 2048, {}, {}, {}, {}, {})),)

    def made(code, *, warnings=(), executed=True, **parameters):
        build = replace(model.build, sass_sha256=code, warnings=warnings)
        done = EmulationRecord({}, steps) if executed else None
        name = repr(parameters)
        return replace(model, variant=name, parameters={"tile": 8, **parameters}, build=build, emulation=done)

    return made


def notes(*records):
    remarks = Remarks()
    for record in records:
        remarks.meet(record)
    return remarks.notes()


def test_a_parameter_that_no_variant_depends_on_is_named(variant):
    code = {1: "one", 2: "two"}
    (note,) = notes(*(variant(code[pad], pad=pad, unroll=unroll) for pad in code for unroll in (1, 2, 4)))
    assert note.startswith("The parameter unroll has no effect: variants that differ only in it (2 sets of them)")


def test_one_set_that_differs_is_enough(variant):
    """Of two parameters each matters where the other is 1."""
    code = {(1, 1): "a", (1, 2): "b", (2, 1): "c", (2, 2): "c"}
    records = [variant(code[pad, unroll], pad=pad, unroll=unroll) for pad, unroll in code]
    assert notes(*records[:2], *records[2:]) == ()
    assert len(notes(*records[2:])) == 1


def test_what_was_not_executed_may_differ_by_its_arguments(variant):
    assert notes(*(variant("same", n=n, executed=False) for n in (1, 2))) == ()


def test_a_value_that_was_never_compared_says_nothing(variant):
    pairs = [variant("same", pad=0, unroll=unroll) for unroll in (1, 2)]
    alone = variant("other", pad=1, unroll=4)
    assert notes(*pairs, alone) == ()


def test_other_executed_counts_are_another_behaviour(variant):
    first, second = variant("same", n=1), variant("same", n=2)
    (step, *others) = second.emulation.launches
    more = replace(step, executed=replace(step.executed, threads=step.executed.threads + 1))
    second = replace(second, emulation=replace(second.emulation, launches=(more, *others)))
    assert notes(first, second) == ()


def test_warnings_are_counted_over_variants_and_the_rarest_left_out(variant):
    further = [tuple(f"k.cu({j}): b" for j in range(2, 5) if j <= i) for i in range(5)]
    records = [variant(f"{i}", i=i, warnings=("k.cu(1): a", *further[i])) for i in range(5)]
    assert notes(*records, records[0]) == (
        "In 5 of 5 variants: k.cu(1): a",
        "In 3 of 5 variants: k.cu(2): b",
        "In 2 of 5 variants: k.cu(3): b",
        "Further warnings: 1. The file build.log of each variant has those of the compiler.",
    )


def test_constant_memory_that_nothing_sets_is_told_once(variant):
    records = [variant(str(pad), pad=pad) for pad in (1, 2)]
    told = f"{NEVER_SET} filter, which the kernel reads: zeros"
    records = [replace(record, emulation=replace(record.emulation, notes=("other", told))) for record in records]
    expected = (
        "Nothing sets in constant memory filter, which the kernel reads: zeros. Does the experiment lack `constants`?"
    )
    assert notes(*records) == (expected,)


def test_a_variant_that_did_not_compile_is_left_out(variant):
    assert notes(replace(variant("", n=1), build=None), variant("x", n=2)) == ()
