"""Paddings that are proposed, executed and written."""

from __future__ import annotations

import pytest
from run_support import InProcess, build_once, no_report, without_a_gpu

from lab.advice.paddings import SourceEdit
from lab.base.errors import UserError
from lab.cli.fix import ProposedFix, TriedVariant, lines_of, propose
from lab.recorded.run_records import Status

SOURCE = """__global__ void transpose(float* out, const float* in, int n)
{
    __shared__ float tile[32][PITCH];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32;
    for (int j = threadIdx.y; j < 32; j += 8) tile[j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32;
    for (int j = threadIdx.y; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][j];
}
"""
EXPERIMENT = """question: Does the tile conflict?
source: transpose.cu
problem: {n: 1024}
emulate: {n: 64}
arguments: {out: "out float32[n, n]", in: "float32[n, n]", n: int32}
parameters: {PITCH: [32, 33]}
grid: [n // 32, n // 32]
block: [32, 8]
reference: {out: "transpose(in)"}
archs: [sm_90]
"""


@pytest.fixture
def experiment(tmp_path):
    (tmp_path / "transpose.cu").write_text(SOURCE)
    file = tmp_path / "transpose.yaml"
    file.write_text(EXPERIMENT)
    return file


@pytest.fixture
def services():
    return without_a_gpu(prepare=lambda: None, executor=InProcess, build=build_once, render=no_report)


def only(experiment, pitch):
    experiment.write_text(EXPERIMENT.replace("[32, 33]", str(pitch)))
    return experiment


def test_padding_that_removes_the_conflicts_is_proposed_and_written_on_demand(experiment, services):
    before, found = propose(only(experiment, 32), services=services)
    assert before.status is Status.VERIFIED
    assert (before.conflicts, before.wavefronts) == (3968, 4224)
    assert found is not None
    assert (found.edit.array, found.edit.elements) == ("tile", 1)
    assert (found.after.status, found.after.conflicts) == (Status.VERIFIED, 0)
    assert "+    __shared__ float tile[32][PITCH + 1];" in found.diff
    source = experiment.parent / "transpose.cu"
    assert source.read_text() == SOURCE
    found.write()
    assert source.read_text() == found.edit.text


def test_nothing_is_proposed_where_nothing_conflicts(experiment, services):
    before, found = propose(only(experiment, 33), services=services)
    assert (before.conflicts, found) == (0, None)
    assert lines_of(before, found) == ("no bank conflicts to remove (verified)",)


def test_one_variant_must_be_chosen(experiment):
    with pytest.raises(UserError) as caught:
        propose(experiment)
    assert caught.value.key == "--variant"
    assert "PITCH=33" in str(caught.value.accepted)
    with pytest.raises(UserError) as caught:
        propose(experiment, "zzz")
    assert caught.value.found == "zzz"


def test_experiments_on_templates_are_refused(tmp_path):
    file = tmp_path / "gemm.yaml"
    file.write_text("question: Why?\noperator: gemm\n")
    with pytest.raises(UserError) as caught:
        propose(file)
    assert caught.value.key == "source"


def test_conflicts_that_no_padding_removes_are_counted():
    before = TriedVariant(Status.VERIFIED, 31, 32, None)
    assert lines_of(before, None)[0] == "31 of 32 wavefronts are bank conflicts"


@pytest.mark.parametrize(("now", "then", "slower"), [(1.0, 1.0, False), (1.1, 1.0, True), (None, 1.0, False)])
def test_times_are_compared_where_both_are_predicted(now, then, slower):
    tried = [TriedVariant(Status.VERIFIED, 0, 1, seconds) for seconds in (now, then)]
    assert tried[0].slower_than(tried[1]) is slower


def test_lines_name_the_figures_with_their_kinds(tmp_path):
    before, after = TriedVariant(Status.VERIFIED, 31, 32, 2e-3), TriedVariant(Status.VERIFIED, 0, 1, 1e-3)
    found = ProposedFix(tmp_path / "k.cu", SourceEdit("tile", 1, ""), before, after, ("-a", "+b"))
    assert lines_of(before, found) == (
        "pad tile by 1 element per row",
        "bank conflicts: 31 of 32 -> 0 of 1 wavefronts (emulated)",
        "time: 2 -> 1 ms, 2.00 x faster (predicted)",
        "verdict: verified -> verified",
        "-a",
        "+b",
    )
