"""One variant through the emulator."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.emulator.results import AccessPattern, Emulation, ExecutedCounts, LineCount, LoopCounts, MemoryCount
from lab.isa.model import InstructionClass
from lab.operators.builtin import operator
from lab.operators.declared.declaration import declare
from lab.recorded.run_records import Condition
from lab.stages import emulate as stage
from lab.stages.emulate import (
    EmulationTask,
    HalvedSize,
    ReferenceLaunch,
    Sample,
    alike,
    constant_passes,
    costly,
    emulate,
    hottest,
    not_executed,
    unsupported,
)
from lab.stages.sequence import run_sequence
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


def test_the_whole_problem_is_executed_as_machine_code_and_the_record_says_where_not(task):
    small, whole = emulate(task, PTX), emulate(replace(task, whole=True), PTX)
    assert whole.executed == small.executed
    assert whole.lines == small.lines
    assert whole.verification == small.verification
    assert (small.notes, whole.notes) == ((), ())
    slow = emulate(
        replace(task, whole=True), PTX.replace("mov.u32 %r2, %tid.x;", "mov.u32 %r2, %tid.x; mov.u32 %r0, %clock;")
    )
    assert slow.executed is not None
    assert "the interpreter executed k: PTX line 13: mov.u32 %r0, %clock: operand %clock" in slow.notes[0]


def test_a_fault_ends_the_sequence(task):
    (step,) = task.launches.steps
    beyond = replace(task, launches=Launches((replace(step, grid=(1, 1, 1)), step)))
    overrun = PTX.replace("setp.ge.u32 %p1, %r2, %r1;", "setp.ge.u32 %p1, %r2, 32;")
    record = emulate(beyond, overrun)
    assert record.findings
    assert " of A (" in record.fault  # as the experiment calls it, not by its place or by PTX's name of it
    assert record.launches[1].executed is None


@pytest.mark.parametrize(
    ("ptx", "why"),
    [("not PTX", ""), (PTX.replace("mov.u32", "movfast.u32"), "movfast"), (PTX.replace("entry k", "entry q"), "k")],
)
def test_what_cannot_be_executed_is_a_record_that_says_why(task, ptx, why):
    record = emulate(task, ptx)
    assert why in (record.unsupported or record.failure)
    assert bool(record.unsupported) is (why == "movfast")  # what the emulator lacks is no fault of the kernel's
    assert bool(record.failure) is not bool(record.unsupported)
    assert record.verification is None
    assert record.executed is None


def test_an_argument_that_the_operator_does_not_have_is_named(task):
    (step,) = task.launches.steps
    other = replace(step, arguments=(("m", "int32"), ("X", "float32*"), ("C", "float32*")))
    record = emulate(replace(task, launches=Launches((other,))), PTX)
    assert "the operator has no argument of this name" in record.failure
    assert "'X'" in record.failure


def test_a_workspace_that_no_launch_wrote_is_a_finding(task):
    (step,) = task.launches.steps
    reading = replace(step, arguments=(("m", "int32"), ("scratch", "float32*"), ("C", "float32*")))
    workspace = (Workspace("scratch", "float32", 64, zero=False),)
    record = emulate(replace(task, launches=Launches((reading,), workspace)), PTX)
    assert record.findings
    zeroed = (Workspace("scratch", "float32", 64, zero=True),)
    assert not emulate(replace(task, launches=Launches((reading,), zeroed)), PTX).findings


def test_a_reference_is_executed_once_for_all_variants_that_are_compared_with_it(task, monkeypatch):
    executed, original = [], run_sequence

    def counted(ptx, *rest, **options):
        executed.append(ptx)
        return original(ptx, *rest, **options)

    monkeypatch.setattr(stage, "run_sequence", counted)
    outputs = []
    for seed in (11, 11, 12):  # another seed, other inputs
        key = stage._Hashed(ReferenceLaunch(PTX, task.launches, task.problem))  # equal ones, as they come unpickled
        outputs.append(stage._outputs("gemm", PTX, seed, key, real_size=False, excused=frozenset())["C"])
    assert executed == [PTX, PTX]
    assert outputs[0] is outputs[1]
    assert outputs[0].tolist() != outputs[2].tolist()


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


def loop(label: str, depth: int, warps: int) -> LoopCounts:
    return LoopCounts(label, depth, ExecutedCounts(warps, 32 * warps, {}, {}, {}, {}, {}))


@pytest.mark.parametrize(
    ("loops", "static", "expected"),
    [
        pytest.param((loop("A", 1, 100), loop("B", 1, 199)), "A", "A", id="not twice as much"),
        pytest.param((loop("A", 1, 100), loop("B", 1, 200)), "A", "B", id="twice as much"),
        pytest.param((loop("A", 1, 1000), loop("B", 2, 900)), "B", "B", id="what it contains is not its own"),
        pytest.param((loop("A", 1, 1000), loop("B", 2, 90), loop("C", 2, 20)), "B", "A", id="outside of loops within"),
        pytest.param((loop("A", 1, 500), loop("B", 2, 10), loop("C", 3, 9), loop("D", 1, 20)), "D", "A", id="nested"),
        pytest.param((loop("A", 1, 5), loop("B", 1, 0)), "B", "A", id="the hot loop of the text never ran"),
        pytest.param((loop("A", 1, 0),), "A", "A", id="nothing ran"),
        pytest.param((), "", "", id="no loops"),
    ],
)
def test_the_loop_that_executes_clearly_more_is_hot(loops, static, expected):
    assert hottest(loops, static) == expected


def test_a_small_problem_has_few_steps_along_k():
    def multiplying(label: str, depth: int, warps: int, matrices: int) -> LoopCounts:
        by_class: dict[str, int] = {InstructionClass.MMA: matrices}
        return LoopCounts(label, depth, ExecutedCounts(warps, 32 * warps, by_class, {}, {}, {}, {}))

    along_k, epilogue = multiplying("k", 1, 100, 16), loop("epilogue", 1, 900)
    assert hottest((along_k, epilogue), "k") == "k"
    assert hottest((along_k, epilogue), "k", real_size=True) == "epilogue"
    assert hottest((along_k, epilogue, multiplying("other", 1, 300, 16)), "k") == "other"
    tiles = multiplying("tiles", 1, 900, 16)  # all its matrix instructions are those of the loop in it
    assert hottest((tiles, multiplying("k", 2, 100, 16)), "k") == "k"


def test_a_matrix_instruction_counts_as_often_as_it_takes_cycles():
    wgmma = {"wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16": 10}  # 128 cycles each

    def counted(label: str, depth: int, warps: int) -> LoopCounts:
        return LoopCounts(label, depth, ExecutedCounts(warps, 32 * warps, {}, {}, wgmma, {}, {}))

    inner = counted("B", 2, 100)  # 100 + 10 x 127 cycles; the loop around it executes 100 less than it contains
    assert hottest((counted("A", 1, 2839), inner), "B") == "B"
    assert hottest((counted("A", 1, 2840), inner), "B") == "A"


@pytest.fixture
def compared():
    """A copy whose file gives no reference; the first variant stands in for it."""
    arguments = {"m": "int32", "A": "float32[m]", "C": "out float32[m]"}
    declaration, mistakes = declare("k", arguments=arguments, folder=Path(), problem=["m"], parameters=[])
    assert mistakes == ()
    launches = Launches((Launch("k", (1, 1, 1), (32, 1, 1), 0, ARGUMENTS),))
    first = ReferenceLaunch(PTX, launches, {"m": 8})
    return EmulationTask(launches, declaration.reference, {"m": 8}, 0, {}, first)


def test_outputs_of_the_first_variant_stand_in_for_a_reference(compared):
    assert emulate(compared, PTX).verification.passed
    same = PTX.replace("st.global.f32 [%rd4], %f1", "mov.f32 %f2, %f1;\n    st.global.f32 [%rd4], %f2")
    assert emulate(compared, same).verification.passed
    other = PTX.replace("st.global.f32", "add.f32 %f1, %f1, %f1;\n    st.global.f32")
    assert not emulate(compared, other).verification.passed


def test_a_faulty_first_variant_is_no_reference(compared):
    overrun = PTX.replace("setp.ge.u32 %p1, %r2, %r1;", "setp.ge.u32 %p1, %r2, 32;")
    faulty = replace(compared, reference=replace(compared.reference, ptx=overrun))
    record = emulate(faulty, PTX)
    assert not record.fault
    assert any("first variant cannot stand in" in one for one in record.not_shown)
    assert "out-of-bounds" in emulate(compared, overrun).fault


def test_a_launch_of_too_few_threads_is_asked_about_its_grid(tmp_path):
    arguments = {"m": "int32", "A": "float32[m]", "C": "out float32[m]"}
    found, mistakes = declare(
        "k", arguments=arguments, reference={"C": "A"}, folder=tmp_path, problem=["m"], parameters=[]
    )
    assert not mistakes
    launches = Launches((Launch("k", (1, 1, 1), (32, 1, 1), 0, ARGUMENTS),))
    task = EmulationTask(launches, found.reference, {"m": 40}, 0, {})
    assert "the launch has 32 threads for 40 elements: does the grid cover them?" in emulate(task, PTX).fault
    assert "does the grid" not in (emulate(replace(task, problem={"m": 30}), PTX).fault or "")


def test_a_reference_of_the_wrong_shape_is_no_failure_of_a_variant(tmp_path):
    arguments = {"m": "int32", "A": "float32[m]", "C": "out float32[m]"}
    found, _ = declare(
        "k", arguments=arguments, reference={"C": "concatenate([A, A])"}, folder=tmp_path, problem=["m"], parameters=[]
    )
    launches = Launches((Launch("k", (1, 1, 1), (32, 1, 1), 0, ARGUMENTS),))
    with pytest.raises(UserError, check=coded("mismatch", key="reference.C")):
        emulate(EmulationTask(launches, found.reference, {"m": 8}, 0, {}), PTX)


def test_half_a_size_shows_how_instructions_grow(compared, monkeypatch):
    """One thread adds up, for each of m elements, all m: twice m is four times the instructions of the inner loop."""
    body = """    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra $done;
    mov.u32 %r3, 0;
