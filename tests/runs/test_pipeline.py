"""The pipeline on a small experiment: without a GPU, and with one that is played."""

from __future__ import annotations

import csv
import json
from concurrent.futures import ALL_COMPLETED, Future, wait
from dataclasses import replace

import pytest

from lab.base.errors import MissingToolError, UserError
from lab.gpu.counters.profile import Counted
from lab.gpu.process.job import BaselineResult, Failure, JobResult, Stage
from lab.measured.counters import LaunchCounters, Profile
from lab.measured.timing import CardState, GpuDescription, Measurement, Samples, Verification
from lab.runs import counters as profiling
from lab.runs import pipeline
from lab.runs import sweep as sweeping
from lab.runs.pipeline import Options, run
from lab.runs.search import Pruner
from lab.runs.sweep import Sweep
from lab.stages import records
from lab.stages.build import BuildFailure, Built
from lab.store.database import Store
from lab.store.model import Status
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
H200 = GpuDescription("NVIDIA H200", "sm_90", 132, 1980, 150 * 10**9, 60 * 2**20, "580.159", "13.0")


class Watcher:
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
def no_gpu(monkeypatch):
    monkeypatch.setattr(pipeline.describe, "probe", lambda: "Nothing was measured: there is no GPU.")


def test_without_a_gpu_everything_but_times(experiment, tmp_path, no_gpu):
    watcher = Watcher()
    outcome = run(experiment, Options(output=tmp_path / "out", jobs=2), watcher)
    assert [r.status for r in outcome.records] == [Status.INSPECTED] * 3 + [Status.COMPILE_FAILED]
    assert outcome.failed
    assert sorted(type(o) for o in watcher.outcomes if isinstance(o, BuildFailure)) == [BuildFailure]
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


def test_a_second_run_takes_every_build_from_the_cache(experiment, tmp_path, no_gpu):
    first = run(experiment, Options(output=tmp_path / "a"), Watcher())
    second = run(experiment, Options(output=tmp_path / "b"), Watcher())
    assert [r.variant for r in first.records] == [r.variant for r in second.records]
    assert all(r.build.cached for r in second.records if r.build)
    assert [r.build and r.build.sass_sha256 for r in first.records] == [
        r.build and r.build.sass_sha256 for r in second.records
    ]


def test_compilers_side_by_side(experiment, tmp_path, no_gpu):
    if find_nvrtc("11.8") is None:
        pytest.skip("NVRTC 11.8 is not installed: python -m pip install -e '.[compilers]'")
    experiment.write_text(EXPERIMENT.replace("[1, 2, 4, 8]", "[1, 4]") + "toolchains: [nvrtc==11.8, nvrtc]\n")
    outcome = run(experiment, Options(output=tmp_path / "out", jobs=2), Watcher())
    assert [r.build.version.startswith("11.8.") for r in outcome.records] == [True, False, True, False]
    assert [r.compiler for r in outcome.records] == [f"nvrtc {r.build.version}" for r in outcome.records]
    assert len({r.variant for r in outcome.records}) == 4
    for record in outcome.records:
        ptx = (tmp_path / "out" / "variants" / record.variant / "kernel.ptx").read_text()
        assert f"V{record.build.version}" in ptx
        assert record.sass.hot_loop.counts.fma == record.parameters["depth"]
    page = (tmp_path / "out" / "index.html").read_text()
    assert "All 2 compilers compile 2 of the 2 sources" in page


def test_an_edited_template_is_another_variant(experiment, tmp_path, no_gpu):
    first = run(experiment, Options(output=tmp_path / "a"), Watcher())
    template = experiment.parent / "mine.cu.j2"
    template.write_text(TEMPLATE.replace("sum * A[p]", "sum * sum"))
    second = run(experiment, Options(output=tmp_path / "a"), Watcher())
    assert not {r.variant for r in first.records} & {r.variant for r in second.records}
    assert len(second.records) == 4


