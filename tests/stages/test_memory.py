"""The device's memory from launch to launch."""

from dataclasses import replace

import compiling
import numpy as np
import pytest

from lab.base.errors import UserError
from lab.emulator.results import Buffer, IndexedBuffer
from lab.operators.base import Inputs
from lab.operators.indexed import IndexedInputs, WholeArray
from lab.stages.memory import DeviceMemory, IndexedMemory
from lab.stages.sequence import LaunchMode, run_sequence
from lab.templates.launches import NULL, Launch, Launches, Workspace

SOURCE = """extern "C" __global__ void first(float* w, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) w[i] = 2 * x[i];
}
extern "C" __global__ void second(float* y, const float* w, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = w[i] + 1;
}
extern "C" __global__ void touches(float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { x[i] = 0; y[i] = 0; }
}
extern "C" __global__ void reads(float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += 1;
}
extern "C" __global__ void half(float* y, int n) {
  int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = 1;
}"""
N = 100


@pytest.fixture(scope="module")
def ptx():
    return compiling.compile_text(SOURCE, "-lineinfo")


def step(entry, *arguments):
    return Launch(entry, (1, 1, 1), (128, 1, 1), 0, (*tuple((name, "float32*") for name in arguments), ("n", "int32")))


def inputs():
    x = np.arange(N, dtype=np.float32)
    return Inputs({"n": N}, {"x": x, "y": np.full(N, np.nan, np.float32)}, ("y",), required=("y",))


def run(ptx, *steps, workspace=()):
    host_inputs = inputs()
    memory = DeviceMemory(host_inputs, Launches(steps, workspace))
    done = run_sequence(ptx, Launches(steps, workspace), memory, LaunchMode())
    return host_inputs, memory, done


def test_later_launches_read_what_earlier_ones_wrote(ptx):
    workspace = (Workspace("w", "float32", N),)
    host_inputs, memory, done = run(ptx, step("first", "w", "x"), step("second", "y", "w"), workspace=workspace)
    assert all(one.clean for one in done)
    np.testing.assert_array_equal(memory.outputs["y"], 2 * host_inputs.arrays["x"] + 1)


def test_what_no_launch_wrote_may_not_be_read(ptx):
    _, _, done = run(ptx, step("second", "y", "w"), workspace=(Workspace("w", "float32", N),))
    assert {finding.kind for finding in done[0].findings} == {"uninitialised-read"}


def test_inputs_stay_as_they_are_and_a_store_to_them_is_found(ptx):
    host_inputs, _, done = run(ptx, step("touches", "x", "y"))
    assert [(finding.kind, finding.source.line) for finding in done[0].findings] == [("undeclared-write", 11)]
    np.testing.assert_array_equal(host_inputs.arrays["x"], np.arange(N))


def test_an_output_that_is_only_written_may_not_be_read(ptx):
    _, _, done = run(ptx, step("reads", "y"))
    assert [(finding.kind, finding.source.line) for finding in done[0].findings] == [("uninitialised-read", 15)]


def test_an_output_must_be_written_whole(ptx):
    _, _, done = run(ptx, step("half", "y"))
    assert [(finding.kind, finding.count) for finding in done[0].findings] == [("never-written", 50)]


def test_scratch_may_be_written_and_keeps_what_a_launch_left(ptx):
    host_inputs = replace(inputs(), outputs=("y",), scratch={"x": True})
    memory = DeviceMemory(host_inputs, Launches((step("touches", "x", "y"),)))
    assert memory.keeps_scratch
    assert run_sequence(ptx, Launches((step("touches", "x", "y"),)), memory, LaunchMode())[0].clean
    assert host_inputs.arrays["x"][5] == 5
    memory.reset()
    run_sequence(ptx, Launches((step("first", "y", "x"),)), memory, LaunchMode())
    assert (memory.outputs["y"] == 0).all()
    run_sequence(ptx, Launches((step("first", "y", "x"),)), fresh := memory.fresh(), LaunchMode())
    np.testing.assert_array_equal(fresh.outputs["y"], 2 * host_inputs.arrays["x"])


def test_scratch_is_kept_with_other_inputs():
    host_inputs = replace(inputs(), outputs=("y",), scratch={"x": True})
    memory = DeviceMemory(host_inputs, Launches((step("touches", "x", "y"),)))
    other = memory.with_inputs(replace(host_inputs, scalars={**host_inputs.scalars, "n": 1}))
    assert other.argument("n", "int32") == 1
    kept, again = memory.argument("x", "float32*"), other.argument("x", "float32*")
    assert isinstance(kept, Buffer)
    assert isinstance(again, Buffer)
    assert kept.array is again.array


def test_indexed_memory_hands_out_the_same_arguments():
    arrays = {name: WholeArray(array) for name, array in inputs().arrays.items()}
    host_inputs = IndexedInputs({"n": N}, arrays, ("y",), ("y",), {})
    memory = IndexedMemory(
        host_inputs, Launches((step("second", "y", "w"),), (Workspace("w", "float32", N, zero=True),))
    )
    arguments = [memory.argument(name, "float32*") for name in ("y", "x", "w")]
    y, x, w = (argument for argument in arguments if isinstance(argument, IndexedBuffer))
    assert (y.initialised, y.readonly) == (False, False)
    assert (x.initialised, x.readonly) == (True, True)
    assert (w.initialised, w.readonly) == (True, False)
    assert w.source.read(3, 5).tolist() == [0, 0]
    assert memory.argument("n", "int32") == np.int32(N)


def test_kinds_of_arguments():
    memory = DeviceMemory(inputs(), Launches((step("second", "y", "w"),), (Workspace("w", "float32", N),)))
    assert memory.argument("n", "int64") == np.int64(N)
    assert memory.argument("x", NULL) == 0
    x, y, w = (memory.argument(name, "float32*") for name in ("x", "y", "w"))
    assert isinstance(x, Buffer)
    assert isinstance(y, Buffer)
    assert isinstance(w, Buffer)
    assert (x.readonly, x.initialised, x.output) == (True, True, False)
    assert (y.readonly, y.initialised, y.output) == (False, False, True)
    assert (w.readonly, w.initialised, w.output) == (False, False, False)
    assert np.isnan(w.array).all()
    again = memory.argument("w", "float32*")
    assert isinstance(again, Buffer)
    assert again.initialised  # some launch has had it
    for name, kind in (("z", "float32*"), ("x", "int32"), ("z", "tensor_map")):
        with pytest.raises(UserError):
            memory.argument(name, kind)


def test_of_two_launches_none_must_write_all_of_an_output():
    two = Launches((step("touches", "x", "y"), step("reads", "y")))
    for launches, output in ((two, False), (Launches(two.steps[:1]), True)):
        y = DeviceMemory(inputs(), launches).argument("y", "float32*")
        assert isinstance(y, Buffer)
        assert y.output is output


def test_a_zeroed_workspace_is_zeroed_before_every_sequence():
    launches = Launches(
        (step("first", "w", "x"),), (Workspace("w", "float32", N, zero=True), Workspace("v", "int32", 4))
    )
    memory = DeviceMemory(inputs(), launches)
    w, v = memory.argument("w", "float32*"), memory.argument("v", "int32*")
    assert isinstance(w, Buffer)
    assert isinstance(v, Buffer)
    assert w.initialised
    assert not w.array.any()
    assert v.array.tolist() == [-1] * 4
    w.array[:] = v.array[:] = 5
    memory.reset()
    assert not w.array.any()
    assert v.array.tolist() == [5] * 4
    later = memory.argument("v", "int32*")
    assert isinstance(later, Buffer)
    assert not later.initialised
