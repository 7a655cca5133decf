"""One variant through the emulator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.emulator.results import LineCount, MemoryCount
from lab.operators.builtin import operator
from lab.stages import emulate as stage
from lab.stages.emulate import EmulationTask, ReferenceLaunch, alike, emulate, not_executed, unsupported
from lab.templates.launches import Launch, Launches, Workspace

PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u32 m, .param .u64 A, .param .u64 C)
{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    .reg .f32 %f<3>;
    .reg .b64 %rd<5>;
    ld.param.u32 %r1, [m];
    ld.param.u64 %rd1, [A];
    ld.param.u64 %rd2, [C];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra $done;
    mul.wide.u32 %rd3, %r2, 4;
    add.u64 %rd4, %rd1, %rd3;
    ld.global.f32 %f1, [%rd4];
    add.u64 %rd4, %rd2, %rd3;
    st.global.f32 [%rd4], %f1;
$done:
    ret;
}
"""
original = stage._executed
ARGUMENTS = (("m", "int32"), ("A", "float32*"), ("C", "float32*"))


@pytest.fixture
def task():
    """C = A B for n = k = 1 and B = 1 would be a copy; here it is wrong unless B happens to be 1."""
    problem = operator("gemm").problem({"m": 8, "n": 1, "k": 1})
    launches = Launches((Launch("k", (1, 1, 1), (32, 1, 1), 0, ARGUMENTS),))
    return EmulationTask(launches, "gemm", problem, 0, {})


def test_a_wrong_result_is_a_verification_that_failed_with_its_counts(task):
    record = emulate(task, PTX)
    assert not record.verification.passed
    assert record.fault.startswith("emulator: ")
    assert record.executed.memory["global.load"].requests == 1
    assert record.executed.memory["global.store"].requests == 1
    assert record.unsupported == ""
    assert record.bytes_needed > 0
    assert record.launches[0].executed == record.executed


def test_a_fault_ends_the_sequence(task):
    (step,) = task.launches.steps
    beyond = replace(task, launches=Launches((replace(step, grid=(1, 1, 1)), step)))
    overrun = PTX.replace("setp.ge.u32 %p1, %r2, %r1;", "setp.ge.u32 %p1, %r2, 32;")
    record = emulate(beyond, overrun)
    assert record.findings
    assert record.launches[1].executed is None


@pytest.mark.parametrize(
    ("ptx", "why"),
    [("not PTX", ""), (PTX.replace("mov.u32", "movfast.u32"), "movfast"), (PTX.replace("entry k", "entry q"), "k")],
)
def test_what_cannot_be_executed_is_a_record_that_says_why(task, ptx, why):
    record = emulate(task, ptx)
    assert record.unsupported
    assert why in record.unsupported
    assert record.verification is None
    assert record.executed is None


def test_an_argument_that_the_operator_does_not_have_is_named(task):
    (step,) = task.launches.steps
    other = replace(step, arguments=(("m", "int32"), ("X", "float32*"), ("C", "float32*")))
    record = emulate(replace(task, launches=Launches((other,))), PTX)
    assert "the operator has no argument of this name" in record.unsupported
    assert "'X'" in record.unsupported


def test_a_workspace_that_no_launch_wrote_is_a_finding(task):
    (step,) = task.launches.steps
    reading = replace(step, arguments=(("m", "int32"), ("scratch", "float32*"), ("C", "float32*")))
    workspace = (Workspace("scratch", "float32", 64, zero=False),)
    record = emulate(replace(task, launches=Launches((reading,), workspace)), PTX)
    assert record.findings
    zeroed = (Workspace("scratch", "float32", 64, zero=True),)
    assert not emulate(replace(task, launches=Launches((reading,), zeroed)), PTX).findings


def test_a_reference_is_executed_once_for_all_variants_that_are_compared_with_it(task, monkeypatch):
    executed = []
    monkeypatch.setattr(stage, "_executed", lambda ptx, *rest: executed.append(ptx) or original(ptx, *rest))
    reference = ReferenceLaunch(PTX, task.launches, task.problem)
    for seed in (11, 11, 12):
        assert emulate(replace(task, seed=seed, reference=reference), PTX + "\n").verification.passed
    assert [ptx == PTX for ptx in executed] == [False, True, False, False, True]  # another seed, other inputs


def test_lines_with_the_same_counts_stand_together():
    traffic = {"global.load": MemoryCount(1, 0, 4, 128, 0)}
    lines = [
        LineCount(1, "a", "fma", 2, 64, {}),
        LineCount(2, "b", "ld.global", 2, 64, traffic),
        LineCount(3, "c", "fma", 2, 64, {}),
        LineCount(4, "d", "fma", 2, 60, {}),
    ]
    assert [(one.lines, one.cls, one.threads) for one in alike(lines)] == [
        ((1, 3), "fma", 64),
        ((2,), "ld.global", 64),
        ((4,), "fma", 60),
    ]


def test_a_record_without_a_result_keeps_its_launches(task):
    record = not_executed(task, "too long")
    assert (record.failure, record.entry, record.verification) == ("too long", "k", None)
    assert record.fault == "not executed: too long"


def test_an_instruction_that_the_emulator_lacks_is_no_fault(task):
    record = unsupported(task, "wgmma")
    assert (record.unsupported, record.fault) == ("wgmma", "")