def test_problems_are_swept_and_built_once(experiment, tmp_path, no_gpu, monkeypatch):
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))
    experiment.write_text(EXPERIMENT.replace("m: 64, n: 64", "m: [64, 96], n: 64").replace("[1, 2, 4, 8]", "[1, 2]"))
    outcome = run(experiment, Options(output=tmp_path / "out", jobs=1), Watcher())
    assert [(r.problem["m"], r.parameters["depth"]) for r in outcome.records] == [(64, 1), (64, 2), (96, 1), (96, 2)]
    built = [r.build.seconds for r in outcome.records]  # a problem that comes later has the build or its cached copy
    assert built[:2] == built[2:]
    assert len(list((tmp_path / "cache").glob("*.entry"))) == 2
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
    outcome = run(experiment, Options(output=tmp_path / "out", jobs=1), watcher)
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
            failure = Failure(Stage.VERIFY, "C[0, 0]: got 1, expected 2")
            return JobResult(job.variant, verification=None, measurement=None, failure=failure)
        return JobResult(job.variant, verification, measurement, None, BaselineResult("cublas", "libcublas 13", "kern"))


@pytest.fixture
def played(monkeypatch):
    monkeypatch.setattr(pipeline.describe, "probe", lambda: H200)
    monkeypatch.setattr(pipeline, "GpuSession", PlayedSession)
    PlayedSession.jobs, PlayedSession.restarts = [], 0
    return PlayedSession


def test_with_a_gpu_the_winner_is_measured_again(experiment, tmp_path, played):
    outcome = run(experiment, Options(output=tmp_path / "out", jobs=1), Watcher())
    assert [r.status for r in outcome.records].count(Status.VERIFIED) == 2
    wrong = next(r for r in outcome.records if r.status is Status.VERIFICATION_FAILED)
    assert wrong.reason == "C[0, 0]: got 1, expected 2"
    assert wrong.measurement is None
    best = max((r for r in outcome.records if r.tflops), key=lambda r: r.tflops)
    assert best.measurement.remeasured is not None
    assert len(played.jobs) == 4
    assert played.jobs[-1].variant == best.variant
    assert outcome.run.gpu == H200
    assert outcome.run.not_measured == ""
    assert outcome.run.baseline == "cublas (libcublas 13, kern)"
    job = played.jobs[0]
    assert job.launches.steps[0].arguments == (("m", "int32"), ("A", "float32*"), ("C", "float32*"))
    assert (job.launches.steps[0].grid, job.launches.steps[0].block) == ((2, 1, 1), (32, 1, 1))


@pytest.fixture
def counters(played, monkeypatch):
    """A profiler that is played; the variants that it was asked for."""
    asked = []

    def profiles(orders, *, seconds):
        assert seconds == 300.0
        for order in orders:
            asked.append(order.job.variant)
            assert order.cache == "cold"
            assert order.job.cubin
            made = Profile("Nsight Compute", order.cache, (LaunchCounters("k", dram_read_bytes=1.0),))
            yield Counted({order.job.variant: made}, ("one metric is not known",))

    monkeypatch.setattr(profiling, "profiles", profiles)
    monkeypatch.setattr(played, "close", lambda self: asked.append("closed"), raising=False)
    return asked


def test_counters_of_the_winner_are_read_when_the_experiment_says_so(experiment, tmp_path, counters):
    experiment.write_text(EXPERIMENT + "profile: {strays: 0}\n")
    watcher = Watcher()
    outcome = run(experiment, Options(output=tmp_path / "out", jobs=1), watcher)
    best = max((r for r in outcome.records if r.tflops), key=lambda r: r.tflops)
    assert counters == ["closed", best.variant]
    assert [r.variant for r in outcome.records if r.profile] == [best.variant]
    assert best.measurement.remeasured is not None
    assert "one metric is not known" in outcome.run.notes
    assert watcher.added == ["counting 1", "counted 1"]


def test_counters_are_read_only_where_they_are_asked_for_and_once(experiment, tmp_path, counters):
    run(experiment, Options(output=tmp_path / "out", jobs=1), Watcher())
    assert counters == []
    first = run(experiment, Options(output=tmp_path / "out", jobs=1, profile=True, resume=True), Watcher())
    measured = [r.variant for r in first.records if r.profile]
    assert counters == ["closed", *measured]
    assert len(measured) == 2  # the winner, and the one that is furthest from its ceiling
    again = run(experiment, Options(output=tmp_path / "out", jobs=1, profile=True, resume=True), Watcher())
    assert counters == ["closed", *measured]
    assert again.records == first.records
    experiment.write_text(EXPERIMENT + "profile: {}\n")
    run(experiment, Options(output=tmp_path / "other", jobs=1, profile=False), Watcher())
    assert counters == ["closed", *measured]


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
    (record,) = run(experiment, Options(output=tmp_path / "out"), Watcher()).records
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
    (job, *_) = played.jobs
    assert job.launches.entries == ("first", "second")
    assert [buffer.name for buffer in job.launches.workspace] == ["scratch"]


