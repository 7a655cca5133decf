"""The gain of moving fewer bytes, by what is declared and by what was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.measured.timing import Merit, Samples
from lab.recorded.run_records import LaunchRecord, StepRecord
from lab.report.analysis import analyse
from lab.report.facts.traffic import declared_traffic, gains, sentences
from lab.store.figures import response_of

GRID = LaunchRecord((1, 1, 1), (32, 1, 1), 0)
ROWS, SHORT, LONG = 4096, 1024, 2048


def launches(*moved):
    return tuple(StepRecord(f"step{i}", GRID, one) for i, one in enumerate(moved))


@pytest.fixture
def softmaxes(make):
    """Rows of two lengths by three kernels: one launch, five that declare four times its bytes, two that declare none.

    The first takes 1 ms, the second 3 or 5, the third 2, the baseline torch-naive 6 and another one 1.
    """
    store = make("sweep")
    first = store.records()[0]
    records = []
    for columns, five_ms in ((SHORT, 3.0), (LONG, 5.0)):
        least = 8 * ROWS * columns
        for kernel, ms, steps in (
            ("one", 1.0, ()),
            ("one, slower", 1.5, ()),
            ("five", five_ms, launches(least, least, least, least // 2, least // 2)),
            ("two", 2.0, launches(least, None)),
        ):
            timed = replace(
                first.measurement,
                samples=Samples((ms, ms, ms)),
                baseline=Samples((6.0,)),
                baseline_name="torch-naive",
                others={"torch": Samples((1.0,))},
            )
            records.append(
                replace(
                    first,
                    variant=f"{kernel}{columns}",
                    kernel=kernel,
                    label=f"n={columns}",
                    problem={"m": ROWS, "n": columns, "dtype": "float32"},
                    merit=Merit.BANDWIDTH,
                    bytes_moved=least,
                    steps=steps,
                    measurement=timed,
                )
            )
    run = replace(store.run(), operator="softmax", problem_axes=("n",), variants=len(records))
    return run, tuple(records)


def test_the_bytes_of_all_launches_count(softmaxes):
    _, (one, _, five, two, *_) = softmaxes
    assert declared_traffic(one) == 8 * ROWS * SHORT
    assert declared_traffic(five) == 4 * 8 * ROWS * SHORT
    assert declared_traffic(two) is None


def test_a_kernel_and_a_baseline_against_the_fastest_that_moves_least(softmaxes):
    run, records = softmaxes
    traffic_gains = gains(run, records, response_of(records))
    assert [(gain.problem, gain.fused, gain.other, gain.measured) for gain in traffic_gains] == [
        ("n=1024", "one", "five", 3.0),
        ("n=1024", "one", "torch-naive", 6.0),
        ("n=2048", "one", "five", 5.0),
        ("n=2048", "one", "torch-naive", 6.0),
    ]
    assert [gain.predicted for gain in traffic_gains] == pytest.approx(
        [4.0, (8 * SHORT + 4) / (2 * SHORT), 4.0, (8 * LONG + 4) / (2 * LONG)]
    )


def test_few_problems_are_listed_and_many_summed_up(softmaxes):
    run, records = softmaxes
    traffic_gains = gains(run, records, response_of(records))
    baseline, kernel = sentences(traffic_gains)  # that which moves more comes first
    assert kernel == (
        "By declared bytes, one should be 4.00 × as fast as five; measured: 3.00 × (n=1024), 5.00 × (n=2048)."
    )
    assert baseline.startswith("By declared bytes, one should be 4.00 × as fast as torch-naive; measured: 6.00 ×")
    many = [replace(gain, problem=f"n={i}") for i in range(3) for gain in traffic_gains if gain.other == "five"]
    (summed,) = sentences(many)
    assert summed.endswith("as fast as five; measured: 3.00 to 5.00 × in 6 problems, median 4.00 ×.")


def test_without_a_gpu_there_is_the_prediction_alone(softmaxes):
    run, records = softmaxes
    unmeasured = tuple(replace(record, measurement=None) for record in records)
    (sentence,) = sentences(gains(run, unmeasured, response_of(unmeasured)))
    assert sentence.endswith("should be 4.00 × as fast as five.")


def test_alternatives_of_one_kernel_that_move_different_bytes(softmaxes):
    """Variants of one kernel whose parameter decides the bytes are told apart by their labels."""
    run, records = softmaxes
    split = tuple(
        replace(record, kernel="any", label=f"{record.label} passes={1 + len(record.steps)}")
        for record in records
        if record.kernel in {"one", "five"}
    )
    traffic_gains = [gain for gain in gains(run, split, response_of(split)) if gain.other != "torch-naive"]
    assert {(gain.fused, gain.other) for gain in traffic_gains} == {("any passes=1", "any passes=6")}


def test_nothing_is_said_where_bytes_are_alike_or_operations_count(softmaxes):
    run, records = softmaxes
    one = tuple(replace(record, measurement=None) for record in records if record.kernel.startswith("one"))
    assert gains(run, one, response_of(one)) == ()
    gemm = tuple(replace(record, merit=Merit.TFLOPS, flops=1000) for record in records)
    assert gains(run, gemm, response_of(gemm)) == ()
    assert gains(run, (), response_of(())) == ()


def test_the_opening_says_it(softmaxes):
    run, records = softmaxes
    assert "should be 4.00 × as fast as five; measured: 3.00 ×" in analyse(run, records, {}).answer.text
