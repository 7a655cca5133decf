"""The pipeline on a small experiment: without a GPU, and with one that is played."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from mistakes import coded
from narrowing import as_, known
from run_support import H200, InProcess, all_played, with_a_gpu, without_a_gpu

from lab.base.errors import MissingToolError, UserError
from lab.cli import main
from lab.gpu.counters.profile import Counted
from lab.gpu.process.job import BaselineResult, Failure, JobResult, JobStage
from lab.measured.counters import LaunchCounters, Profile
from lab.measured.timing import CardState, Measurement, Samples, Verification
from lab.predict.variant_scores import scores
from lab.recorded.run_records import Condition, Status, Suspicion
from lab.report.columns import row as cells_of
from lab.report.registry.run_columns import columns_for
from lab.runs import flow
from lab.runs.observer import RunObserver
from lab.runs.pipeline import RunOptions, RunOutcome, _read, run
from lab.stages.build import BuildFailure, Built
from lab.stages.executed import execution
from lab.store.database import Store
from lab.store.figures import ranked, response_of
from lab.toolchain.nvrtc.compiler import find_nvrtc

TEMPLATE = """{#---
summary: s
operator: gemm
entry: k
parameters: {depth: {type: int, default: 4, values: [1, 2, 4, 8], help: h}}
grid: ["ceil_div(m, 32)"]
block: [32]
arguments: {m: int32, A: T*, C: T*}
---#}
extern "C" __global__ void k(int m, const {{ T }}* A, {{ T }}* C)
{
    {{ "not CUDA" if depth == 8 else "" }}
    {{ T }} sum = 0;
#pragma unroll {{ depth }}
    for (int p = 0; p < 64; ++p) sum = sum * A[p] + A[p + m];
    C[threadIdx.x] = sum;
}
"""
EXPERIMENT = """question: Does it?
operator: gemm
problem: {m: 64, n: 64, k: 64}
kernels:
  - {template: mine.cu.j2, parameters: {depth: [1, 2, 4, 8]}}
baselines: [cublas]
archs: [sm_90]
"""


class Watcher(RunObserver):
    def __init__(self):
        self.outcomes, self.records, self.added, self.gpu = [], [], [], None

    def planned(self, experiment, expansion, variants, gpu):
        self.gpu = gpu

    def more(self, variants):
        self.added.append(variants)

    def built(self, planned, outcome):
        self.outcomes.append(outcome)

    def recorded(self, record):
        self.records.append(record)

    def counting(self, variants):
        self.added.append(f"counting {variants}")

    def counted(self, variants):
        self.added.append(f"counted {variants}")


@pytest.fixture
def experiment(tmp_path):
    (tmp_path / "mine.cu.j2").write_text(TEMPLATE)
    file = tmp_path / "small.yaml"
    file.write_text(EXPERIMENT)
    return file


@pytest.fixture
def no_gpu():
    return without_a_gpu()


def test_without_a_gpu_everything_but_times(experiment, tmp_path, no_gpu):
    watcher = Watcher()
    outcome = run(experiment, RunOptions(output=tmp_path / "out", jobs=2), watcher, no_gpu)
    assert [r.status for r in outcome.records] == [Status.INSPECTED] * 3 + [Status.COMPILE_FAILED]
    assert outcome.failed
    assert [type(o) for o in watcher.outcomes if isinstance(o, BuildFailure)] == [BuildFailure]
    assert outcome.run.not_measured == "Nothing was measured: there is no GPU."
    good, bad = outcome.records[0], outcome.records[-1]
    assert good.prediction.gpu == "H200"
    assert good.ptx.hot_loop.counts.fma == 1
    assert "error" in bad.reason
    folder = tmp_path / "out"
    for record in outcome.records:
        files = {p.name for p in (folder / "variants" / record.variant).iterdir()}
        assert {"kernel.cu", "build.log", "provenance.json"} <= files
        assert ({"kernel.ptx", "kernel.sass", "kernel.cubin"} <= files) == (record is not bad)
    assert "not CUDA" in (folder / "variants" / bad.variant / "build.log").read_text()
    rows = list(csv.DictReader((folder / "records.csv").open()))
    assert [row["p.depth"] for row in rows] == ["1", "2", "4", "8"]
    assert {row["measured_tflops"] for row in rows} == {""}
    page = (folder / "index.html").read_text()
    assert "there is no GPU" in page
    assert "Does it?" in page


PLAIN = """source: touch.cu
problem: {n: 1000}
arguments: {y: "out int32[n]", n: int32}
parameters: {block: [64, 128]}
grid: ceil_div(n, block)
block: block
metrics: {keys/ns: 1e-9 * n * block / time, us per block: 1e6 * time / block}
"""


def test_a_rate_of_the_file_s_own_ranks_the_variants(tmp_path):
    """In every record as it is stored, and in the columns of the run."""
    (tmp_path / "touch.cu").write_text(
        'extern "C" __global__ void touch(int *y, int n)\n'
        "{ int i = blockIdx.x * block + threadIdx.x; if (i < n) y[i] = i; }\n"
    )
    file = tmp_path / "touch.yaml"
    file.write_text(PLAIN)
    services = all_played()
    outcome = run(file, RunOptions(output=tmp_path / "out"), Watcher(), services)
    columns = columns_for(outcome.run, outcome.records)
    rows = [cells_of(record, columns) for record in Store(tmp_path / "out").records()]
    for row in rows:
        assert row["measured_keys_ns"] == pytest.approx(1e-6 * row["p.block"] / (row["measured_ms"] / 1e3))
        assert row["metrics.us per block"] == pytest.approx(row["measured_ms"] * 1e3 / row["p.block"])
    best = max(rows, key=lambda row: as_(float, row["measured_keys_ns"]))
    assert [row["variant"] for row in rows if row["standing"] == "best"] == [best["variant"]]


def test_a_second_run_takes_every_build_from_the_cache(experiment, tmp_path, no_gpu):
    first = run(experiment, RunOptions(output=tmp_path / "a"), Watcher(), no_gpu)
    second = run(experiment, RunOptions(output=tmp_path / "b"), Watcher(), no_gpu)
    assert [r.variant for r in first.records] == [r.variant for r in second.records]
    assert all(r.build.cached for r in second.records if r.build)
    assert [r.build and r.build.sass_sha256 for r in first.records] == [
        r.build and r.build.sass_sha256 for r in second.records
    ]


def test_compilers_side_by_side(experiment, tmp_path, no_gpu):
    if find_nvrtc("11.8") is None:
        pytest.skip("NVRTC 11.8 is not installed: python -m pip install -e '.[compilers]'")
    experiment.write_text(EXPERIMENT.replace("[1, 2, 4, 8]", "[1, 4]") + "toolchains: [nvrtc==11.8, nvrtc]\n")
    outcome = run(experiment, RunOptions(output=tmp_path / "out", jobs=2), Watcher(), no_gpu)
    assert [r.build.version.startswith("11.8.") for r in outcome.records] == [True, False, True, False]
    assert [r.compiler for r in outcome.records] == [f"nvrtc {r.build.version}" for r in outcome.records]
    assert len({r.variant for r in outcome.records}) == 4
    for record in outcome.records:
        ptx = (tmp_path / "out" / "variants" / record.variant / "kernel.ptx").read_text()
        assert f"V{record.build.version}" in ptx
        assert record.sass.hot_loop.counts.fma == record.parameters["depth"]
    page = (tmp_path / "out" / "index.html").read_text()
    assert "All 2 compilers compile 2 of the 2 sources" in page


def test_an_architecture_that_nvdisasm_dropped_costs_the_sass_alone(experiment, tmp_path, no_gpu, monkeypatch):
    if find_nvrtc("12.9") is None:
        pytest.skip("NVRTC 12.9 is not installed: python -m pip install -e '.[compilers]'")
    monkeypatch.setattr("lab.toolchain.disassembly.nvdisasm._others", lambda: ())
    (tmp_path / "twice.cu").write_text(
        'extern "C" __global__ void twice(const float* a, float* b) { int i = threadIdx.x; b[i] = a[i] * 2 + a[0]; }'
    )
    experiment.write_text(
        "source: twice.cu\nproblem: {n: 64}\nemulate: {n: 32}\narguments: {a: 'float32[n]', b: 'out float32[n]'}\n"
        "grid: 1\nblock: n\nreference: {b: 'a * 2 + a[0]'}\narchs: [sm_70]\ntoolchains: [nvrtc==12.9]\n"
    )
    outcome = run(experiment, RunOptions(output=tmp_path / "out", jobs=1), Watcher(), no_gpu)
    (record,) = outcome.records
    assert record.status.sound
    assert record.emulation.verification.passed
    assert (record.prediction.gpu, record.sass) == ("V100 SXM2", None)
    assert record.ptx.counts.fma == 1
    assert [bound.name for bound in record.prediction.bounds] == ["DRAM"]
    assert scores([record])
    assert "sm_70" in record.build.lacking
    files = {p.name for p in (tmp_path / "out" / "variants" / record.variant).iterdir()}
    assert "kernel.ptx" in files
    assert "kernel.sass" not in files
    assert "sm_70" in (tmp_path / "out" / "index.html").read_text()


def test_a_rule_follows_the_architecture_that_is_built_for(experiment, tmp_path, no_gpu):
    rule = "constraints: [depth == (4 if block_shared_bytes > 200000 else 2)]"
    experiment.write_text(EXPERIMENT.replace("[1, 2, 4, 8]}", f"[1, 2, 4, 8]}}, {rule}"))
    for arch, depth in (("sm_90", 4), ("sm_80", 2)):
        planned_run = _read(experiment, RunOptions(output=tmp_path / arch, archs=(arch,)), no_gpu)
        assert [point.parameters["depth"] for point in planned_run.planned.points] == [depth]


@pytest.mark.parametrize(
    ("options", "target"),
    [
        ({"archs": ("sm_89",)}, "L40S"),
        ({"archs": ("sm_89",), "gpus": ("RTX 4060",)}, "RTX 4060"),
        ({"gpus": ("RTX 4060",)}, "RTX 4060"),
    ],
)
def test_a_named_gpu_is_predicted_for_and_an_unnamed_is_asked_for(experiment, tmp_path, no_gpu, options, target):
    experiment.write_text(EXPERIMENT.replace("[1, 2, 4, 8]", "[1]").replace("archs: [sm_90]", "archs: [auto]"))
    outcome = run(experiment, RunOptions(output=tmp_path / "out", jobs=1, emulate=False, **options), Watcher(), no_gpu)
    assert {(r.arch, r.prediction.gpu) for r in outcome.records} == {("sm_89", target)}
    asked = [note for note in outcome.run.notes if "predicted for L40S" in note]
    assert len(asked) == ("gpus" not in options)


def test_a_gpu_that_does_not_run_the_code_is_refused(experiment, tmp_path, no_gpu):
    with pytest.raises(UserError) as caught:
        run(experiment, RunOptions(output=tmp_path, archs=("sm_90",), gpus=("RTX 4090",)), Watcher(), no_gpu)
    assert (caught.value.key, caught.value.found) == ("archs", "sm_90")
    assert "sm_89" in caught.value.accepted


def test_an_edited_template_is_another_variant(experiment, tmp_path, no_gpu):
    first = run(experiment, RunOptions(output=tmp_path / "a"), Watcher(), no_gpu)
    template = experiment.parent / "mine.cu.j2"
    template.write_text(TEMPLATE.replace("sum * A[p]", "sum * sum"))
    second = run(experiment, RunOptions(output=tmp_path / "a"), Watcher(), no_gpu)
    assert not {r.variant for r in first.records} & {r.variant for r in second.records}
    assert len(second.records) == 4


def test_problems_are_swept_and_built_once(experiment, tmp_path, no_gpu, monkeypatch):
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))
    experiment.write_text(EXPERIMENT.replace("m: 64, n: 64", "m: [64, 96], n: 64").replace("[1, 2, 4, 8]", "[1, 2]"))
    outcome = run(experiment, RunOptions(output=tmp_path / "out", jobs=1), Watcher(), no_gpu)
    assert [(r.problem["m"], r.parameters["depth"]) for r in outcome.records] == [(64, 1), (64, 2), (96, 1), (96, 2)]
    built = [r.build.seconds for r in outcome.records]  # a problem that comes later has the build or its cached copy
    assert built[:2] == built[2:]
    assert len(list((tmp_path / "cache").glob("*.entry"))) == 2 + 2  # two builds, and what was read of their listings
    assert outcome.records[0].build.sass_sha256 == outcome.records[2].build.sass_sha256
    assert [r.launch.grid[0] for r in outcome.records] == [2, 2, 3, 3]
    assert (outcome.run.problem_axes, "m" in outcome.run.problem, outcome.run.problem["n"]) == (("m",), False, 64)
    rows = list(csv.DictReader((tmp_path / "out" / "records.csv").open()))
    assert [row["problem.m"] for row in rows] == ["64", "64", "96", "96"]
    assert "2 problems: m vary" in (tmp_path / "out" / "index.html").read_text()


SEARCH = """archs: [sm_90]
search: {sample: 2, seed: 1, prune: {below_prediction: 0}, refine: {top: 1, rounds: 3}}
"""


def test_a_search_refines_around_the_best(experiment, tmp_path, no_gpu):
    experiment.write_text(EXPERIMENT.replace("archs: [sm_90]\n", SEARCH).replace("[1, 2, 4, 8]", "[1, 2, 4]"))
    watcher = Watcher()
    outcome = run(experiment, RunOptions(output=tmp_path / "out", jobs=1), watcher, no_gpu)
    assert (outcome.run.search.drawn, outcome.run.search.rounds) == (2, (2, 1))
    assert sorted(r.parameters["depth"] for r in outcome.records) == [1, 2, 4]
    assert [r.round for r in outcome.records] == [0, 0, 1]
    assert (watcher.added, outcome.run.variants) == ([1], 3)
    assert "2 were drawn (seed 1) to find 2 valid variants" in (tmp_path / "out" / "index.html").read_text()


class PlayedSession:
    """Answers as a GPU would: `depth=2` is the fastest and `depth=4` wrong."""

    jobs: list = []
    restarts = 0
    workers = 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def start(self):
        return H200

    def restart(self):
        PlayedSession.restarts += 1
        return H200

    def run(self, job, policy):
        assert policy.baseline == "cublas"
        PlayedSession.jobs.append(job)
        source_depth = len(PlayedSession.jobs)
        verification = Verification(passed=True, max_error=0.0, tolerance=1e-6, worst="", executed_on=H200.name)
        ms = 1.0 + source_depth
        measurement = Measurement(
            Samples((ms, ms, ms)), Samples((1.0, 1.0)), "cublas", "cold", CardState(1980), CardState(1980)
        )
        if source_depth == 2:
            failure = Failure(JobStage.VERIFY, "C[0, 0]: got 1, expected 2")
            return JobResult(job.variant, verification=None, measurement=None, failure=failure)
        return JobResult(job.variant, verification, measurement, None, BaselineResult("cublas", "libcublas 13", "kern"))


@pytest.fixture
def played():
    PlayedSession.jobs, PlayedSession.restarts = [], 0
    return with_a_gpu(PlayedSession)


def test_with_a_gpu_the_winner_is_measured_again(experiment, tmp_path, played):
    outcome = run(experiment, RunOptions(output=tmp_path / "out", jobs=1), Watcher(), played)
    assert [r.status for r in outcome.records].count(Status.PARTIAL) == 2  # the CPU executed none of them
    wrong = next(r for r in outcome.records if r.status is Status.WRONG)
    assert wrong.reason == "C[0, 0]: got 1, expected 2"
    assert wrong.measurement is None
    best = max((r for r in outcome.records if r.tflops), key=lambda r: known(r.tflops))
    assert best.measurement.remeasured is not None
    assert len(PlayedSession.jobs) == 4
    assert PlayedSession.jobs[-1].variant == best.variant
    assert outcome.run.gpu == H200
    assert outcome.run.not_measured == ""
    assert outcome.run.baselines == {"": "cublas (libcublas 13, kern)"}
    job = PlayedSession.jobs[0]
    assert job.launches.steps[0].arguments == (("m", "int32"), ("A", "float32*"), ("C", "float32*"))
    assert (job.launches.steps[0].grid, job.launches.steps[0].block) == ((2, 1, 1), (32, 1, 1))


@pytest.fixture
def counters(played):
    """Services with a profiler that is played, and the variants that it was asked for."""
    profiled = []

    class Closing(PlayedSession):
        def close(self):
            profiled.append("closed")

    def profiles(orders, *, seconds):
        assert seconds == 300.0
        for order in orders:
            profiled.append(order.job.variant)
            assert order.cache == "cold"
            assert order.job.cubin
            made = Profile("Nsight Compute", order.cache, (LaunchCounters("k", dram_read_bytes=1.0),))
            yield Counted({order.job.variant: made}, ("one metric is not known",))

    return SimpleNamespace(asked=profiled, services=with_a_gpu(Closing, read_counters=profiles))


def test_counters_of_the_winner_are_read_when_the_experiment_says_so(experiment, tmp_path, counters):
    experiment.write_text(EXPERIMENT + "profile: {strays: 0}\n")
    watcher = Watcher()
    outcome = run(experiment, RunOptions(output=tmp_path / "out", jobs=1), watcher, counters.services)
    best = max((r for r in outcome.records if r.tflops), key=lambda r: known(r.tflops))
    assert counters.asked == ["closed", best.variant]
    assert [r.variant for r in outcome.records if r.profile] == [best.variant]
    assert best.measurement.remeasured is not None
    assert "one metric is not known" in outcome.run.notes
    assert watcher.added == ["counting 1", "counted 1"]


def test_counters_are_read_only_where_they_are_asked_for_and_once(experiment, tmp_path, counters):
    run(experiment, RunOptions(output=tmp_path / "out", jobs=1), Watcher(), counters.services)
    assert counters.asked == []
    first = run(
        experiment, RunOptions(output=tmp_path / "out", jobs=1, profile=True, resume=True), Watcher(), counters.services
    )
    measured = [r.variant for r in first.records if r.profile]
    assert counters.asked == ["closed", *measured]
    assert len(measured) == 2  # the winner, and the one that is furthest from its ceiling
    again = run(
        experiment, RunOptions(output=tmp_path / "out", jobs=1, profile=True, resume=True), Watcher(), counters.services
    )
    assert counters.asked == ["closed", *measured]
    assert again.records == first.records
    experiment.write_text(EXPERIMENT + "profile: {}\n")
    run(experiment, RunOptions(output=tmp_path / "other", jobs=1, profile=False), Watcher(), counters.services)
    assert counters.asked == ["closed", *measured]


SEQUENCE = """{#---
summary: s
operator: gemm
launches:
  - {entry: first, grid: [4], block: [64], bytes_moved: 600, arguments: {m: int32, scratch: T*}}
  - {entry: second, grid: [1], block: [96], shared_bytes: 512, bytes_moved: 400,
     arguments: {m: int32, scratch: T*, C: T*}}
workspace: {scratch: {type: T, elements: m}}
---#}
extern "C" __global__ void first(int m, {{ T }}* scratch)
{
    for (int i = threadIdx.x; i < m; i += 64) scratch[i] = i * 2.0f;
}
extern "C" __global__ void second(int m, {{ T }}* scratch, {{ T }}* C)
{
#pragma unroll 1
    for (int i = threadIdx.x; i < m; i += 96) C[i] = fmaf(scratch[i], scratch[i], 1.0f);
}
"""


def test_a_sequence_of_launches_is_described_launch_by_launch(experiment, tmp_path, played):
    (experiment.parent / "mine.cu.j2").write_text(SEQUENCE)
    experiment.write_text(EXPERIMENT.replace(", parameters: {depth: [1, 2, 4, 8]}", ""))
    (record,) = run(experiment, RunOptions(output=tmp_path / "out"), Watcher(), played).records
    first, second = record.steps
    assert (first.entry, second.entry) == ("first", "second")
    assert (record.launch, record.ptx, record.sass) == (None, None, None)
    assert second.launch.dynamic_shared_bytes == 512
    assert second.ptx.hot_loop.counts.fma == 1
    assert second.sass.counts.fma > 0
    assert first.sass.counts.fma == 0
    assert record.build.resources.registers == max(first.resources.registers, second.resources.registers)
    assert record.prediction.occupancy == min(first.prediction.occupancy, second.prediction.occupancy)
    dram = next(bound for bound in record.prediction.bounds if bound.name == "DRAM")
    assert dram.tflops == pytest.approx(record.flops / 1000 * 4.8)
    page = (tmp_path / "out" / "index.html").read_text()
    assert "first" in page
    (job, *_) = PlayedSession.jobs
    assert job.launches.entries == ("first", "second")
    assert [buffer.name for buffer in job.launches.workspace] == ["scratch"]


def test_a_sequence_with_a_main_launch_is_read_by_that_one(tmp_path, no_gpu):
    parameters = "{block_m: 64, block_n: 64, thread_m: 8, thread_n: 8, pack: [none, both]}"
    (tmp_path / "packed.yaml").write_text(
        f"question: Does it?\noperator: gemm\nproblem: {{m: 4096, n: 4096, k: 64}}\nemulate: {{m: 128, n: 128}}\n"
        f"kernels:\n  - {{template: gemm/sgemm.cu.j2, parameters: {parameters}}}\narchs: [sm_90]\n"
    )
    records = run(tmp_path / "packed.yaml", RunOptions(output=tmp_path / "out"), Watcher(), no_gpu).records
    alone, packed = sorted(records, key=lambda record: len(record.steps))
    assert [step.entry for step in packed.steps] == ["pack_a", "pack_b", "sgemm"]
    assert (packed.ptx.name, packed.sass.name, packed.launch.grid) == ("sgemm", "sgemm", (4096, 1, 1))
    assert packed.ptx.hot_loop.counts.fma == alone.ptx.hot_loop.counts.fma
    assert packed.verification is None  # that is the GPU's
    assert packed.emulation.verification.passed
    # each of A and B, 1 MB, is read and written once more, at 4.8 TB/s
    rooflines = [next(b for b in one.prediction.bounds if b.name == "roofline") for one in (alone, packed)]
    before, after = (alone.flops / bound.tflops / 1e12 for bound in rooflines)
    assert after - before == pytest.approx(8 * 2 * 4096 * 64 / 4.8e12)
    assert packed.estimate.tflops < packed.prediction.ceiling.tflops


def test_machine_code_for_another_gpu_is_not_run(experiment, tmp_path, played):
    outcome = run(experiment, RunOptions(output=tmp_path / "out", archs=("sm_80", "sm_90")), Watcher(), played)
    assert {r.arch for r in outcome.records if r.status.sound} == {"sm_90"}
    assert {r.arch for r in outcome.records if r.status is Status.INSPECTED} == {"sm_80"}
    assert any("sm_80 were not measured" in note for note in outcome.run.notes)


def test_ctrl_c_keeps_what_is_finished(experiment, tmp_path, no_gpu):
    class Impatient(Watcher):
        def recorded(self, record):
            super().recorded(record)
            raise KeyboardInterrupt

    outcome = run(experiment, RunOptions(output=tmp_path / "out", jobs=1), Impatient(), no_gpu)
    assert outcome.interrupted
    assert len(outcome.records) == 1
    assert "interrupted; 1 of 4" in " ".join(outcome.run.notes)
    with Store(tmp_path / "out") as store:
        assert store.records() == outcome.records
    assert (tmp_path / "out" / "index.html").is_file()


def test_an_architecture_outside_the_table_has_no_prediction(experiment, tmp_path, no_gpu):
    outcome = run(experiment, RunOptions(output=tmp_path / "out", archs=("sm_88",)), Watcher(), no_gpu)
    assert [r.status for r in outcome.records] == [Status.INSPECTED] * 3 + [Status.COMPILE_FAILED]
    assert not any(r.prediction for r in outcome.records)


def test_an_unknown_gpu_is_told_of_first(experiment, tmp_path, no_gpu):
    experiment.write_text(EXPERIMENT + "gpu: H2000\n")
    with pytest.raises(UserError, check=coded("unknown-name", key="gpu", found="H2000")):
        run(experiment, RunOptions(output=tmp_path / "out"), Watcher(), no_gpu)
    assert not (tmp_path / "out").exists()


def test_native_needs_a_gpu(experiment, tmp_path, no_gpu):
    with pytest.raises(UserError, check=coded("unsupported", key="archs")):
        run(experiment, RunOptions(output=tmp_path / "out", archs=("native",)), Watcher(), no_gpu)


def test_native_is_the_gpus(experiment, tmp_path, played):
    outcome = run(experiment, RunOptions(output=tmp_path / "out", archs=("native",)), Watcher(), played)
    assert {r.arch for r in outcome.records} == {"sm_90"}


def test_a_gpu_that_does_not_start_is_a_sentence(experiment, tmp_path):
    class Refusing(PlayedSession):
        def start(self):
            raise MissingToolError("PyCUDA is broken")

    outcome = run(experiment, RunOptions(output=tmp_path / "out"), Watcher(), with_a_gpu(Refusing))
    assert "PyCUDA is broken" in outcome.run.not_measured
    assert not any(r.measurement for r in outcome.records)


def test_each_problem_has_its_winner(experiment, tmp_path, played):
    experiment.write_text(EXPERIMENT.replace("m: 64, n: 64", "m: [64, 96], n: 64").replace("[1, 2, 4, 8]", "[1, 2]"))
    outcome = run(experiment, RunOptions(output=tmp_path / "out", jobs=1), Watcher(), played)
    again = [r for r in outcome.records if r.measurement and r.measurement.remeasured]
    assert sorted(r.problem["m"] for r in again) == [64, 96]
    assert sorted(job.problem["m"] for job in PlayedSession.jobs[:4]) == [64, 64, 96, 96]
    assert [job.problem["m"] for job in PlayedSession.jobs[4:]] == [r.problem["m"] for r in again]
    assert PlayedSession.restarts == 1
    assert outcome.run.baselines == dict.fromkeys(["m=64", "m=96"], "cublas (libcublas 13, kern)")
    page = (tmp_path / "out" / "index.html").read_text()
    assert "The best variants of 2 problems reach" in page
    assert "m=96: mine depth=" in page


def test_what_cannot_win_is_pruned(experiment, tmp_path):
    class Instant(PlayedSession):
        """Its times are far beyond every ceiling, so that the first one measured overtakes all others."""

        def run(self, job, policy):
            PlayedSession.jobs.append(job)
            passed = Verification(passed=True, max_error=0.0, tolerance=1e-6, worst="", executed_on=H200.name)
            card = CardState(1980)
            return JobResult(job.variant, passed, Measurement(Samples((1e-9,)), None, None, "cold", card, card))

    experiment.write_text(EXPERIMENT.replace("archs: [sm_90]\n", SEARCH).replace("[1, 2, 4, 8]", "[1, 2, 4]"))
    outcome = run(experiment, RunOptions(output=tmp_path / "out", jobs=1), Watcher(), with_a_gpu(Instant))
    pruned = [r for r in outcome.records if r.status is Status.PRUNED]
    assert len(outcome.records) == 3
    assert pruned
    assert all(r.reason.startswith("measurement: a ceiling of") for r in pruned)
    assert not any(r.status.failed for r in pruned)
    assert f"{len(pruned)} pruned ({len(pruned)} by measurement)" in (tmp_path / "out" / "index.html").read_text()


def test_a_baseline_that_moves_with_a_new_worker_is_remarked_on(experiment, tmp_path):
    class Replaced(PlayedSession):
        workers = 1

        def run(self, job, policy):
            result = super().run(job, policy)
            if len(self.jobs) == 2 or result.measurement is None:
                self.workers = 2
                return result
            slower = Samples((1.0 if self.workers == 1 else 1.1,) * 2)
            return replace(result, measurement=replace(result.measurement, baseline=slower))

    PlayedSession.jobs = []
    outcome = run(
        experiment, RunOptions(output=tmp_path / "out", jobs=1, emulate=False), Watcher(), with_a_gpu(Replaced)
    )
    (note,) = outcome.run.notes
    assert note.startswith("In GPU worker 2 the baseline takes +10.0% more time than in worker 1")


def test_provenance_names_what_decides(experiment, tmp_path, no_gpu):
    watcher = Watcher()
    outcome = run(experiment, RunOptions(output=tmp_path / "out"), watcher, no_gpu)
    record = outcome.records[0]
    facts = json.loads((tmp_path / "out" / "variants" / record.variant / "provenance.json").read_text())
    assert facts["parameters"] == {"depth": 1}
    assert facts["toolchain"] == record.build.toolchain
    assert facts["sass_sha256"] == record.build.sass_sha256
    assert "sm_90" in facts["command"]
    assert sum(isinstance(o, Built) for o in watcher.outcomes) == 3


RACY = """{#---
summary: s
operator: gemm
entry: k
parameters: {barrier: {type: bool, default: true, help: h}}
grid: [1]
block: [64]
arguments: {m: int32, alpha: T, A: T*, B: T*, C: T*}
---#}
extern "C" __global__ void k(int m, {{ T }} alpha, const {{ T }}* A, const {{ T }}* B, {{ T }}* C)
{
    __shared__ {{ T }} cell[64];  // C = alpha A B for n = k = 1, each product taken by way of another thread
    const int i = threadIdx.x, other = 63 - i;
    cell[i] = i < m ? alpha * A[i] * B[0] : 0;
{% if barrier %}
    __syncthreads();
{% endif %}
    if (other < m) C[other] = cell[other];
}
"""
EMULATED = """question: Does it?
operator: gemm
problem: {m: 64, n: 1, k: 1, alpha: 2.0}
emulate: {m: 50}
kernels:
  - {template: racy.cu.j2, parameters: {barrier: [true, false]}}
archs: [sm_90]
"""


@pytest.fixture
def emulated(tmp_path):
    (tmp_path / "racy.cu.j2").write_text(RACY)
    file = tmp_path / "emulated.yaml"
    file.write_text(EMULATED)
    return file


def test_without_a_gpu_variants_are_executed_and_judged(emulated, tmp_path, no_gpu):
    outcome = run(emulated, RunOptions(output=tmp_path / "out", jobs=1), Watcher(), no_gpu)
    good, racy = outcome.records
    assert (good.status, good.reason) == (Status.VERIFIED, "")
    assert good.emulation.verification.executed_on == "emulator"
    assert good.emulation.problem["m"] == 50
    assert good.emulation.executed.memory["shared.load"].requests == 2
    assert racy.status is Status.WRONG
    assert racy.reason.startswith("emulator: shared-race at ")
    assert racy.emulation.findings[0].line > 0
    with Store(tmp_path / "out") as store:
        assert store.records() == outcome.records
    rows = list(csv.DictReader((tmp_path / "out" / "records.csv").open()))
    assert rows[0]["findings"] == "0"
    assert int(rows[1]["findings"]) >= 1
    assert rows[0]["conflicts_per_shared_load"] == "0.0"
    assert "executing their PTX on the CPU" in (tmp_path / "out" / "index.html").read_text()


@pytest.mark.parametrize("services", ["no_gpu", "played"])
def test_a_suspect_variant_has_one_word_with_and_without_a_gpu_and_is_never_best(
    emulated, tmp_path, monkeypatch, request, services
):
    text = EMULATED.replace("m: 64", "m: [64, 60]").replace("[true, false]", "[true]")
    emulated.write_text(f"{text}baselines: [cublas]\n")
    executed, suspicion = flow.emulation_outcome, Suspicion(Condition.ORDER, "C[3] depends on which block comes first")

    def outcome_of(variant, task, done):
        record, pace = executed(variant, task, done)
        suspect = variant.planned.point.problem.values["m"] == 64
        return replace(record, suspicions=(suspicion,) if suspect else ()), pace

    monkeypatch.setattr(flow, "emulation_outcome", outcome_of)
    options = RunOptions(output=tmp_path / "out", jobs=1)
    outcome = run(emulated, options, Watcher(), request.getfixturevalue(services))
    suspect, sound = outcome.records
    assert (suspect.status, suspect.reason) == (Status.SUSPECT, suspicion.summary)
    assert suspect.measurement is None
    assert sound.status is Status.VERIFIED
    assert outcome.failed
    assert ranked(outcome.records, response_of(outcome.records)) == (sound,)
    rows = list(csv.DictReader((tmp_path / "out" / "records.csv").open()))
    assert [row["status"] for row in rows] == [Status.SUSPECT, Status.VERIFIED]
    assert [row["reason"] for row in rows] == [suspicion.summary, ""]
    assert [row["suspicions"] for row in rows] == ["1", "0"]


@pytest.mark.parametrize("status", Status)
def test_a_run_failed_where_a_variant_did(make, status):
    store = make("sweep")
    first, *others = store.records()
    records = (replace(first, status=status, reason="why"), *others)
    outcome = RunOutcome(store.folder, store.run(), lambda: records, (), interrupted=False)
    passing = {Status.VERIFIED, Status.PARTIAL, Status.INSPECTED, Status.PRUNED}
    assert outcome.failed is (status not in passing)
    assert main._print_run(outcome) == (0 if status in passing else 1)


def test_the_problem_itself_is_executed_where_that_is_asked_for(emulated, tmp_path, no_gpu):
    emulated.write_text(EMULATED.replace("[true, false]", "[true]"))
    outcome = run(emulated, RunOptions(output=tmp_path / "out", jobs=1, whole=True), Watcher(), no_gpu)
    (record,) = outcome.records
    assert record.emulation.problem["m"] == 64
    assert record.emulation.verification.passed


def test_equal_code_on_equal_emulated_problems_is_executed_at_each_ones_own_size(emulated, tmp_path):
    emulated.write_text(EMULATED.replace("m: 64", "m: [62, 60]").replace("[true, false]", "[true]"))
    executor = InProcess()
    services = without_a_gpu(executor=lambda jobs: executor)
    outcome = run(emulated, RunOptions(output=tmp_path / "out", jobs=1), Watcher(), services)
    assert [r.status for r in outcome.records] == [Status.VERIFIED] * 2
    one, other = (record.emulation for record in outcome.records)
    assert one is not None
    assert other is not None
    assert replace(one, full_size=None) == replace(other, full_size=None)
    assert [record.full_size and record.full_size.problem["m"] for record in (one, other)] == [62, 60]
    assert [function for function, _, _ in executor.submitted].count(execution) == 2


def test_a_stated_number_of_variants_is_executed(emulated, tmp_path, no_gpu):
    emulated.write_text(EMULATED.replace("m: 64", "m: [64, 60, 56, 48]") + "emulate_at_most: 2\n")
    outcome = run(emulated, RunOptions(output=tmp_path / "out", jobs=1), Watcher(), no_gpu)
    assert [bool(r.emulation) for r in outcome.records] == [True, False, False, False] * 2
    assert "At most 2 variants at a time were executed on the CPU, as the experiment asks." in outcome.run.notes


def test_no_emulate_leaves_it_alone(emulated, tmp_path, no_gpu):
    outcome = run(emulated, RunOptions(output=tmp_path / "out", emulate=False), Watcher(), no_gpu)
    assert [r.status for r in outcome.records] == [Status.INSPECTED] * 2
    assert not any(r.emulation for r in outcome.records)


def test_a_variant_with_findings_is_not_measured(emulated, tmp_path, played):
    emulated.write_text(EMULATED + "baselines: [cublas]\n")
    outcome = run(emulated, RunOptions(output=tmp_path / "out", jobs=1), Watcher(), played)
    assert [job.variant for job in PlayedSession.jobs] == [
        outcome.records[0].variant
    ] * 2  # once, and again as the winner


def test_what_the_emulator_cannot_do_is_said(emulated, tmp_path, no_gpu):
    template = emulated.parent / "racy.cu.j2"
    unknown = 'asm volatile("{.reg .u32 t; mbarrier.pending_count.b64 t, %0;}" :: "l"(cell)); cell[i] ='
    template.write_text(RACY.replace("cell[i] =", unknown))
    outcome = run(emulated, RunOptions(output=tmp_path / "out", jobs=1), Watcher(), no_gpu)
    for record in outcome.records:
        assert record.status is Status.INSPECTED
        assert "mbarrier.pending_count" in record.emulation.unsupported
        assert record.emulation.executed is None
