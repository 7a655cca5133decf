"""Two runs side by side."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from mistakes import coded
from typer.testing import CliRunner

from lab.base.errors import UserError
from lab.cli.main import app
from lab.isa.mix import Counts, KernelMix
from lab.measured.timing import CardState, GpuDescription, Kind, Measurement, Samples
from lab.recorded.predictions import Estimate
from lab.recorded.run_records import BuildRecord, RunRecord, Status, VariantRecord
from lab.runs.compare import RESAMPLES, SAME, Verdict, _unlike, _verdict, compare, ratio_interval
from lab.store.database import Store
from lab.toolchain.base import Resources

GPU = GpuDescription("NVIDIA H200", "sm_90", 132, 1980, 150 * 10**9, 60 * 2**20, "580", "13.0")
RUN = RunRecord("e", "q", "gemm", {}, "", "", "2026", "0.1", "", "3.11", {}, GPU, "", {}, ("unroll",), 3)


def samples(ms, n=15, scatter=0.001, seed=0):
    return Samples(tuple(ms * np.random.default_rng(seed).normal(1, scatter, n)))


def record(unroll, ms, *, baseline=None, registers=64, scatter=0.001, version="13.5", status=Status.VERIFIED):
    resources = Resources(registers, 0, 0, 0, 0, 400, 1)
    timed = Measurement(
        samples(ms, scatter=scatter, seed=unroll),
        baseline and samples(baseline, seed=9),
        baseline and "cublas",
        "cold",
        CardState(),
        CardState(),
    )
    build = BuildRecord("nvrtc", version, "c", resources, f"{registers}", 0.1, cached=False, disassembler="d")
    variant = VariantRecord(
        f"{unroll}{version}", "k", f"unroll={unroll}", "t", {"unroll": unroll}, {"m": 64}, "sm_90", status, "",
        10**9, 1, build=build, compiler=f"nvrtc {version}",
    )  # fmt: skip
    return variant if status.failed else replace(variant, measurement=timed)


def changes(a, b, **options):
    comparison = compare((RUN, a), (RUN, b), **options)
    return {change.label: change for change in comparison.changes}, comparison


def test_faster_slower_same_and_ambiguous():
    a = [record(1, 2.0), record(2, 2.0), record(4, 2.0), record(8, 2.0, scatter=0.1)]
    b = [record(1, 1.8), record(2, 2.3, registers=70), record(4, 2.001), record(8, 2.0, scatter=0.1)]
    b[3] = replace(b[3], measurement=replace(b[3].measurement, samples=samples(2.05, scatter=0.1, seed=77)))
    by_label, whole = changes(a, b)
    assert {label: change.verdict for label, change in by_label.items()} == {
        "unroll=1": Verdict.FASTER,
        "unroll=2": Verdict.SLOWER,
        "unroll=4": Verdict.SAME,
        "unroll=8": Verdict.AMBIGUOUS,
    }
    slower = by_label["unroll=2"]
    assert slower.low < slower.ratio < slower.high < 1
    assert slower.ratio == pytest.approx(2 / 2.3, rel=0.01)
    assert (slower.n_a, slower.n_b, slower.same_code) == (15, 15, False)
    assert slower.figures["registers"] == (64, 70)
    assert by_label["unroll=1"].same_code is True
    assert slower.regressed(0.05)
    assert not slower.regressed(0.2)
    assert whole.counts[Verdict.SAME] == 1


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng, hits = np.random.default_rng(5), 0
    for _ in range(200):
        a, b = (Samples(tuple(rng.normal(ms, 0.02, 31))) for ms in (1.0, 1.1))
        _, low, high = ratio_interval([a], [b], rng)
        hits += low <= 1 / 1.1 <= high
    assert RESAMPLES >= 1000
    assert 0.88 * 200 <= hits <= 200


def test_relative_cancels_what_the_session_did_to_both():
    a = [record(1, 2.0, baseline=1.0)]
    b = [record(1, 2.2, baseline=1.1)]
    assert changes(a, b)[0]["unroll=1"].verdict is Verdict.SLOWER
    by_label, whole = changes(a, b, relative=True)
    assert by_label["unroll=1"].verdict is Verdict.SAME
    assert whole.baseline == pytest.approx(1 / 1.1, rel=0.01)
    assert changes([record(1, 2.0)], b, relative=True)[0]["unroll=1"].verdict is Verdict.NOT_COMPARED


def test_what_broke_is_a_regression_at_any_threshold():
    by_label, _ = changes([record(1, 2.0)], [record(1, 2.0, status=Status.WRONG)])
    assert by_label["unroll=1"].verdict is Verdict.BROKEN
    assert by_label["unroll=1"].regressed(0.9)
    by_label, _ = changes([record(1, 2.0, status=Status.NOT_EXECUTED)], [record(1, 2.0)])
    assert by_label["unroll=1"].verdict is Verdict.MENDED


def test_a_variant_that_became_suspect_is_broken_and_one_verified_in_part_is_timed():
    by_label, _ = changes([record(1, 2.0)], [record(1, 1.0, status=Status.SUSPECT)])
    assert (by_label["unroll=1"].verdict, by_label["unroll=1"].ratio) == (Verdict.BROKEN, None)
    assert by_label["unroll=1"].unlike["status"] == (Status.VERIFIED, Status.SUSPECT)
    by_label, _ = changes([record(1, 2.0)], [record(1, 1.0, status=Status.PARTIAL)])
    assert by_label["unroll=1"].verdict is Verdict.FASTER


def test_runs_of_two_compilers_match_and_a_run_of_both_keeps_them_apart():
    newer, other = [record(1, 2.0)], [record(1, 2.0, version="12.9")]
    assert len(changes(newer, other)[0]) == 1
    both = newer + other
    _, comparison = changes(both, other)
    assert [(c.variant_a, c.variant_b) for c in comparison.changes] == [("112.9", "112.9")]
    assert comparison.only_a == ("113.5 k unroll=1",)


def test_runs_without_a_common_variant_are_refused():
    with pytest.raises(UserError, check=coded("nothing-left", found="1 and 1 variants")):
        compare((RUN, [record(1, 2.0)]), (RUN, [record(2, 2.0)]))


@pytest.fixture
def runs(tmp_path):
    for name, ms in (("a", 2.0), ("b", 2.3)):
        with Store(tmp_path / name, create=True) as store:
            store.write_run(RUN)
            for position, unroll in enumerate((1, 2)):
                store.write(record(unroll, ms if unroll == 2 else 2.0), position)
    return str(tmp_path / "a"), str(tmp_path / "b")


def test_the_command_says_what_changed_and_fails_on_a_regression(runs):
    done = CliRunner().invoke(app, ["compare", *runs], env={"COLUMNS": "200"})
    assert done.exit_code == 1
    assert "slower ✗" in done.stdout
    assert "B against A, 2 variants: 1 slower, 1 same" in done.stdout
    assert "unroll=1" not in done.stdout  # equal
    assert CliRunner().invoke(app, ["compare", *runs, "--threshold", "0.5"]).exit_code == 0
    assert CliRunner().invoke(app, ["compare", runs[1], runs[0]]).exit_code == 0


def test_the_command_prints_json(runs):
    done = CliRunner().invoke(app, ["compare", *runs, "--json"])
    report = json.loads(done.stdout)
    assert report["regressions"] == ["213.5"]
    assert report["counts"] == {"slower": 1, "same": 1}
    assert [change["regression"] for change in report["changes"]] == [False, True]


def test_samples_that_do_not_count_are_in_neither_the_ratio_nor_its_interval():
    slow_at_first = Samples((9.0,) * 8 + (1.0, 1.01, 0.99) * 3, unused=tuple(range(8)))
    ratio, low, high = ratio_interval([slow_at_first], [Samples((1.0,) * 9)], np.random.default_rng(0))
    assert ratio == 1.0
    assert 0.98 < low <= high < 1.02


def verdict(low, high):
    right = record(1, 1.0)
    return _verdict(right, right, low, high)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1 - SAME, 1.0, Verdict.AMBIGUOUS),  # the margin itself is not the same
        (1.0, 1 + SAME, Verdict.AMBIGUOUS),
        (0.9, 1.0, Verdict.AMBIGUOUS),  # an interval that ends at 1 holds 1
        (1.0, 1.1, Verdict.AMBIGUOUS),
        (1 - SAME / 2, 1 + SAME / 2, Verdict.SAME),
        (1 + SAME / 4, 1 + SAME / 2, Verdict.SAME),
        (np.nextafter(1, 2), 1.1, Verdict.FASTER),
        (0.9, np.nextafter(1, 0), Verdict.SLOWER),
        (None, 1.0, Verdict.NOT_COMPARED),
    ],
)
def test_where_one_verdict_ends_and_the_next_begins(low, high, expected):
    assert verdict(low, high) is expected


def test_a_change_of_exactly_the_threshold_is_no_regression():
    by_label, _ = changes([record(1, 1.0, scatter=0)], [record(1, 2.0, scatter=0)])
    change = by_label["unroll=1"]
    assert change.ratio == 0.5
    assert not change.regressed(0.5)
    assert change.regressed(0.49)


def test_the_command_compares_runs_in_folders_that_cannot_be_written(open_folder, read_only, runs):
    """As somebody else's results on a shared disk are: nothing may be left there, either."""
    folders = [open_folder / name for name in ("a", "b")]
    for source, folder in zip(runs, folders, strict=True):
        shutil.copytree(source, folder)
    before = [sorted(path.name for path in folder.rglob("*")) for folder in folders]
    for folder in folders:
        read_only(folder)
    done = CliRunner().invoke(app, ["compare", *map(str, folders), "--json"])
    assert done.exit_code == 1, done.output
    assert json.loads(done.stdout)["regressions"] == ["213.5"]
    assert [sorted(path.name for path in folder.rglob("*")) for folder in folders] == before


