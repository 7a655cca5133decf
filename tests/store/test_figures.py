from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.emulator.results import ExecutedCounts, MemoryCount
from lab.isa.mix import Counts, KernelMix, LoopMix
from lab.measured.metrics import DeclaredRate
from lab.measured.timing import CardState, Kind, Measurement, Merit, Samples
from lab.recorded.predictions import Bound, Estimate, Prediction
from lab.recorded.run_records import (
    BuildRecord,
    EmulationRecord,
    LaunchRecord,
    RunRecord,
    Status,
    StepRecord,
    VariantRecord,
)
from lab.store import figures
from lab.store.figures import Basis, Response, noise, response_of
from lab.toolchain.base import Resources

WHOLE = Counts(100, {"fma": 10}, {"FFMA": 10}, 0, 0)
HOT = Counts(10, {"fma": 8}, {"FFMA": 8}, 0, 0)
LOOP = LoopMix("L", 1, None, True, HOT, 1, 9, ((1, 9),), None)


def record(variant: str = "v", **fields: object) -> VariantRecord:
    plain = VariantRecord(variant, "k", "", "t", {}, {}, "sm_90", Status.VERIFIED, "", 2 * 10**9, 10**6)
    return replace(plain, **fields)  # type: ignore[arg-type]


def timed(ms: float) -> Measurement:
    return Measurement(Samples((ms,)), None, None, "warm", CardState(), CardState())


def predicted(*bounds: float, peak_gb_s: float | None = None) -> Prediction:
    limits = tuple(Bound(str(i), tflops, "", tflops * 100 if peak_gb_s else None) for i, tflops in enumerate(bounds))
    return Prediction("H200", 1.0, 1, "warps", 66.9, limits, peak_gb_s)


def emulated(**memory: MemoryCount) -> EmulationRecord:
    named = {name.replace("_", "."): count for name, count in memory.items()}
    return EmulationRecord({}, (), executed=ExecutedCounts(1, 32, {}, {}, {}, {}, named))


def test_the_hot_loops_counts_stand_for_the_kernel_where_it_has_one() -> None:
    looped = KernelMix("sass", "k", WHOLE, (LOOP,), None)
    straight = KernelMix("sass", "k", WHOLE, (), None)
    assert figures.hot_counts(looped) == HOT
    assert figures.hot_counts(straight) == WHOLE
    assert figures.fma_share(looped) == 0.8
    assert figures.hot_counts(None) is None
    assert figures.fma_share(None) is None


def test_fences_count_that_reach_beyond_the_cluster() -> None:
    fences = {"MEMBAR.ALL.GPU": 2, "MEMBAR.SC.SYS": 1, "MEMBAR.ALL.CTA": 4, "MEMBAR.ALL.CLUSTER": 8, "CCTL.IVALL": 16}
    hot = replace(LOOP, counts=Counts(31, {"barrier": 15}, fences, 0, 0))
    assert figures.wide_fences(KernelMix("sass", "k", WHOLE, (hot,), None)) == 3
    assert figures.wide_fences(KernelMix("sass", "k", WHOLE, (LOOP,), None)) == 0
    assert figures.wide_fences(None) is None


def test_the_ceiling_is_the_lowest_bound_in_the_merits_unit() -> None:
    assert figures.predicted(record(prediction=predicted(40.0, 30.0))) == 30.0
    bytes_counted = record(prediction=predicted(40.0, 30.0, peak_gb_s=4800.0), merit=Merit.BANDWIDTH)
    assert figures.predicted(bytes_counted) == 3000.0
    assert figures.peak(bytes_counted) == 4800.0
    assert figures.predicted(record(prediction=predicted())) is None
    assert figures.predicted(record()) is figures.peak(record()) is None


def test_a_failed_variant_has_no_throughput() -> None:
    assert figures.measured(record(measurement=timed(1.0))) == pytest.approx(2.0)
    assert figures.measured(record(measurement=timed(1.0), status=Status.WRONG)) is None


def test_an_estimate_counts_operations_alone() -> None:
    variant = record(estimate=Estimate(12.0, 1.0, {}))
    assert figures.estimated(variant) == 12.0
    assert figures.estimated(replace(variant, merit=Merit.BANDWIDTH)) is None
    assert figures.unit_of([]) is Merit.TFLOPS
    assert figures.unit_of([replace(variant, merit=Merit.BANDWIDTH)]) is Merit.BANDWIDTH