def test_a_sequence_with_a_main_launch_is_read_by_that_one(tmp_path, no_gpu):
    parameters = "{block_m: 64, block_n: 64, thread_m: 8, thread_n: 8, pack: [none, both]}"
    (tmp_path / "packed.yaml").write_text(
        f"question: Does it?\noperator: gemm\nproblem: {{m: 4096, n: 4096, k: 64}}\nemulate: {{m: 128, n: 128}}\n"
        f"kernels:\n  - {{template: gemm/sgemm.cu.j2, parameters: {parameters}}}\narchs: [sm_90]\n"
    )
    found = run(tmp_path / "packed.yaml", Options(output=tmp_path / "out"), Watcher()).records
    alone, packed = sorted(found, key=lambda record: len(record.steps))
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


def test_baselines_that_are_not_there_are_told_of_and_ptx_is_kept():
    card = CardState()
    timed = Measurement(
        Samples((1.0,)), Samples((2.0,)), "copy", "cold", card, card, others={"triton": Samples((1.5,))}
    )
    result = JobResult(
        "v",
        measurement=timed,
        baseline=BaselineResult("copy", "16-byte copy"),
        others=(
            BaselineResult("torch", note="torch cannot be imported here"),
            BaselineResult("triton", "triton 3", ptx=".version 8.0\n.target sm_90\n.visible .entry k() { ret; }"),
        ),
    )
    assert records.left_out(result) == ("The baseline torch was left out: torch cannot be imported here.",)
    files = records.baseline_files(result)
    assert set(files) == {"triton.ptx", "triton.json"}
    assert json.loads(files["triton.json"])["kernels"][0]["name"] == "k"
    assert records.left_out(JobResult("v")) == ()


def test_machine_code_for_another_gpu_is_not_run(experiment, tmp_path, played):
    outcome = run(experiment, Options(output=tmp_path / "out", archs=("sm_80", "sm_90")), Watcher())
    assert {r.arch for r in outcome.records if r.status is Status.VERIFIED} == {"sm_90"}
    assert {r.arch for r in outcome.records if r.status is Status.INSPECTED} == {"sm_80"}
    assert any("sm_80 were not measured" in note for note in outcome.run.notes)


def test_ctrl_c_keeps_what_is_finished(experiment, tmp_path, no_gpu):
    class Impatient(Watcher):
        def recorded(self, record):
            super().recorded(record)
            raise KeyboardInterrupt

    outcome = run(experiment, Options(output=tmp_path / "out", jobs=1), Impatient())
    assert outcome.interrupted
    assert len(outcome.records) == 1
    assert "interrupted; 1 of 4" in " ".join(outcome.run.notes)
    with Store(tmp_path / "out") as store:
        assert store.records() == outcome.records
    assert (tmp_path / "out" / "index.html").is_file()


def test_an_architecture_without_a_product_in_the_table_has_no_prediction(experiment, tmp_path, no_gpu):
    outcome = run(experiment, Options(output=tmp_path / "out", archs=("sm_121",)), Watcher())
    assert [r.status for r in outcome.records] == [Status.INSPECTED] * 3 + [Status.COMPILE_FAILED]
    assert not any(r.prediction for r in outcome.records)


def test_an_unknown_gpu_is_told_of_first(experiment, tmp_path, no_gpu):
    experiment.write_text(EXPERIMENT + "gpu: H2000\n")
    with pytest.raises(UserError, match="H200"):
        run(experiment, Options(output=tmp_path / "out"), Watcher())
    assert not (tmp_path / "out").exists()


def test_native_needs_a_gpu(experiment, tmp_path, no_gpu):
    with pytest.raises(UserError, match="--arch sm_90"):
        run(experiment, Options(output=tmp_path / "out", archs=("native",)), Watcher())