$rows:
    mov.u32 %r4, 0;
$row:
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p1, %r4, %r1;
    @%p1 bra $row;
    mul.wide.u32 %rd3, %r3, 4;
    add.u64 %rd4, %rd2, %rd3;
    st.global.f32 [%rd4], 0f00000000;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, %r1;
    @%p1 bra $rows;
$done:
"""
    start, end = PTX.index("    setp.ge"), PTX.index("    ret;")
    ptx = (PTX[:start] + body + PTX[end:]).replace("%r<3>", "%r<5>")
    task = replace(compared, reference=replace(compared.reference, ptx=ptx, problem={"m": 32}), problem={"m": 32})
    half = HalvedSize("m", 2.0, task.launches, {"m": 16})
    missing = HalvedSize("gone", 2.0, replace(task.launches, steps=(replace(task.launches.steps[0], entry="no"),)), {})
    # in loops: 7 a row and 3 an element, less the branches that are not taken: one a row, and the last
    power = math.log2((32 * (3 * 32 + 7 - 1) - 1) / (16 * (3 * 16 + 7 - 1) - 1))
    emulation = emulate(replace(task, halved=(half,)), ptx)
    assert emulation.growth == emulation.growth_of_block == {"m": pytest.approx(power)}
    (step,) = task.launches.steps
    grid = replace(task, launches=replace(task.launches, steps=(replace(step, grid=(2, 1, 1)),)), halved=(half,))
    first = "mov.u32 %r2, %ctaid.x;\n    mov.u32 %r3, %tid.x;\n    or.b32 %r2, %r2, %r3;"
    two = emulate(grid, ptx.replace("mov.u32 %r2, %tid.x;", first))  # the second block leaves at once
    assert two.growth == {"m": pytest.approx(power)}
    assert two.growth_of_block == {"m": pytest.approx(power - 1)}
    assert emulate(replace(task, halved=(missing,)), ptx).growth == {}
    doubled = HalvedSize("m", 0.5, task.launches, {"m": 64})
    unborne = replace(missing, name="m")  # a kernel need not bear the half of a size
    twice = math.log2((64 * (3 * 64 + 7 - 1) - 1) / (32 * (3 * 32 + 7 - 1) - 1))
    assert emulate(replace(task, halved=(unborne, doubled)), ptx).growth == {"m": pytest.approx(twice)}
    assert emulate(replace(task, halved=(half, doubled)), ptx).growth == emulation.growth
    assert emulate(task, ptx).growth == {}
    both, quarter = HalvedSize("", 0.5, task.launches, {"m": 64}), HalvedSize("m", 4.0, task.launches, {"m": 8})
    more = emulate(replace(task, halved=(half, doubled, quarter, both)), ptx)
    assert [one.sizes["m"] for one in more.resized] == [16, 64]  # three sizes tell what each loop does
    assert (more.resized[0].blocks, more.resized[0].loops["$rows"]) == (1, more.resized[0].looped)
    (counted,) = more.launches
    assert counted.loops["$row"] == counted.hot_loop.threads
    monkeypatch.setattr(stage, "_ENLARGED", 0)  # a further size that takes long is left out
    assert [one.sizes["m"] for one in emulate(replace(task, halved=(half, doubled)), ptx).resized] == [16]


def sampled(compared, **changes):
    """A task with samples of 2 and 16 times its problem, whose launches have as many blocks."""
    (step,) = compared.launches.steps
    samples = [
        Sample(ratio, replace(compared.launches, steps=(replace(step, grid=(ratio * step.grid[0], 1, 1)),)), problem)
        for ratio, problem in ((2, {**compared.problem, "m": 2}), (16, {**compared.problem, "m": 16}))
    ]
    return replace(compared, samples=tuple(samples), **changes)


def test_the_largest_sample_that_takes_a_moment_is_executed_for_its_counts(compared, monkeypatch):
    once = emulate(compared, PTX)
    emulation = emulate(sampled(compared), PTX)
    assert replace(emulation, sample=None) == once
    assert emulation.counted is emulation.sample
    assert once.counted is once
    assert emulation.sample.problem["m"] == 16
    assert emulation.sample.launches[0].launch.grid[0] == 16 * once.launches[0].launch.grid[0]
    assert emulation.sample.launches[0].executed.warps > once.executed.warps
    monkeypatch.setattr("lab.stages.emulate._MOMENT", 4 * once.executed.warps)
    assert emulate(sampled(compared), PTX).sample.problem["m"] == 2
    monkeypatch.setattr("lab.stages.emulate._MOMENT", 16 * once.executed.warps)
    assert emulate(sampled(compared), PTX).sample.problem["m"] == 16
    monkeypatch.setattr("lab.stages.emulate._MOMENT", once.executed.warps)
    assert emulate(sampled(compared), PTX).sample is None
    monkeypatch.setattr("lab.stages.emulate._MOMENT", 1 << 20)
    monkeypatch.setattr("lab.stages.emulate._MOST_BYTES", 7)
    assert emulate(sampled(compared), PTX).sample is None


def test_a_fault_of_the_sample_is_told_and_its_counts_are_not_taken(compared):
    """The first thread of a second block stores before the beginning of its buffer."""
    beyond = """    mov.u32 %r1, %ctaid.x;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra $fine;
    st.global.f32 [%rd2+-4096], 0f00000000;