def test_traffic_is_summed_over_kinds_of_access() -> None:
    load = MemoryCount(requests=10, sectors=40, bytes_used=1280)
    store = MemoryCount(requests=10, sectors=80, bytes_used=320)
    shared = MemoryCount(requests=20, wavefronts=60, ideal_wavefronts=20)
    variant = record(emulation=emulated(global_load=load, global_store=store, shared_load=shared))
    assert figures.emulated_traffic(variant, "global.load", "global.copy") == load
    assert figures.emulated_traffic(variant, "global.atomic") is None
    assert figures.emulated_sectors(variant) == (4 + 8) / 2
    assert figures.emulated_excess(variant) == 32 * 120 / 1600
    assert figures.emulated_conflicts(variant) == 2
    for figure in (figures.emulated_sectors, figures.emulated_excess, figures.emulated_conflicts):
        assert figure(record()) is None
        assert figure(record(emulation=EmulationRecord({}, ()))) is None


def test_predictions_stand_beside_what_was_counted_where_both_are_known() -> None:
    load = MemoryCount(requests=10, sectors=40)
    copied = MemoryCount(requests=10, sectors=60)
    shared = MemoryCount(requests=5, wavefronts=10, ideal_wavefronts=5)
    accesses = {"global.load": 4.0, "global.store": 8.0, "shared.load": 0.0}
    variant = record(accesses=accesses, emulation=emulated(global_load=load, global_copy=copied, shared_load=shared))
    assert figures.predicted_accesses(variant) == {"global.load": (4.0, 5.0), "shared.load": (0.0, 1.0)}
    assert figures.predicted_sectors(variant) == 6.0
    assert figures.predicted_sectors(record()) is None


def test_shared_memory_is_static_and_dynamic_and_the_most_of_several_launches() -> None:
    used = Resources(32, 0, 0, 0, 100, 0, 1)
    build = BuildRecord("nvrtc", "13", "", used, "", 0.1, cached=False, disassembler="13")
    assert figures.shared_bytes(record()) is None
    assert figures.shared_bytes(record(build=build, launch=LaunchRecord((1, 1, 1), (32, 1, 1), 28))) == 128
    steps = (
        StepRecord("a", LaunchRecord((1, 1, 1), (32, 1, 1), 900)),
        StepRecord("b", LaunchRecord((1, 1, 1), (32, 1, 1), 50), resources=replace(used, shared_bytes=950)),
    )
    assert figures.shared_bytes(record(build=build, steps=steps)) == 1000


def test_the_response_is_of_one_kind_for_all_variants() -> None:
    both = record("a", prediction=predicted(30.0), estimate=Estimate(20.0, 1.0, {}))
    bare = record("b", prediction=predicted(10.0))
    assert response_of((both,)).basis is Basis.ESTIMATE
    assert response_of((both, bare)).basis is Basis.CEILING
    chosen = response_of((both, bare, record("c", measurement=timed(1.0))))
    assert (chosen.basis, chosen.kind, chosen.column) == (Basis.MEASURED, Kind.MEASURED, "measured_tflops")
    assert chosen.axis == "throughput (TFLOP/s, measured)"
    bytes_counted = response_of((record(measurement=timed(1.0), merit=Merit.BANDWIDTH),))
    assert (bytes_counted.column, bytes_counted.unit) == ("measured_gb_s", Merit.BANDWIDTH)


def test_a_score_is_the_response_of_the_variants_that_have_one() -> None:
    scored = Response(Basis.SCORE, "score", "score", scored={"a": 2.5})
    assert (scored.of(record("a")), scored.of(record("b"))) == (2.5, None)
    assert scored.of(record("a", status=Status.PRUNED)) is None


def test_failed_and_pruned_variants_are_not_ranked() -> None:
    variants = tuple(
        record(name, prediction=predicted(tflops), status=status)
        for name, tflops, status in (
            ("slow", 1.0, Status.INSPECTED),
            ("failed", 9.0, Status.NOT_EXECUTED),
            ("pruned", 8.0, Status.PRUNED),
            ("fast", 2.0, Status.INSPECTED),
            ("as slow", 1.0, Status.INSPECTED),
        )
    )
    ranked = figures.ranked(variants, response_of(variants))
    assert [one.variant for one in ranked] == ["fast", "slow", "as slow"]


def run(*axes: str) -> RunRecord:
    return RunRecord("e", "q", "gemm", {}, "", "", "", "0", "", "", {}, None, "", {}, (), 1, problem_axes=axes)