def test_native_is_the_gpus(experiment, tmp_path, played):
    outcome = run(experiment, Options(output=tmp_path / "out", archs=("native",)), Watcher())
    assert {r.arch for r in outcome.records} == {"sm_90"}


def test_a_gpu_that_does_not_start_is_a_sentence(experiment, tmp_path, monkeypatch, played):
    def refuse(_):
        raise MissingToolError("PyCUDA is broken")

    monkeypatch.setattr(PlayedSession, "start", refuse)
    outcome = run(experiment, Options(output=tmp_path / "out"), Watcher())
    assert "PyCUDA is broken" in outcome.run.not_measured
    assert not any(r.measurement for r in outcome.records)


def test_each_problem_has_its_winner(experiment, tmp_path, played):
    experiment.write_text(EXPERIMENT.replace("m: 64, n: 64", "m: [64, 96], n: 64").replace("[1, 2, 4, 8]", "[1, 2]"))
    outcome = run(experiment, Options(output=tmp_path / "out", jobs=1), Watcher())
    again = [r for r in outcome.records if r.measurement and r.measurement.remeasured]
    assert sorted(r.problem["m"] for r in again) == [64, 96]
    assert sorted(job.problem["m"] for job in played.jobs[:4]) == [64, 64, 96, 96]
    assert [job.problem["m"] for job in played.jobs[4:]] == [r.problem["m"] for r in again]
    assert played.restarts == 1
    assert outcome.run.baseline == "cublas (libcublas 13, kern)"
    page = (tmp_path / "out" / "index.html").read_text()
    assert "The best variants of 2 problems reach" in page
    assert "m=96: mine depth=" in page


def test_what_cannot_win_is_pruned(experiment, tmp_path, played, monkeypatch):
    experiment.write_text(EXPERIMENT.replace("archs: [sm_90]\n", SEARCH).replace("[1, 2, 4, 8]", "[1, 2, 4]"))
    monkeypatch.setattr(Pruner, "overtaken", lambda self, record: "measurement: too slow" if self.measured else "")
    outcome = run(experiment, Options(output=tmp_path / "out", jobs=1), Watcher())
    pruned = [r for r in outcome.records if r.status is Status.PRUNED]
    assert len(outcome.records) == 3
    assert pruned
    assert {r.reason for r in pruned} == {"measurement: too slow"}
    assert not any(r.status.failed for r in pruned)
    assert f"{len(pruned)} pruned ({len(pruned)} by measurement)" in (tmp_path / "out" / "index.html").read_text()


def wait_that_overlooks(futures, return_when):
    """What `concurrent.futures.wait` may do: of the jobs that ended meanwhile it names the last, not the first."""
    done, others = wait(futures, return_when=ALL_COMPLETED)
    jobs = [future for future in futures if type(future) is Future]  # builds have futures of another class
    return type(wait([]))(done.difference(jobs[:-1]), others.union(jobs[:-1]))


@pytest.mark.parametrize("waiting", [wait, wait_that_overlooks])
def test_a_baseline_that_moves_with_a_new_worker_is_remarked_on(experiment, tmp_path, played, monkeypatch, waiting):
    answer = PlayedSession.run
    monkeypatch.setattr(sweeping, "wait", waiting)

    def run_slower(self, job, policy):
        result = answer(self, job, policy)
        if len(self.jobs) == 2 or result.measurement is None:
            type(self).workers = 2
            return result
        slower = Samples((1.0 if self.workers == 1 else 1.1,) * 2)
        return replace(result, measurement=replace(result.measurement, baseline=slower))

    monkeypatch.setattr(PlayedSession, "run", run_slower)
    monkeypatch.setattr(PlayedSession, "workers", 1)
    outcome = run(experiment, Options(output=tmp_path / "out", jobs=1), Watcher())
    (note,) = outcome.run.notes
    assert note.startswith("In GPU worker 2 the baseline takes +10.0% more time than in worker 1")


@pytest.mark.parametrize(
    ("built", "gpu", "runs"),
    [
        ("sm_90", "sm_90", True),
        ("sm_80", "sm_86", True),
        ("sm_86", "sm_80", False),
        ("sm_80", "sm_90", False),
        ("sm_90a", "sm_90", True),
        ("sm_100", "sm_103", True),
        ("sm_100a", "sm_103", False),
        ("sm_120", "sm_100", False),
    ],
)
def test_which_machine_code_runs_where(built, gpu, runs):
    assert records.runs_on(built, gpu) is runs


