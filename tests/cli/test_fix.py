"""Changes of a source that are proposed, executed and written."""

from __future__ import annotations

from dataclasses import replace

import pytest
from run_support import InProcess, build_once, no_report, without_a_gpu

from lab.advice.edits import SourceEdit
from lab.advice.finding import Advice, CodePlace, PerformanceFinding, Rule
from lab.base.errors import UserError
from lab.cli import fix as fixing
from lab.cli.fix import FixOutcome, ProposedFix, TriedVariant, lines_of, propose
from lab.isa.model import SourceLocation
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
    outcome = propose(only(experiment, 32), services=services)
    before, fix = outcome.before, outcome.fix
    assert before.status is Status.VERIFIED
    assert (before.conflicts, before.wavefronts) == (3968, 4224)
    assert fix is not None
    assert fix.edit.title == "pad tile by 1 element per row"
    assert (fix.finding.rule, fix.after.status, fix.after.conflicts) == (Rule.BANK_CONFLICT, Status.VERIFIED, 0)
    assert "+    __shared__ float tile[32][PITCH + 1];" in fix.diff
    source = experiment.parent / "transpose.cu"
    assert source.read_text() == SOURCE
    fix.write()
    assert source.read_text() == fix.edit.text


def test_nothing_is_proposed_where_nothing_conflicts(experiment, services):
    outcome = propose(only(experiment, 33), rule=Rule.BANK_CONFLICT, services=services)
    assert (outcome.before.conflicts, outcome.without_change, outcome.fix) == (0, (), None)
    clean = replace(outcome.before, advice=Advice(()))
    assert lines_of(FixOutcome(clean))[0].startswith("nothing to remove (verified)")


LOADS = """__global__ void sum4(float* out, const float* in, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) out[i] = in[4 * i] + in[4 * i + 1] + in[4 * i + 2] + in[4 * i + 3 - WRONG * (i == 3)];
}
"""


def test_without_a_reference_a_change_must_leave_the_outputs_as_they_are(tmp_path, services, monkeypatch):
    (tmp_path / "k.cu").write_text(LOADS.replace("WRONG", "0"))
    file = tmp_path / "k.yaml"
    file.write_text(
        "question: Why?\nsource: k.cu\nproblem: {n: 100000}\nemulate: {n: 1024}\nblock: 256\n"
        'arguments: {out: "out float32[n]", in: "float32[n, 4]", n: int32}\ngrid: ceil_div(n, 256)\narchs: [sm_90]\n'
    )
    outcome = propose(file, services=services)
    assert outcome.fix is not None
    assert "in = static_cast<const float*>(__builtin_assume_aligned(in, 16));" in outcome.fix.edit.text
    assert outcome.fix.after.sectors < outcome.before.sectors
    assert outcome.fix.after.status is outcome.before.status is Status.PARTIAL

    def wrong(context, finding):
        yield SourceEdit("break it", outcome.fix.edit.text.replace("in[4 * i + 3", "out[i] = in[4 * i + 3"))
        yield SourceEdit("break it too", outcome.fix.edit.text.replace("[4 * i + 1]", "[4 * i]"))

    monkeypatch.setattr(fixing, "edits", wrong)
    outcome = propose(file, services=services)
    assert outcome.fix is None
    assert outcome.without_change[0][1] == 2
    assert "2 changes tried, none removes it" in " ".join(lines_of(outcome))


def test_lines_of_each_branch_count_from_one():
    source = fixing._branches(["a\nb", "c\n"], "k.cu")
    assert source == ('#if LAB_CHANGE == 0\n#line 1 "k.cu"\na\nb\n#elif LAB_CHANGE == 1\n#line 1 "k.cu"\nc\n#endif\n')


def test_a_rule_is_chosen_by_its_name():
    assert fixing.rule_of("") is None
    assert fixing.rule_of("bank conflict") is Rule.BANK_CONFLICT
    with pytest.raises(UserError) as caught:
        fixing.rule_of("banks")
    assert (caught.value.key, caught.value.found) == ("--finding", "banks")


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


@pytest.mark.parametrize(("now", "then", "slower"), [(1.0, 1.0, False), (1.1, 1.0, True), (None, 1.0, False)])
def test_times_are_compared_where_both_are_predicted(now, then, slower):
    tried = [TriedVariant(Status.VERIFIED, 0, 1, seconds) for seconds in (now, then)]
    assert tried[0].slower_than(tried[1]) is slower


def finding(rule: Rule, line: int, waste: float = 0.5) -> PerformanceFinding:
    return PerformanceFinding(rule, CodePlace(SourceLocation("k.cu", line)), "cause", "remedy", waste, 1.5)


def test_lines_name_the_figures_with_their_kinds(tmp_path):
    bank, tail = finding(Rule.BANK_CONFLICT, 4), finding(Rule.TAIL_WAVE, 0)
    before = TriedVariant(Status.VERIFIED, 31, 32, 2e-3, "H200", 20, 8, 400, Advice((tail, bank)))
    after = TriedVariant(Status.VERIFIED, 0, 1, 1e-3, "H200", 24, 0, 100, Advice((tail,)))
    fix = ProposedFix(tmp_path / "k.cu", bank, SourceEdit("pad tile", ""), after, ("-a", "+b"))
    other = ProposedFix(tmp_path / "k.cu", finding(Rule.LATENCY, 9), SourceEdit("unroll", ""), after, ())
    assert lines_of(FixOutcome(before, ((tail, 0),), fix, (other,))) == (
        tail.lines[0],
        "   not a mechanical change; remedy: remedy",
        bank.lines[0],
        "   change: pad tile",
        "   bank conflicts: 31 of 32 -> 0 of 1 wavefronts (emulated)",
        "   sectors of global memory: 400 -> 100 (emulated)",
        "   registers: 20 -> 24 per thread",
        "   spills: 8 -> 0 bytes per thread",
        "   time: 2.0 ms -> 1.0 ms, 2.00 x as fast (predicted for H200)",
        "   bank conflict: gone; verdict: verified -> verified",
        f"also, with --finding 'latency-bound loop': unroll: {'; '.join(fixing._figures(before, other))}",
    )


def test_the_smallest_change_that_leaves_little_is_taken_and_slower_ones_are_not():
    before = TriedVariant(Status.VERIFIED, 100, 200, 1.0)
    edits = [SourceEdit(str(number), "") for number in range(4)]
    afters = [
        TriedVariant(Status.WRONG, 0, 100, 0.5),
        TriedVariant(Status.VERIFIED, 0, 100, 1.5),
        TriedVariant(Status.VERIFIED, 9, 109, 0.9),
        TriedVariant(Status.VERIFIED, 0, 100, 0.8),
    ]
    best = fixing._best(before, Rule.BANK_CONFLICT, list(zip(edits, afters, strict=True)))
    assert best == (edits[2], afters[2])


def test_a_padding_is_for_the_line_whose_conflicts_it_removes():
    first, second = finding(Rule.BANK_CONFLICT, 4), finding(Rule.BANK_CONFLICT, 9)
    after = TriedVariant(Status.VERIFIED, advice=Advice((first,)))
    assert fixing._removed(first, [first, second], after) is second
    assert fixing._removed(first, [first], after) is first