$fine:
    ret;"""
    faulty = PTX.replace("    ret;", beyond)
    emulation = emulate(sampled(compared, reference=replace(compared.reference, ptx=faulty)), faulty)
    assert not emulation.fault
    assert emulation.sample is None
    (suspicion,) = emulation.suspicions
    assert suspicion.condition is Condition.LARGER
    assert (suspicion.finding.kind, suspicion.detail) == ("out-of-bounds", "with m = 2")


def test_a_kernel_need_not_bear_its_sample(compared):
    task = sampled(compared)
    (step,) = task.launches.steps
    missing = replace(task.samples[0], launches=replace(task.launches, steps=(replace(step, entry="no"),)))
    assert emulate(replace(task, samples=(missing,)), PTX) == emulate(compared, PTX)


def test_samples_end_where_the_work_grows_too_fast(compared, monkeypatch):
    """The work is the square of the size: 4 times from the first sample on, which is taken for twice."""
    (step,) = compared.launches.steps
    samples = tuple(
        Sample(ratio, replace(compared.launches, steps=(replace(step, grid=(ratio**2, 1, 1)),)), compared.problem)
        for ratio in (2, 4)
    )
    once = emulate(compared, PTX).executed.warps
    monkeypatch.setattr("lab.stages.emulate._MOMENT", 15 * once)  # 4 are executed, 16 are foreseen
    emulation = emulate(replace(compared, samples=samples), PTX)
    assert emulation.sample.launches[0].launch.grid == (4, 1, 1)


def test_patterns_that_waste_most_come_first():
    made = [AccessPattern(line, "shared.load", 4, (), 2, cost, 2) for line, cost in enumerate((2, 4, 64))]
    assert [one.line for one in costly(made)] == [2, 1]
    assert len(costly(made * 100)) == 64


def test_copies_of_an_unrolled_access_leave_room_for_other_accesses():
    unrolled = [
        AccessPattern(line, "shared.load", 4, tuple(4 * line + 32 * lane for lane in range(32)), 1, 4, 1)
        for line in range(100)
    ]
    store = AccessPattern(200, "shared.store", 4, tuple(512 * lane for lane in range(32)), 1, 2, 1)
    kept = costly([*unrolled, store])
    assert len(kept) == 64
    assert store in kept


def test_passes_of_constant_memory_are_those_beyond_one_per_request():
    lines = (
        LineCount(7, "ld.const.f32", "ld.const", 100, 3200, {}),
        LineCount(9, "ld.global", "ld.global", 5, 160, {}),
    )
    patterns = (
        AccessPattern(7, "const.load", 4, (), 24, 24 * 31, 24),
        AccessPattern(9, "global.load", 4, (), 5, 160, 20),
    )
    emulation = Emulation("k", None, (), lines, (), 0, patterns=patterns)
    assert constant_passes(emulation) == 100 * 30
