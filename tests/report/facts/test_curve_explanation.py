"""Explanations of a scaling curve."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.emulator.results import ExecutedCounts, MemoryCount
from lab.measured.counters import LaunchCounters, Profile
from lab.measured.timing import Kind, Merit, Samples
from lab.recorded.run_records import EmulatedStep, EmulationRecord, LaunchRecord
from lab.report.facts.curve_explanation import explain, ranges
from lab.report.facts.curves import curve
from lab.report.registry.run_columns import columns_for
from lab.report.render import render
from lab.store.figures import response_of


def emulation(bytes_needed, sectors, special):
    """An execution of 100 warp instructions that moves so many sectors of global memory."""
    traffic = MemoryCount(requests=10, sectors=sectors, bytes_used=sectors * 32)
    counts = ExecutedCounts(
        warps=100,
        threads=3200,
        warps_by_class={"special": special, "fma": 100 - special},
        threads_by_class={},
        warps_by_opcode={},
        threads_by_opcode={},
        memory={"global.load": traffic},
    )
    step = EmulatedStep("gemm", LaunchRecord((1, 1, 1), (32, 1, 1), 0))
    return EmulationRecord({}, (step,), executed=counts, bytes_needed=bytes_needed)


@pytest.fixture
def run(make, counting_bytes):
    """Two kernels at four sizes; `b` overtakes `a` at the third; counters were read at the first and the last size."""
    store = counting_bytes(make("ladder"))
    first = next(record for record in store.records() if record.measurement)
    variants = []
    for i, n in enumerate((256, 512, 1024, 2048)):
        for j, kernel in enumerate("ab"):
            ms = [(1, 2), (1, 2), (2, 1), (2, 1)][i][j]
            stalls = {"long_scoreboard": 3.0, "wait": 1.0} if j else {"barrier": 2.0}
            launch = LaunchCounters(
                "k", first.bytes_moved * (1.0 + j), 0.0, occupancy=0.25 * (j + 1), issue_share=0.5, stalls=stalls
            )
            record = replace(
                first,
                variant=f"{kernel}{n}",
                kernel=kernel,
                problem={**first.problem, "n": n},
                measurement=replace(first.measurement, samples=Samples((float(ms),))),
                emulation=emulation(3200, 100 * (j + 1) + i, 10 * j),
                profile=Profile("Nsight Compute 2025.3", "cold", (launch,)) if n in (256, 2048) else None,
            )
            variants.append(record)
    store.clear()
    store.write_run(replace(store.run(), problem_axes=("n",), variants=len(variants)))
    for position, record in enumerate(variants):
        store.write(record, position)
    return store


def found(store):
    records, run = store.records(), store.run()
    response = response_of(records)
    along = curve(run, records, response)
    return explain(along, records, columns_for(run, records), response.unit), along


def test_each_kernel_has_its_wins_its_ranges_and_what_its_warps_wait_for(run):
    explained, _ = found(run)
    a, b = explained.families
    assert (a.name, a.wins, a.waits) == ("a", "256 to 512", "barrier")
    assert (b.name, b.wins, b.waits) == ("b", "1024 to 2048", "long scoreboard")
    assert a.figures["moved_per_byte_needed"] == "1.00 to 1.03"
    assert (a.figures["counted_per_byte_needed"], b.figures["counted_per_byte_needed"]) == ("1.00", "2.00")
    assert (a.figures["achieved_occupancy"], b.figures["achieved_occupancy"]) == ("25%", "50%")
    assert b.figures["executed_special_share"] == "10.0%"


def test_emulated_and_counted_figures_are_points_of_one_chart(run):
    explained, _ = found(run)
    assert [figure.id for figure in explained.figures] == ["bytes", "occupancy", "special"]  # nothing converts
    of_bytes = [p for p in explained.points if p.figure == "bytes" and p.name == "b"]
    assert [(p.x, p.value) for p in of_bytes if p.kind is Kind.MEASURED] == [(256.0, 2.0), (2048.0, 2.0)]
    assert len([p for p in of_bytes if p.kind is Kind.EMULATED]) == 4


def test_the_page_and_the_tables_have_it(run):
    files = {path.name: path for path in render(run)}
    text = files["index.html"].read_text()
    assert "What explains the curve" in text
    assert 'data-chart="explain-bytes"' in text
    assert "256 to 512" in text
    assert "Nsight Compute 2025.3" in text
    header, *lines = files["records.csv"].read_text().splitlines()
    place = header.split(",").index("counted_per_byte_needed")
    assert [line.split(",")[place] for line in lines] == ["1.0", "2.0", "", "", "", "", "1.0", "2.0"]


def test_several_curves_are_explained_one_by_one(run):
    records, facts = run.records(), replace(run.run(), problem_axes=("n", "dtype"))
    two_dtypes = tuple(
        replace(record, variant=f"{record.variant}-{dtype}", problem={**record.problem, "dtype": dtype})
        for dtype in ("float16", "bfloat16")
        for record in records
    )
    along = curve(facts, two_dtypes, response_of(two_dtypes))
    explained = explain(along, two_dtypes, columns_for(facts, two_dtypes), Merit.BANDWIDTH)
    assert [(f.part, f.name, f.wins) for f in explained.families] == [
        (f"dtype={dtype}", name, wins)
        for dtype in ("float16", "bfloat16")
        for name, wins in (("a", "256 to 512"), ("b", "1024 to 2048"))
    ]
    run.clear()
    run.write_run(replace(facts, variants=len(two_dtypes)))
    for position, record in enumerate(two_dtypes):
        run.write(record, position)
    files = {path.name: path for path in render(run)}
    assert {"curve.png", "curve-2.png"} <= set(files)
    text = files["index.html"].read_text()
    assert 'data-switch="curve explain-bytes explain-occupancy explain-special"' in text
    assert "<td>dtype=bfloat16</td>" in text


def test_without_counters_the_emulated_part_stands_alone(run):
    for position, record in enumerate(run.records()):
        run.write(replace(record, profile=None), position)
    explained, _ = found(run)
    assert not any(point.kind is Kind.MEASURED for point in explained.points)
    assert all("counted_per_byte_needed" not in family.figures and not family.waits for family in explained.families)


def test_there_is_nothing_to_explain_where_operations_count_or_nothing_ran(run):
    records, facts = run.records(), run.run()
    response = response_of(records)
    along, columns = curve(facts, records, response), columns_for(facts, records)
    assert explain(along, records, columns, Merit.TFLOPS) is None
    assert explain(None, records, columns, Merit.BANDWIDTH) is None
    bare = [replace(record, emulation=None, profile=None) for record in records]
    assert explain(along, bare, columns, Merit.BANDWIDTH) is None


@pytest.mark.parametrize(
    ("chosen", "words"),
    [([], ""), ([1, 2, 3, 4], "1 to 4"), ([1, 3, 4], "1, 3 to 4"), ([2], "2"), ([1, 4], "1, 4")],
)
def test_neighbours_are_drawn_together(chosen, words):
    assert ranges([1.0, 2.0, 3.0, 4.0], [float(x) for x in chosen]) == words


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_ranges_name_the_chosen_values_and_no_others(axis, chosen):
    ordered = [float(x) for x in sorted(axis)]
    named = set()
    for part in filter(None, ranges(ordered, [float(x) for x in chosen & axis]).split(", ")):
        low, _, high = part.partition(" to ")
        named |= {x for x in ordered if float(low) <= x <= float(high or low)}
    assert named == chosen & axis
