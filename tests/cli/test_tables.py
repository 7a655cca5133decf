"""Tables and texts that commands print."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from rich.console import Console

from lab.advice.finding import Advice, CodePlace, PerformanceFinding, Rule
from lab.cli import tables
from lab.cli.comparison import print_comparison
from lab.cli.doctor import Diagnosis
from lab.cli.tables import (
    print_advice,
    print_advice_on_best,
    print_best,
    print_changes,
    print_emulation,
    print_findings,
    print_mapping,
    print_outcome,
    print_tuned,
    print_variants,
)
from lab.emulator.results import Access, Emulation, Finding
from lab.isa.model import SourceLocation
from lab.isa.roles import Role, WarpRole
from lab.recorded.run_records import EmulationRecord, FullSizeRecord, Status
from lab.report.tuning.data import Champion
from lab.runs.compare import compare
from lab.runs.pipeline import RunOutcome
from lab.store import figures
from lab.store.figures import Basis, Response
from lab.templates.mapping.mapping_facts import facts
from lab.templates.mapping.text import parse
from lab.tuning.run import TuningOutcome


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=200)


def printed(console):
    return console.file.getvalue()


def test_an_outcome_counts_each_status_and_names_the_report(console, make):
    store = make("failures")
    run = replace(store.run(), not_measured="There is no GPU.")
    print_outcome(console, RunOutcome(store.folder, run, store.records, (), True))
    text = printed(console)
    assert "24 of 27 variants: 20 verified, 1 wrong, 2 not executed, 1 compile failed" in (text.replace("\n", " "))
    assert "next, to continue this run:" in text
    assert "There is no GPU." in text
    assert str(store.folder / "index.html") in text.replace("\n", "")


def test_an_interrupted_run_is_continued_by_a_command_that_keeps_it(console, make):
    store = make("sweep")
    run = replace(store.run(), command="python -m lab run 'my file.yaml' --no-resume --no-gpu")
    print_outcome(console, RunOutcome(store.folder, run, store.records, (), True))
    assert "    python -m lab run 'my file.yaml' --resume --no-gpu\n" in printed(console)


def test_only_the_first_failures_of_a_tuning_run_are_printed(console, tmp_path):
    outcome = SimpleNamespace(
        interrupted=False,
        failed=tuple(f"kernel {i}: it spills" for i in range(12)),
        not_measured="There is no GPU.",
        libraries=(tmp_path / "sgemm",),
        pages=(tmp_path / "index.html", tmp_path / "map.png"),
        previous=None,
    )
    print_tuned(console, cast("TuningOutcome", outcome))
    text = printed(console).replace("\n", "")
    assert "kernel 9: it spills" in text
    assert "kernel 10" not in text
    assert "2 further kernels failed" in text
    assert "There is no GPU. All times are predicted." in text
    assert "map.png" not in text


def test_a_missing_thing_is_listed_with_what_it_adds_and_its_command(console):
    print_findings(
        console,
        [
            Diagnosis("Python", True, "3.11", "everything", ""),
            Diagnosis("ncu", False, "not found", "hardware counters", "apt-get install nsight-compute"),
        ],
    )
    text = printed(console)
    assert "✓  Python" in text
    assert "–  ncu" in text
    assert "ncu: hardware counters" in text
    assert "    apt-get install nsight-compute" in text
    assert "Python: everything" not in text


def test_nothing_is_missing(console):
    print_findings(console, [Diagnosis("Python", True, "3.11", "everything", "")])
    assert "missing" not in printed(console)


def test_variants_stand_in_columns_that_do_not_wrap(console):
    def planned(variant, name, label):
        return SimpleNamespace(
            variant=variant,
            point=SimpleNamespace(kernel=SimpleNamespace(name=name)),
            label=label,
            toolchain=SimpleNamespace(name="nvrtc", version="13.0"),
            request=SimpleNamespace(arch="sm_90"),
        )

    print_variants(console, [planned("a1", "tiled", "unroll=1 " * 20), planned("b2", "t", "x")])
    head, *rows = printed(console).splitlines()
    assert len(rows) == 2
    assert head.split() == ["variant", "kernel", "parameters", "toolchain", "arch"]
    assert {line.index("sm_90") for line in rows} == {head.index("arch")}


def test_a_map_shows_skipped_elements_and_its_coalescing(console):
    print_mapping(console, facts(parse("[3] | [2, (2, 1)] => [i0, t0, t1]"), 4, 12))
    text = printed(console)
    assert text.splitlines()[1].split() == ["0", "0", "0", "1", "1", "1", "−", "−", "−", "−", "−", "−"]
    assert "12 elements: 6 untouched" in text
    assert "threads with different t, under the guard: race-free" in text
    assert "threads with different t, without the guard: race-free" in text
    assert "guard: t < 2" in text


def test_the_best_five_and_the_worst_are_in_the_table(console, make):
    store = make("sweep")
    print_best(console, RunOutcome(store.folder, store.run(), store.records, (), False))
    title, head, *rows, rule = printed(console).splitlines()
    assert rule.startswith("Variants of one problem are ranked by their throughput over that of cublas")
    ranked = sorted(store.records(), key=lambda record: -record.measurement.ratio_to_baseline)
    assert [row.split()[1] for row in rows] == [record.variant for record in (*ranked[:5], ranked[-1])]
    assert [row.split()[0] for row in rows] == ["1", "2", "3", "4", "5", "worst"]
    assert title == "throughput, measured on NVIDIA H200, in TFLOP/s"
    assert "TFLOP/s" in head.split()
    assert "/ baseline" in head
    assert f"{ranked[0].measurement.ratio_to_baseline:.3f}" in rows[0]
    assert str(ranked[0].build.resources.registers) in rows[0].split()


def test_the_table_shows_registers_by_role(console, make):
    store = make("sweep")

    def parted(record):
        counts = replace(record.ptx.counts, by_opcode={"setmaxnreg.inc.sync.aligned.u32": 1})
        roles = (WarpRole(Role.PRODUCER, 40, 1), WarpRole(Role.CONSUMER, 232, 2))
        return replace(record, ptx=replace(record.ptx, counts=counts, roles=roles), sass=None)

    records = tuple(map(parted, store.records()))
    print_best(console, RunOutcome(store.folder, store.run(), lambda: records, (), False))
    assert "producer 40, consumer 232" in " ".join(printed(console).split())


def test_the_table_names_fences_of_the_gpu_in_the_hot_loop(console, make):
    store = make("sweep")

    def fenced(record):
        hot = replace(record.sass.hot_loop.counts, by_opcode={"FFMA": 64, "MEMBAR.ALL.GPU": 1})
        loops = tuple(replace(loop, counts=hot) if loop.hot else loop for loop in record.sass.loops)
        return replace(record, sass=replace(record.sass, loops=loops))

    records = tuple(map(fenced, store.records()))
    print_best(console, RunOutcome(store.folder, store.run(), lambda: records, (), False))
    assert "1 GPU-wide fence in the hot loop" in " ".join(printed(console).split())


def test_without_a_measurement_the_table_says_what_was_predicted_and_compares_with_the_median(console, make):
    store = make("no_gpu")
    print_best(console, RunOutcome(store.folder, store.run(), store.records, (), False))
    title, head = printed(console).splitlines()[:2]
    assert "predicted for NVIDIA H200, in TFLOP/s" in title
    assert "/ median" in head


def test_beside_a_throughput_from_a_predicted_time_stands_what_takes_longest_in_it(console, make, monkeypatch):
    """The ceiling may be that of DRAM where the time is not: a kernel that waits reaches a hundredth of it."""
    store = make("no_gpu")
    print_best(console, RunOutcome(store.folder, store.run(), store.records, (), False))
    ceilings = printed(console).count("bound by ")
    assert ceilings > 1
    rates = {record.variant: 1.0 for record in store.records()}
    response = Response(Basis.SCORE, "scored_tflops", "predicted throughput", scored=rates)
    monkeypatch.setattr(figures, "response_of", lambda records: response)
    monkeypatch.setattr(tables, "scores", lambda records: dict.fromkeys(rates, SimpleNamespace(bound="latency")))
    print_best(console, RunOutcome(store.folder, store.run(), store.records, (), False))
    assert printed(console).count("bound by ") == ceilings
    assert printed(console).count("latency takes longest") == ceilings


def test_the_table_ranks_by_a_declared_rate(console, make, counting_keys):
    store = counting_keys(make("sweep"))
    print_best(console, RunOutcome(store.folder, store.run(), store.records, (), False))
    title, _, first, *_ = printed(console).splitlines()
    best = min(store.records(), key=lambda record: record.measurement.samples.median)
    assert title == "throughput, measured on NVIDIA H200, in Mkeys/s"
    assert first.split()[1] == best.variant
    assert f"{2000 / best.measurement.samples.median:.4g}" in first.split()


def test_in_80_columns_no_line_of_the_table_is_folded(make):
    store, written = make("sweep"), io.StringIO()
    outcome = RunOutcome(store.folder, store.run(), store.records, (), False)
    print_best(Console(file=written, width=80), outcome)
    _, _, *rows = written.getvalue().splitlines()
    ranked = figures.ranked(store.records(), figures.response_of(store.records()))
    for place, (row, record) in enumerate(zip(rows, ranked[:5], strict=False), 1):
        assert row.split()[:2] == [str(place), record.variant]
        assert "…" not in row
        assert len(row) <= 80


def test_a_run_in_which_all_failed_has_no_table(console, make):
    store = make("sweep")
    failed = tuple(replace(r, status=Status.NOT_EXECUTED) for r in store.records())
    print_best(console, RunOutcome(store.folder, store.run(), lambda: failed, (), False))
    assert printed(console) == ""


def test_an_outcome_warns_and_names_the_next_command(console, make):
    store = make("sweep")
    run = replace(store.run(), notes=("The clock fell.", "The clock fell."))
    print_outcome(console, RunOutcome(store.folder, run, store.records, (), False))
    text = printed(console)
    assert text.count("warning: The clock fell.") == 1
    ranked = figures.ranked(store.records(), figures.response_of(store.records()))
    neighbour = next(record for record in ranked[1:] if record.variant in text.partition("next, what ")[2])
    assert f"compare {store.folder} {neighbour.variant} {ranked[0].variant}\n" in text
    differing = [name for name, value in ranked[0].parameters.items() if neighbour.parameters[name] != value]
    assert len(differing) == 1


def test_an_outcome_says_what_the_cpu_could_not_execute(console, make):
    store = make("sweep")
    first, other, *others = store.records()
    unknown = EmulationRecord({}, (), unsupported="PTX line 9: unknown opcode")
    records = (replace(first, emulation=unknown), replace(other, emulation=unknown), *others)
    print_outcome(console, RunOutcome(store.folder, store.run(), lambda: records, (), False))
    text = printed(console)
    assert f"warning: 2 of {len(records)} variants were not executed on the CPU: PTX line 9: unknown opcode" in text


def test_an_outcome_says_why_variants_are_suspect_or_verified_in_part_once_for_each_reason(console, make):
    store = make("sweep")
    first, two, three, *others = store.records()
    size = FullSizeRecord({}, 23, 7813, 2944, covered=True)
    known = replace(three, emulation=EmulationRecord({}, (), full_size=size))
    records = (
        replace(first, status=Status.PARTIAL, reason="no values at full size"),
        replace(two, status=Status.PARTIAL, reason="no values at full size"),
        replace(known, status=Status.SUSPECT, reason="in another order: y[3] differs"),
        *others,
    )
    print_outcome(console, RunOutcome(store.folder, store.run(), lambda: records, (), False))
    text = printed(console)
    assert f"{len(others)} verified, 2 verified in part, 1 suspect" in text
    assert text.count("no values at full size") == 1
    assert text.index("y[3] differs") < text.index("no values at full size")  # what is worse comes first
    assert "23 of 7,813 blocks" in text


def test_the_errors_of_a_compiler_are_printed_in_full_once_for_all_variants_that_have_them(console, make, tmp_path):
    first, second, other, *_ = make("sweep").records()
    errors = 'k.cu(4): error: identifier "a" is undefined\n    x = a;\n        ^\nk.cu(9): error: expected a ";"\n'
    records = tuple(
        replace(record, status=Status.COMPILE_FAILED, reason=errors.splitlines()[0]) for record in (first, second)
    )
    single = replace(other, status=Status.COMPILE_FAILED, reason="k.cu(1): error: no")
    for record, log in ((first, errors), (second, errors), (single, "k.cu(1): error: no\n")):
        folder = tmp_path / "variants" / record.variant
        folder.mkdir(parents=True)
        (folder / "build.log").write_text(log)
    run = replace(make("sweep").run(), variants=3)
    print_outcome(console, RunOutcome(tmp_path, run, lambda: (*records, single), (), False))
    text = printed(console)
    assert text.count("2 variants: k.cu(4): error") == 1
    assert text.count('k.cu(9): error: expected a ";"') == 1
    assert text.count("k.cu(1): error: no") == 1


def test_on_a_terminal_of_80_columns_lines_break_between_words(make):
    store, written = make("failures"), io.StringIO()
    console = Console(file=written, width=80, force_terminal=True, color_system=None)
    reason = "y[3]: got 1, expected 2, in another order of the warps of block (17, 0, 0) at kernel.cu:123 " * 2
    records = tuple(replace(record, status=Status.WRONG, reason=reason.strip()) for record in store.records())
    print_outcome(console, RunOutcome(Path("reports/a"), store.run(), lambda: records, (), False))
    lines = written.getvalue().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert reason.strip() in " ".join(" ".join(lines).split())


def test_only_the_first_reasons_are_printed(console, make):
    store = make("sweep")
    records = tuple(replace(one, status=Status.WRONG, reason=f"C[{i}]") for i, one in enumerate(store.records()))
    print_outcome(console, RunOutcome(store.folder, store.run(), lambda: records, (), False))
    text = printed(console)
    assert "C[9]" in text
    assert "C[10]" not in text
    assert f"{len(records) - 10} further reasons" in text


def test_an_outcome_says_what_the_gpu_cannot_launch(console, make):
    store = make("no_gpu")
    first, *others = store.records()
    why = "300000 bytes of shared memory per block; at most 232448 on sm_90"
    too_large = replace(first, prediction=replace(first.prediction, blocks_per_sm=0, occupancy=0.0, limited_by=why))
    print_outcome(console, RunOutcome(store.folder, store.run(), lambda: (too_large, *others), (), False))
    warned = " ".join(printed(console).split())
    assert f"warning: 1 of {1 + len(others)} variants cannot be launched on {first.prediction.gpu}: {why}" in warned


def test_changes_against_the_last_run_are_counted_and_the_largest_named(console, make):
    store = make("sweep")
    records = store.records()
    quick = replace(records[0].measurement, samples=records[3].measurement.samples)
    after = (replace(records[0], measurement=quick), *records[1:])
    found = compare((store.run(), records), (store.run(), after))
    print_changes(console, found)
    text = printed(console)
    assert "against the last run, " in text
    assert "23 same" in text
    verdict = next(change for change in found.changes if change.variant_b == records[0].variant)
    assert f"{verdict.verdict}: {records[0].variant}" in text
    assert f"{verdict.ratio - 1:+.1%}" in text


def test_a_comparison_of_two_variants_says_what_differs(console, make):
    store = make("sweep")
    first, two = store.records()[:2]
    alike = compare((store.run(), (first,)), (store.run(), (replace(first, parameters=first.parameters),)))
    unlike = {"unroll": ("1", "2")}
    change = replace(alike.changes[0], unlike=unlike, variant_b=two.variant)
    print_comparison(console, replace(alike, changes=(change,), source=("--- a", "+++ b", "-x", "+y")), 0.05)
    text = printed(console)
    assert ["what", "differs", "A", first.variant, "B", two.variant] in [line.split() for line in text.splitlines()]
    assert ["unroll", "1", "2"] in [line.split() for line in text.splitlines()]
    assert "-x\n+y" in text


def test_a_race_is_printed_with_both_sides_and_their_source_lines(console):
    side = Access("write", 20, (1, 0, 0), SourceLocation("k.cu", 7), (3, 0, 0), 0)
    race = Finding(
        "shared-race", 24, "ld.shared", SourceLocation("k.cu", 9), (0, 0, 0), (40, 0, 0), 8, "unordered", side, warp=1
    )
    race = replace(race, calls=(SourceLocation("k.cu", 50),))
    print_emulation(console, Emulation("k", None, (), (), (race,), 1), ["f32[8]: 1 2"])
    text = printed(console)
    assert "PTX line 24 (k.cu:9, called at k.cu:50): block (0, 0, 0) thread (40, 0, 0) (warp 1) unordered" in text
    assert "other side: write by thread (1, 0, 0) (warp 0) of block (3, 0, 0), PTX line 20 (k.cu:7)" in text
    assert "f32[8]: 1 2" in text


def test_an_unfinished_launch_names_the_option_and_what_machine_code_met(console):
    unfinished = Finding("unfinished", 9, "bra L", None, (0, 0, 0), (0, 0, 0), None, "still running after 60 s")
    reason = "a faulting access or instruction"
    print_emulation(console, Emulation("k", None, (), (), (unfinished,), 1, not_compiled=reason))
    text = printed(console)
    assert "unfinished: PTX line 9: block (0, 0, 0) thread (0, 0, 0) still running after 60 s bra L" in text
    assert "note: --limit SECONDS sets the time limit" in text
    assert f"note: before, the launch ran as machine code up to: {reason}" in text


def test_the_winners_of_a_tuning_run_are_named_with_the_kind_of_their_figures(console, tmp_path):
    facts = [SimpleNamespace(facts=SimpleNamespace(name=f"k{i}"), wins=9 - i, best_tflops=40.0) for i in range(7)]
    won = [("SB_NT", cast("Champion", fact)) for fact in facts]
    for reason, kind in (("There is no GPU.", "predicted"), ("", "measured")):
        outcome = SimpleNamespace(
            interrupted=False, failed=(), not_measured=reason, libraries=(), pages=(), previous=None
        )
        print_tuned(console, cast("TuningOutcome", outcome), won)
        text = printed(console)
        assert f"k0: fastest at 9 sizes of SB_NT, up to 40.00 TFLOP/s ({kind})" in text
        assert "k5" not in text
        assert "2 more kernels are fastest somewhere" in text


def test_findings_on_performance_are_printed_with_their_remedies(console):
    found = [PerformanceFinding(Rule.TAIL_WAVE, CodePlace(), "133 blocks", "132", 0.5, gain) for gain in (2.0, 1.2)]
    print_advice(console, Advice(tuple(found)), "on the best", 1)
    assert printed(console).splitlines() == [
        "on the best",
        "1. tail wave: 133 blocks; 2.00 x faster without it (predicted)",
        "   remedy: 132",
        "1 further finding",
    ]


def test_findings_are_those_of_the_best_variant(console, make):
    store = make("sweep")
    outcome = RunOutcome(store.folder, store.run(), store.records, (), False)
    print_advice_on_best(console, outcome)
    best = figures.ranked(store.records(), figures.response_of(store.records()))[0]
    first, *rest = printed(console).splitlines()
    assert first.startswith(f"performance findings on {best.variant}")
    assert rest[-1].startswith("not checked: ")


def test_without_a_ranked_variant_there_are_no_findings(console, make):
    store = make("sweep")
    print_advice_on_best(console, RunOutcome(store.folder, store.run(), lambda: (), (), False))
    assert printed(console) == ""