def test_records_are_grouped_by_the_label_of_their_problem() -> None:
    variants = tuple(record(str(m), problem={"m": m, "exact": True, "n": 1}) for m in (2, 1, 2))
    assert list(figures.by_problem(run(), variants)) == [""]
    grouped = figures.by_problem(run("m", "exact"), variants)
    assert {label: len(own) for label, own in grouped.items()} == {"m=2 exact=true": 2, "m=1 exact=true": 1}
    named = (record(problem={"name": "small", "m": 1}),)
    assert list(figures.by_problem(run("name", "m"), named)) == ["small m=1"]


def test_a_sentence_names_kernel_and_label_without_repetition() -> None:
    assert figures.name_of(record(label="m=2 unroll=4"), without="m=2") == "k unroll=4"
    assert figures.name_of(record(label="k")) == figures.name_of(record()) == "k"
    assert figures.percent(0.8734) == "87.3\N{NO-BREAK SPACE}%"
    assert figures.percent(0.8734, 0) == "87\N{NO-BREAK SPACE}%"


def test_noise_is_half_of_what_the_samples_scatter() -> None:
    assert noise(record()) == 0
    scattered = replace(timed(1.0), samples=Samples((0.9, 0.9, 1.0, 1.1, 1.1)))
    assert noise(record(measurement=scattered)) == pytest.approx(scattered.samples.spread / 2) == pytest.approx(0.1)


def test_throughput_over_a_setting_is_that_of_the_variant_that_differs_in_it_alone(make) -> None:
    store = make("sweep")
    run, records = store.run(), store.records()
    name = run.swept[0]
    value = records[0].parameters[name]
    response = figures.response_of(records)
    assert figures.over_setting(run, records, response) == {}
    ratios = figures.over_setting(replace(run, setting={name: value}), records, response)
    own = {record.variant for record in records if record.parameters[name] == value and response.of(record)}
    assert own
    assert all(ratios[variant] == 1.0 for variant in own)
    others = [record for record in records if record.variant in ratios and record.variant not in own]
    assert any(ratios[record.variant] != 1.0 for record in others)
    assert figures.setting_in_words({"block": 256, "fast": True}) == "block=256 fast=true"


KEYS = DeclaredRate("Gkeys/s", 0.5)


def test_a_declared_rate_is_the_throughput_and_its_ceiling_is_that_of_the_memory() -> None:
    """A launch sorts 0.5 Gkeys, and moves 1 MB, which takes 1 / 3000 ms at 3000 GB/s."""
    fields: dict[str, Any] = {"merit": Merit.BANDWIDTH, "flops": 0, "declared_rate": KEYS}
    variant = record(measurement=timed(2.0), prediction=predicted(40.0, 30.0, peak_gb_s=4800.0), **fields)
    assert figures.measured(variant) == pytest.approx(250.0)
    assert figures.predicted(variant) == pytest.approx(0.5 / (1e6 / 3000e9))
    assert figures.peak(variant) is None
    assert figures.predicted(replace(variant, bytes_moved=0)) is None
    assert figures.predicted(replace(variant, prediction=predicted())) is None
    chosen = response_of((variant, record("b", measurement=timed(1.0), **fields)))
    assert (chosen.unit, chosen.column) == ("Gkeys/s", "measured_gkeys_s")
    assert chosen.axis == "throughput (Gkeys/s, measured)"
    assert chosen.text(0.0123456) == "0.01235"
    assert replace(chosen, basis=figures.Basis.SCORE).text(3179.99) == "3200"
    assert figures.time_ms(variant, chosen) == 2.0
    slow, fast = record("slow", measurement=timed(4.0), **fields), record("fast", measurement=timed(1.0), **fields)
    assert figures.ranked((slow, fast), chosen) == (fast, slow)


def test_a_predicted_figure_stands_for_the_time_in_which_it_does_the_work() -> None:
    variant = record(merit=Merit.BANDWIDTH, declared_rate=KEYS, prediction=predicted(40.0, 30.0, peak_gb_s=4800.0))
    chosen = response_of((variant,))
    assert (chosen.basis, chosen.column) == (Basis.CEILING, "predicted_gkeys_s")
    assert figures.time_ms(variant, chosen) == pytest.approx(1e6 / 3000e9 * 1e3)
    assert figures.time_ms(record(), chosen) is None