def test_provenance_names_what_decides(experiment, tmp_path, no_gpu):
    outcome = run(experiment, Options(output=tmp_path / "out"), Watcher())
    record = outcome.records[0]
    facts = json.loads((tmp_path / "out" / "variants" / record.variant / "provenance.json").read_text())
    assert facts["parameters"] == {"depth": 1}
    assert facts["toolchain"] == record.build.toolchain
    assert facts["sass_sha256"] == record.build.sass_sha256
    assert "sm_90" in facts["command"]
    assert Built is not BuildFailure


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
    outcome = run(emulated, Options(output=tmp_path / "out", jobs=1), Watcher())
    good, racy = outcome.records
    assert (good.status, good.reason) == (Status.VERIFIED, "")
    assert good.emulation.verification.executed_on == "emulator"
    assert good.emulation.problem["m"] == 50
    assert good.emulation.executed.memory["shared.load"].requests == 2
    assert racy.status is Status.VERIFICATION_FAILED
    assert racy.reason.startswith("emulator: shared-race at PTX line")
    assert racy.emulation.findings[0].line > 0
    with Store(tmp_path / "out") as store:
        assert store.records() == outcome.records
    rows = list(csv.DictReader((tmp_path / "out" / "records.csv").open()))
    assert rows[0]["findings"] == "0"
    assert int(rows[1]["findings"]) >= 1
    assert rows[0]["conflicts_per_shared_load"] == "0.0"
    assert "executing their PTX on the CPU" in (tmp_path / "out" / "index.html").read_text()


def test_equal_code_on_equal_emulated_problems_is_executed_once(emulated, tmp_path, no_gpu, monkeypatch):
    emulated.write_text(EMULATED.replace("m: 64", "m: [64, 60]").replace("[true, false]", "[true]"))
    scheduled = []
    execute = Sweep._execute

    def watch(self, item, task):
        before = len(self._emulating)
        execute(self, item, task)
        scheduled.append(len(self._emulating) > before)

    monkeypatch.setattr(Sweep, "_execute", watch)
    outcome = run(emulated, Options(output=tmp_path / "out", jobs=1), Watcher())
    assert [r.status for r in outcome.records] == [Status.VERIFIED] * 2
    assert outcome.records[0].emulation == outcome.records[1].emulation
    assert sorted(scheduled) == [False, True]


def test_a_stated_number_of_variants_is_executed(emulated, tmp_path, no_gpu):
    emulated.write_text(EMULATED.replace("m: 64", "m: [64, 60, 56, 48]") + "emulate_at_most: 2\n")
    outcome = run(emulated, Options(output=tmp_path / "out", jobs=1), Watcher())
    assert [bool(r.emulation) for r in outcome.records] == [True, False, False, False] * 2
    assert "At most 2 variants at a time were executed on the CPU, as the experiment asks." in outcome.run.notes


def test_no_emulate_leaves_it_alone(emulated, tmp_path, no_gpu):
    outcome = run(emulated, Options(output=tmp_path / "out", emulate=False), Watcher())
    assert [r.status for r in outcome.records] == [Status.INSPECTED] * 2
    assert not any(r.emulation for r in outcome.records)


def test_a_variant_with_findings_is_not_measured(emulated, tmp_path, played):
    emulated.write_text(EMULATED + "baselines: [cublas]\n")
    outcome = run(emulated, Options(output=tmp_path / "out", jobs=1), Watcher())
    assert [job.variant for job in played.jobs] == [outcome.records[0].variant] * 2  # once, and again as the winner


def test_what_the_emulator_cannot_do_is_said(emulated, tmp_path, no_gpu):
    template = emulated.parent / "racy.cu.j2"
    unknown = 'asm volatile("cp.async.bulk.prefetch.L2.global [%0], 16;" :: "l"(cell)); cell[i] ='
    template.write_text(RACY.replace("cell[i] =", unknown))
    outcome = run(emulated, Options(output=tmp_path / "out", jobs=1), Watcher())
    for record in outcome.records:
        assert record.status is Status.INSPECTED
        assert "cp.async.bulk.prefetch" in record.emulation.unsupported
        assert record.emulation.executed is None
