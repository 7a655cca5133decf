from __future__ import annotations

import csv
import io
import math

import pytest

from lab.base.sizes import Size
from lab.library.checked_sizes import CheckedSize, summaries, to_csv
from lab.measured.timing import Samples


def row(
    size: Size, ms: float | None, cublas: float | None, layout: str = "nn", expected: float | None = None
) -> CheckedSize:
    def samples(own: float | None) -> Samples | None:
        return None if own is None else Samples((own, own, own))

    return CheckedSize(
        layout, size, "k", expected, samples(ms), samples(cublas), "warm", 1e-7, "" if ms else "it failed"
    )


@pytest.mark.parametrize(
    ("size", "shape", "alignment"),
    [
        ((8, 8, 8), "tiny", "aligned"),
        ((64, 4096, 1024), "thin", "aligned"),
        ((65, 4096, 1024), "large", "unaligned"),
        ((256, 256, 4100), "deep", "aligned"),
        ((256, 255, 4000), "large", "unaligned"),
        ((1, 1, 1_000_000_000), "thin", "unaligned"),
        ((8, 8, 8, 3), "tiny", "aligned"),
        ((64, 64, 64, 101), "thin", "aligned"),
    ],
)
def test_a_size_has_a_shape_and_an_alignment(size: Size, shape: str, alignment: str) -> None:
    assert row(size, 1.0, 1.0).classes == (shape, alignment)


def test_ratios_are_of_throughput() -> None:
    assert row((8, 8, 8), 2.0, 1.0).ratio == 0.5
    assert row((8, 8, 8), None, 1.0).ratio is None
    assert row((8, 8, 8), 1.0, None).ratio is None


def test_an_expectation_errs_against_the_median() -> None:
    assert row((8, 8, 8), 2.0, 1.0, expected=1.0).expectation_error == 0.5
    assert row((8, 8, 8), 2.0, 1.0).expectation_error is None
    assert row((8, 8, 8), None, 1.0, expected=1.0).expectation_error is None


def test_figures_by_layout_and_class() -> None:
    rows = [
        row((8, 8, 8), 1.0, 2.0),
        row((7, 8, 8), 1.0, 0.5, "tn"),
        row((512, 512, 512), 1.0, 4.0),
        row((9, 9, 9), None, 1.0),
    ]
    summary_by_name = {summary.name: summary for summary in summaries(rows)}
    assert list(summary_by_name) == ["all", "nn", "tn", "tiny", "large", "aligned", "unaligned"]
    assert summary_by_name["all"].sizes == 3
    assert summary_by_name["all"].mean == pytest.approx(math.exp((math.log(2) + math.log(0.5) + math.log(4)) / 3))
    assert summary_by_name["all"].worst == 0.5
    assert summary_by_name["all"].faster == pytest.approx(2 / 3)
    assert summary_by_name["tiny"].p5 == pytest.approx(0.575)
    assert summaries([]) == ()


def test_the_table_has_times_with_spread_and_count() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv([row((8, 9, 10), 1.0, 2.0), row((8, 8, 8), None, 1.0)]))))
    assert (rows[0]["m"], rows[0]["n"], rows[0]["k"]) == ("8", "9", "10")
    assert (rows[0]["ours_ms"], rows[0]["ours_n"], rows[0]["cublas_ms"], rows[0]["ratio"]) == ("1.0", "3", "2.0", "2.0")
    assert (rows[1]["ours_ms"], rows[1]["ratio"], rows[1]["failure"]) == ("", "", "it failed")
    assert to_csv([]) == "layout\n"


def test_a_batch_has_a_column_of_its_own() -> None:
    alone, batch = row((8, 16, 24), 1.0, 2.0), row((8, 16, 24, 5), 1.0, 2.0)
    assert "batch" not in to_csv([alone])
    read = list(csv.DictReader(io.StringIO(to_csv([alone, batch]))))
    assert [(one["k"], one["batch"], one["shape"]) for one in read] == [("24", "", "tiny"), ("24", "5", "tiny")]