@pytest.mark.parametrize(
    ("unit", "column"),
    [
        (Merit.TFLOPS, "measured_tflops"),
        (Merit.BANDWIDTH, "measured_gb_s"),
        ("updates/ns", "measured_updates_ns"),
        ("points/s", "measured_points_s"),
        ("µ-ops per clock", "measured_ops_per_clock"),
        ("ms", "measured_ms_rate"),
        ("peak share", "measured_peak_share_rate"),
        ("%", "measured_rate"),
    ],
)
def test_a_column_has_its_unit_in_its_name(unit: str, column: str) -> None:
    assert figures.column_name("measured_tflops", unit) == column


@pytest.mark.parametrize("changed", [{"flops": 0}, {"measurement": timed(0.0)}])
def test_no_work_and_no_time_are_no_throughput(changed: dict[str, Any]) -> None:
    assert figures.measured(replace(record(measurement=timed(1.0)), **changed)) is None


def test_two_variants_are_tied_within_what_their_figures_err_or_scatter() -> None:
    response = Response(Basis.MEASURED, "c", "t")
    fastest, near, far = (record(str(ms), measurement=timed(ms)) for ms in (1.0, 1.004, 1.01))
    assert response.tied(fastest, near)
    assert response.tied(near, fastest)
    assert not response.tied(fastest, far)
    assert not response.tied(fastest, record("none"))
    assert not response.tied(record("none"), fastest)
    scattered = replace(timed(1.01), samples=Samples((1.0, 1.0, 1.01, 1.03, 1.03)))
    assert response.tied(fastest, record("scattered", measurement=scattered))
    edge = Response(Basis.SCORE, "c", "t", scored={"a": 100.0, "b": 100.0 * (1 - 0.02), "c": 1.0})
    assert edge.tolerance > 0.02
    assert edge.tied(record("a"), record("b"))
    assert not edge.tied(record("a"), record("c"))
    exact = Response(Basis.ESTIMATE, "c", "t")
    first, second = (record(name, estimate=Estimate(tflops, 1.0, {})) for name, tflops in (("a", 50.0), ("b", 49.0)))
    assert exact.tied(first, second)  # 2 % of the larger, exactly
    assert not exact.tied(first, record("c", estimate=Estimate(48.99, 1.0, {})))


def test_the_best_and_those_that_cannot_be_told_apart_from_it() -> None:
    variants = tuple(
        record(name, measurement=timed(ms)) for name, ms in (("c", 1.004), ("a", 1.0), ("d", 2.0), ("b", 1.001))
    )
    response = response_of(variants)
    assert [one.variant for one in figures.tied_with_best(variants, response)] == ["a", "b", "c"]
    alone = (record("a", measurement=timed(1.0)),)
    assert figures.tied_with_best(alone, response) == alone
    assert figures.tied_with_best((), response) == ()


def beside(ms: float, baseline_ms: float, name: str | None = "cublas") -> Measurement:
    return replace(timed(ms), baseline=Samples((baseline_ms,)), baseline_name=name)


def test_variants_of_one_problem_are_ranked_by_their_ratio_to_the_baseline_in_turns() -> None:
    """The clock fell: `late` is slower than `early` by its time alone."""
    early, late = record("early", measurement=beside(1.0, 1.0)), record("late", measurement=beside(1.1, 1.2))
    failed = record("failed", measurement=timed(0.1), status=Status.WRONG)
    response = response_of((early, late, failed))
    assert (response.in_turns, response.of(early)) == ("cublas", early.throughput)
    assert [one.variant for one in figures.ranked((early, late, failed), response)] == ["late", "early"]
    assert not response.tied(early, late)
    assert response.tied(early, record("same", measurement=beside(1.2, 1.2)))
    assert "that of cublas, which took turns with each" in response.rule
    assert figures.rule_of((early, late), response) == response.rule


def test_a_ratio_ranks_neither_other_problems_nor_variants_without_it() -> None:
    early, late = record("early", measurement=beside(1.0, 1.0)), record("late", measurement=beside(1.1, 1.2))
    larger = replace(late, problem={"m": 2})
    response = response_of((early, larger))
    assert [one.variant for one in figures.ranked((early, larger), response)] == ["early", "late"]
    assert figures.rule_of((early, larger), response) == ""
    for other in (record("alone", measurement=timed(3.0)), record("torch", measurement=beside(3.0, 1.0, "torch"))):
        response = response_of((early, late, other))
        assert (response.in_turns, response.rule) == ("", "")
        assert [one.variant for one in figures.ranked((early, late, other), response)][:2] == ["early", "late"]


def test_more_declared_work_at_the_same_ratio_ranks_higher() -> None:
    fewer, more = record("one", measurement=beside(1.0, 1.0)), record("more", measurement=beside(2.0, 1.5))
    more = replace(more, flops=3 * more.flops)
    assert figures.ranked((fewer, more), response_of((fewer, more))) == (more, fewer)