def test_estimates_are_compared_where_neither_run_measured():
    estimated = [replace(record(1, 2.0), measurement=None, estimate=Estimate(tflops, 1.0, {})) for tflops in (4.0, 3.0)]
    by_label, _ = changes(estimated[:1], estimated[1:])
    change = by_label["unroll=1"]
    assert (change.ratio, change.kind) == (pytest.approx(0.75), Kind.PREDICTED)
    assert (change.low, change.high) == (pytest.approx(0.75 / 1.02), pytest.approx(0.75 * 1.02))
    assert (change.verdict, change.n_a, change.n_b) == (Verdict.SLOWER, 0, 0)
    timed = replace(record(1, 2.0), estimate=Estimate(3.0, 1.0, {}))
    for sides in (([estimated[0]], [timed]), ([timed], [estimated[0]])):
        change = changes(*sides)[0]["unroll=1"]
        assert change.kind is Kind.PREDICTED  # a measured time is not compared with a predicted one
        times = sorted([change.time_a.ms, change.time_b.ms])
        assert times == pytest.approx([0.25, 1 / 3])
    failed = replace(estimated[0], status=Status.NOT_EXECUTED)
    assert changes([failed], [failed])[0]["unroll=1"].ratio is None


def test_what_differs_is_named_with_both_texts():
    def mix(**by_class):
        return KernelMix("sass", "k", Counts(9, by_class, {}, 0, 0), (), None)

    first = replace(record(1, 2.0), sass=mix(fma=4, move=1), parameters={"unroll": 1, "a": True})
    other = replace(
        record(1, 2.0), sass=mix(fma=5, special=2), parameters={"unroll": 1, "b": 0.5}, compiler="x", problem={"m": 65}
    )
    assert dict(_unlike(first, other)) == {
        "a": ("true", ""),
        "b": ("", "0.5"),
        "problem.m": ("64", "65"),
        "compiler": ("nvrtc 13.5", "x"),
        "hot-loop fma": ("4", "5"),
        "hot-loop move": ("1", "0"),
        "hot-loop special": ("0", "2"),
    }
    assert dict(_unlike(first, replace(first, sass=None))) == {}
