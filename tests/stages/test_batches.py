"""Several builds to a worker: how many, and what one of them that hangs or dies costs the others."""

from __future__ import annotations

from typing import cast

import pytest
from run_support import InProcess, Later

from lab.base.errors import MissingToolError
from lab.base.executor import WorkerLostError
from lab.isa.sass.lines import LineTable
from lab.runs.task_schedule import run_lanes
from lab.stages.batches import BATCH_TIMEOUT_S, BUILD_TIMEOUT_S, BatchSizes, BuildQueue, build_each
from lab.stages.build import BuildFailure, BuildTask, Built
from lab.toolchain.base import Build, CompileRequest, Disassembly, Toolchain

DISASSEMBLY = Disassembly("", LineTable(), "")


def made(seconds, *, cached=False):
    return Built(Build("", b"", {}, "", "", "nvrtc", "13", "sm_90", seconds), DISASSEMBLY, cached, {}, {}, "", {})


class Compiler:
    name, version = "played", "1"


def task(source):
    return BuildTask(cast("Toolchain", Compiler()), CompileRequest(source, "kernel.cu", "sm_90"), ("k",))


FATES = {
    "hang": TimeoutError(),
    "die": WorkerLostError("Abnormal termination", killed=False),
    "memory": MemoryError(),
    "package": ModuleNotFoundError("No module named 'x'", name="x"),
    "mistake": KeyError("of ours"),
}


def play(tasks):
    """A compiler: each source says what becomes of it."""
    for task in tasks:
        if task.request.source in FATES:
            raise FATES[task.request.source]
    return [BuildFailure("refused") if task.request.source == "refused" else made(0.01) for task in tasks]


@pytest.mark.parametrize(
    ("fate", "reason"),
    [
        ("hang", "the build took longer than 300 s"),
        ("die", "the build process died: Abnormal termination"),
        ("memory", "the build exceeded its memory limit"),
        ("package", "the build failed on this machine: a Python package is missing or damaged: No module named 'x'"),
        ("mistake", "lab itself failed on this variant: KeyError: 'of ours'"),
    ],
)
def test_a_batch_that_fails_is_built_one_by_one_and_costs_one_variant(fate, reason):
    executor = InProcess()
    tasks = [task(source) for source in ("first", "fine", fate, "refused", "last")]
    outcomes = dict(build_each(executor, tasks, function=play))
    assert sorted(outcomes) == [0, 1, 2, 3, 4]
    assert outcomes[2].reason.startswith(reason)
    assert (", in play" in outcomes[2].log) == (fate == "mistake")  # where it failed
    assert outcomes[3] == BuildFailure("refused")
    assert outcomes[0] == outcomes[1] == outcomes[4] == made(0.01)
    batches = [([one.request.source for one in args[0]], timeout_s) for _, args, timeout_s in executor.submitted]
    assert batches[:2] == [(["first"], BUILD_TIMEOUT_S), (["fine", fate, "refused", "last"], BATCH_TIMEOUT_S)]
    assert ([fate], BUILD_TIMEOUT_S) in batches


def test_a_build_whose_worker_was_killed_is_made_once_more():
    executor, outcomes = Later(), list[Built | BuildFailure]()
    queue = BuildQueue(executor)
    queue.add(task("fine"), outcomes.append)
    queue.feed()
    for attempt in range(2):
        assert outcomes == []
        executor.futures[attempt].set_exception(WorkerLostError("killed", killed=True))
        queue.ended(*queue.finished(set(executor.futures)))
    assert outcomes == [BuildFailure("the build process died: killed")]
    assert not queue.running


def test_equal_tasks_under_way_are_built_once():
    executor, outcomes = Later(), list[Built | BuildFailure]()
    queue = BuildQueue(executor)
    for source in ("same", "same", "other"):
        queue.add(task(source), outcomes.append)
    queue.feed()
    assert [len(args[0]) for _, args, _ in executor.submitted] == [1, 1]
    for future in executor.futures:
        future.set_result([made(0.01)])
    for future in queue.finished(set(executor.futures)):
        queue.ended(future)
    assert outcomes == [made(0.01)] * 3


def test_no_batch_starts_without_room():
    executor = Later()
    queue = BuildQueue(executor, room=lambda: len(executor.futures) < 1)
    for source in "abc":
        queue.add(task(source), lambda outcome: None)
    queue.feed()
    assert len(queue.running) == 1


def test_a_missing_compiler_ends_it_all():
    def missing(tasks):
        raise MissingToolError("there is no nvdisasm")

    with pytest.raises(MissingToolError, match="no nvdisasm"):
        list(build_each(InProcess(), [task("a")], function=missing))


def test_nothing_to_build():
    assert list(build_each(InProcess(), [], function=play)) == []


def sizes(waiting, jobs, build_times=()):
    """Sizes of batches until nothing waits."""
    planning, batch_sizes = BatchSizes(jobs), []
    while waiting:
        size = min(waiting, planning.following(waiting))
        planning.begin()
        planning.learn(list(build_times))
        batch_sizes.append(size)
        waiting -= size
    return batch_sizes


def test_the_first_are_alone_and_the_last_are_small():
    batch_sizes = sizes(240, 16)
    assert batch_sizes[:16] == [1] * 16
    assert batch_sizes[16:30] == [8] * 14
    assert batch_sizes[30:] == sorted(batch_sizes[30:], reverse=True)
    assert batch_sizes[-1] == 1
    assert sizes(2, 8) == [1, 1]


def test_what_compiles_long_is_not_built_together():
    assert max(sizes(100, 2, [made(0.2)])) == 8
    assert max(sizes(100, 2, [made(2.0)])) == 2
    assert max(sizes(100, 2, [made(60.0), BuildFailure("refused")])) == 1
    assert max(sizes(100, 2, [made(60.0, cached=True)])) == 8


def test_a_supply_is_asked_for_what_starts_and_no_more():
    executor, requested = Later(2), []

    def supply():
        for number in range(1000):
            requested.append(number)
            yield task(str(number)), lambda outcome: None

    queue = BuildQueue(executor, function=play)
    queue.supply(supply(), 1000)
    queue.feed()
    assert len(requested) == sum(len(tasks) for _, (tasks,), _ in executor.submitted) < 40


def test_supplies_follow_one_another():
    built: list[Built | BuildFailure] = []
    queue = BuildQueue(InProcess(), function=play)
    queue.add(task("a"), built.append)
    queue.supply(iter([]), 0)
    queue.supply(((task(name), built.append) for name in "bc"), 2)
    run_lanes([queue])
    assert len(built) == 3