def test_pruned_variants_choose_no_response_by_score(monkeypatch: pytest.MonkeyPatch) -> None:
    scored_variants: list[list[str]] = []

    def scored(records):
        scored_variants.append([record.variant for record in records])
        return {record.variant: 1.0 for record in records}

    monkeypatch.setattr(figures, "scored", scored)
    variants = (record("a"), record("b", status=Status.PRUNED), record("c"))
    chosen = response_of(variants)
    assert scored_variants == [["a", "c"]]
    assert (chosen.basis, chosen.column, chosen.title, chosen.scored) == (
        Basis.SCORE, "scored_tflops", "predicted throughput", {"a": 1.0, "c": 1.0},
    )  # fmt: skip
    assert [chosen.of(variant) for variant in variants] == [1.0, None, 1.0]


def test_scores_that_are_no_throughput_are_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "scores", lambda records: {"a": "s", "b": "t"})
    monkeypatch.setattr(figures, "rate", lambda record, found: {"s": 2.0, "t": None}[found])
    assert figures.scored([record("a"), record("b")]) == {"a": 2.0}


def test_time_of_a_prediction_and_of_a_measurement() -> None:
    predicted_one = record(prediction=predicted(4.0))
    ceiling = response_of((predicted_one,))
    assert figures.time_ms(predicted_one, ceiling) == 0.5  # 2e9 operations at 4 TFLOP/s
    measured_one = Response(Basis.MEASURED, "c", "t")
    assert figures.time_ms(record(measurement=timed(3.0)), measured_one) == 3.0
    assert figures.time_ms(record(measurement=timed(3.0), status=Status.NOT_EXECUTED), measured_one) is None
    assert figures.time_ms(record(), measured_one) is None


def test_figures_without_bytes_that_are_used() -> None:
    load = MemoryCount(requests=10, sectors=40)
    assert figures.emulated_excess(record(emulation=emulated(global_load=load))) is None
    assert figures.emulated_sectors(record(emulation=emulated(global_load=load))) == 4
    assert figures.emulated_conflicts(record(emulation=emulated(global_load=load))) is None
    assert figures.peak(record(prediction=replace(predicted(1.0), peak_tflops=0.0))) is None


def test_shared_memory_of_steps_whose_resources_are_not_known() -> None:
    used = Resources(32, 0, 0, 0, 100, 0, 1)
    build = BuildRecord("nvrtc", "13", "", used, "", 0.1, cached=False, disassembler="13")
    steps = (StepRecord("a", LaunchRecord((1, 1, 1), (32, 1, 1), 0)),)
    assert figures.shared_bytes(record(build=build, steps=steps)) == 0
    assert figures.shared_bytes(record(build=build)) == 100


def test_how_figures_are_written() -> None:
    assert (figures.format_of(Merit.TFLOPS), figures.format_of("keys/s")) == (".2f", ".4g")
    assert (figures.amount(1.2345, Merit.BANDWIDTH), figures.amount(12345.6, "keys/s")) == ("1.23", "1.235e+04")
    assert figures.text(True) == "true"
    assert (figures.text(1.5), figures.text("A")) == ("1.5", "A")
    assert Response(Basis.SCORE, "c", "t").kind is Kind.PREDICTED
    assert Response(Basis.MEASURED, "c", "title").axis == "title (TFLOP/s, measured)"


def test_what_a_setting_is_compared_with_has_the_same_problem_and_options() -> None:
    kept: dict[str, Any] = {"measurement": timed(2.0)}
    base = record("base", parameters={"u": 1, "v": 1}, **kept)
    half = record("half", parameters={"u": 2, "v": 1}, measurement=timed(4.0))
    other = record("other", parameters={"u": 2, "v": 2}, **kept)
    others = [record(name, parameters={"u": 2, "v": 1}, **kept, **changed) for name, changed in (
        ("problem", {"problem": {"m": 2}}), ("arch", {"arch": "sm_80"}), ("compiler", {"compiler": "x"}),
        ("options", {"options": ("-x",)}), ("kernel", {"kernel": "z"}), ("failed", {"status": Status.NOT_EXECUTED}),
    )]  # fmt: skip
    run_of_one = replace(run(), setting={"u": 1})
    records = [base, half, other, *others]
    ratios = figures.over_setting(run_of_one, records, Response(Basis.MEASURED, "c", "t"))
    assert ratios == {"base": 1.0, "half": 0.5}
