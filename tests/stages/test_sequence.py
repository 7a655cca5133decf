"""Launches in order."""

import compiling
import numpy as np
import pytest

from lab.emulator.results import Emulation
from lab.emulator.state import DeviceState
from lab.operators.base import Inputs
from lab.stages import sequence
from lab.stages.memory import DeviceMemory
from lab.stages.sequence import LaunchMode, run_sequence, unexcused
from lab.templates.launches import Launch, Launches

SOURCE = """__device__ int turn = 1;
extern "C" __global__ void count(int* y) {
  if (threadIdx.x == 0) *y = turn++;
}
extern "C" __global__ void loop(int* y) {
  int s = 0;
  for (int i = 0; i < 100000; ++i) s = s * 3 + y[0];
  y[0] = s;
}
extern "C" __global__ void beyond(int* y) { y[threadIdx.x] = 1; }"""


@pytest.fixture(scope="module")
def ptx():
    return compiling.compile_text(SOURCE)


def steps(*entries):
    return Launches(tuple(Launch(entry, (1, 1, 1), (32, 1, 1), 0, (("y", "int32*"),)) for entry in entries))


def memory_of(launches):
    return DeviceMemory(Inputs({}, {"y": np.zeros(1, np.int32)}, ("y",)), launches)


def test_variables_of_the_module_keep_what_launches_left(ptx):
    launches, state = steps("count", "count"), DeviceState()
    memory = memory_of(launches)
    run_sequence(ptx, launches, memory, LaunchMode(state=state))
    assert memory.outputs["y"][0] == 2
    run_sequence(ptx, launches, memory, LaunchMode(state=state))
    assert memory.outputs["y"][0] == 4
    run_sequence(ptx, launches, memory, LaunchMode())
    assert memory.outputs["y"][0] == 2


def test_a_fault_ends_the_sequence_unless_it_is_excused(ptx):
    launches = steps("beyond", "count")
    assert len(run_sequence(ptx, launches, memory_of(launches), LaunchMode())) == 1
    excused = LaunchMode(excused=frozenset({"out-of-bounds"}))
    done = run_sequence(ptx, launches, memory_of(launches), excused)
    assert len(done) == 2
    assert unexcused(done[0], excused.excused) == []
    assert [one.kind for one in unexcused(done[0], frozenset())] == ["out-of-bounds"]


def test_work_is_limited(ptx):
    launches = steps("loop")
    (done,) = run_sequence(ptx, launches, memory_of(launches), LaunchMode(work=100_000))
    assert (done.finished, done.engine) == (0, "interpreted")


@pytest.mark.parametrize(
    ("mode", "engine", "counted"),
    [
        (LaunchMode(), "auto", True),
        (LaunchMode(whole=True), "compiled", True),
        (LaunchMode(whole=True, work=5), "interpreted", True),
        (LaunchMode(counted=False), "auto", False),
    ],
)
def test_how_launches_are_executed(monkeypatch, mode, engine, counted):
    launch_options: list[dict[str, object]] = []

    def launched(*_arguments, **options):
        launch_options.append(options)
        return Emulation("k", None, (), (), (), 1)

    monkeypatch.setattr(sequence, "launch", launched)
    launches = steps("count", "count")
    assert len(run_sequence("", launches, memory_of(launches), mode)) == 2
    assert [(option["engine"], option["count"], option["trace"]) for option in launch_options] == [
        (engine, counted, False)
    ] * 2
    assert {option["dynamic_shared_bytes"] for option in launch_options} == {0}
    assert launch_options[0]["state"] is launch_options[1]["state"] is mode.state
