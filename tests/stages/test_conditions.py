"""The small size under other conditions."""

from dataclasses import replace
from typing import Any, cast

import compiling
import numpy as np
import pytest
from quick_conditions import QUICKER

from lab.operators.base import Expected, Inputs, Operator, OtherInputs
from lab.recorded.run_records import Condition
from lab.stages import conditions
from lab.stages.conditions import Judged, other_conditions, other_inputs
from lab.stages.full_size import SizedLaunches
from lab.stages.memory import DeviceMemory
from lab.stages.sequence import LaunchMode, run_sequence
from lab.templates.launches import Launch, Launches

SOURCE = """__device__ int calls[4];
__device__ unsigned taken;
extern "C" __global__ void plain(float* y, const float* x) {
  y[threadIdx.x + 64 * blockIdx.x] = x[threadIdx.x + 64 * blockIdx.x];
}
extern "C" __global__ void counts(float* y, const float* x) {
  int i = threadIdx.x + 64 * blockIdx.x;
  y[i] = calls[blockIdx.x] > 0 ? 0 : x[i];
  __syncthreads();
  if (threadIdx.x == 0) calls[blockIdx.x] = 1;
}
extern "C" __global__ void keeps(float* y, const float* x) {
  static __device__ float first[256];
  int i = threadIdx.x + 64 * blockIdx.x;
  if (first[i] == 0) first[i] = x[i];
  y[i] = first[i];
}
__device__ int passed[4];
__device__ float last[4];
extern "C" __global__ void chained(float* y, const float* x) {
  __shared__ float change;
  int b = blockIdx.x;
  if (threadIdx.x == 0) {
    change = 0;
    if (b) {
      while (atomicAdd(passed + b - 1, 0) == 0) ;
      __threadfence();
      change = atomicAdd(last + b - 1, 0.0f) - x[64 * b - 1];
    }
    atomicExch(last + b, x[64 * b + 63]);
    __threadfence();
    atomicExch(passed + b, 1);
  }
  __syncthreads();
  y[threadIdx.x + 64 * b] = x[threadIdx.x + 64 * b] + change;
}
extern "C" __global__ void tickets(float* y, const float* x) {
  __shared__ unsigned t;
  if (threadIdx.x == 0) t = atomicInc(&taken, 3);
  __syncthreads();
  y[threadIdx.x + 64 * blockIdx.x] = x[threadIdx.x + 64 * t];
}
extern "C" __global__ void slots(float* y, const float* x) {
  unsigned w;
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(w));
  y[threadIdx.x + 64 * blockIdx.x] = w < 2 ? x[threadIdx.x + 64 * blockIdx.x] : 0;
}
extern "C" __global__ void near(float* y, const float* x) {
  float r;
  asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(x[threadIdx.x + 64 * blockIdx.x]));
  y[threadIdx.x + 64 * blockIdx.x] = r - tanhf(x[threadIdx.x + 64 * blockIdx.x]) + x[threadIdx.x + 64 * blockIdx.x];
}
extern "C" __global__ void nearer(float* y, const float* x) {
  int i = threadIdx.x + 64 * blockIdx.x;
  float e, r;
  asm("ex2.approx.f32 %0, %1;" : "=f"(e) : "f"(x[i]));
  asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(x[i]));
  y[i] = r - tanhf(x[i]) + x[i] + (e > 100);
}
extern "C" __global__ void alternates(float* y, const float* x) {
  int i = threadIdx.x + 64 * blockIdx.x;
  y[i] = calls[blockIdx.x] % 2 ? -x[i] : x[i];
  __syncthreads();
  if (threadIdx.x == 0) ++calls[blockIdx.x];
}
extern "C" __global__ void reversed(float* y, const float* x) {
  __shared__ int later;
  if (threadIdx.x == 0) later = atomicAdd(&taken, 1) % 4 > blockIdx.x;
  __syncthreads();
  int i = threadIdx.x + 64 * blockIdx.x;
  y[i] = later ? 0 : x[i];
}
extern "C" __global__ void absolute(float* y, const float* x) {
  y[threadIdx.x + 64 * blockIdx.x] = fabsf(x[threadIdx.x + 64 * blockIdx.x]);
}"""


class Copy:
    """A copy of positive numbers; other inputs have some that are negative."""

    has_reference = True
    refuses_sizes = True

    def inputs(self, problem, seed):
        x = np.random.default_rng(seed).uniform(1, 2, 256).astype(np.float32)
        return Inputs({}, {"x": x, "y": np.full(256, np.nan, np.float32)}, ("y",), ("y",))

    def restored(self, problem):
        return problem

    def other_inputs(self, problem, seed):
        made = self.inputs(problem, seed)
        return (OtherInputs(replace(made, arrays={**made.arrays, "x": -made.arrays["x"]}), ("x",), "negative values"),)

    def reference(self, problem, inputs):
        return {"y": Expected(inputs.arrays["x"].astype(np.float64), np.ones(256))}

    def verify(self, problem, reference, outputs):
        error = np.abs(outputs["y"] - reference["y"].values)
        worst = int(np.argmax(error))
        return float(error[worst]), 1e-5, f"y[{worst}] is off"


@pytest.fixture(scope="module")
def ptx():
    return compiling.compile_text(SOURCE, "-lineinfo")


def judged(ptx, entry):
    arguments = (("y", "float32*"), ("x", "float32*"))
    launches, computed, how = Launches((Launch(entry, (4, 1, 1), (64, 1, 1), 0, arguments),)), Copy(), LaunchMode()
    inputs = computed.inputs({}, 0)
    memory = DeviceMemory(inputs, launches)
    assert run_sequence(ptx, launches, memory, how)[0].clean
    reference = computed.reference({}, inputs)
    assert computed.verify({}, reference, memory.outputs)[0] <= 1e-5
    return Judged(ptx, launches, cast("Operator[Any]", computed), {}, reference, how, memory, 100, 0)


@pytest.mark.parametrize(
    ("entry", "condition", "said"),
    [
        ("counts", Condition.SECOND_LAUNCH, "y["),
        ("keeps", Condition.SECOND_LAUNCH, "with other inputs, y["),
        ("chained", Condition.SECOND_LAUNCH, "with other inputs, y["),
        ("tickets", Condition.ORDER, "y["),
        ("slots", Condition.MACHINE, "%warpid"),
        ("near", Condition.ROUNDING, "tanh.approx.f32"),
    ],
)
def test_what_depends_on_a_condition_is_suspect_under_it(ptx, entry, condition, said):
    found, untried = other_conditions(judged(ptx, entry))
    assert [one.condition for one in found] == [condition]
    assert said in found[0].summary
    assert untried == ()


@pytest.mark.parametrize("checks", [conditions._CHECKS, QUICKER], ids=["all", "quicker"])
@pytest.mark.parametrize(
    ("entry", "faulty"),
    [
        ("plain", False), ("absolute", False), ("counts", True), ("keeps", True), ("chained", True), ("tickets", True),
        ("slots", True), ("near", True), ("alternates", True), ("reversed", True),
    ],
)  # fmt: skip
def test_quicker_checks_find_the_same_faults(ptx, monkeypatch, checks, entry, faulty):
    monkeypatch.setattr(conditions, "_CHECKS", checks)
    assert bool(other_conditions(judged(ptx, entry))[0]) == faulty


def test_quicker_checks_try_the_same_orders(ptx, monkeypatch):
    orders = []
    for checks in (conditions._CHECKS, QUICKER):
        tried = set[int | None]()

        def again(_judged, how, memory=None, tried=tried):
            tried.add(how.schedule)
            return "", None

        monkeypatch.setattr(conditions, "_CHECKS", checks)
        monkeypatch.setattr(conditions, "_again", again)
        assert other_conditions(judged(ptx, "tickets")) == ((), ())
        orders.append(tried)
    assert orders == [{None, 1, 2}, {1, 2}]


def test_a_kernel_that_no_condition_matters_to_is_not_executed_again(ptx, monkeypatch):
    once = judged(ptx, "plain")
    kept = replace(once, ptx=ptx.replace("calls", "unused"))  # a module has its variables, whoever uses them
    assert other_conditions(kept) == ((), ())
    monkeypatch.setattr(conditions, "run_sequence", None)
    assert not conditions._matters(Condition.ORDER, once, [*conditions._programs(once)])


def test_what_takes_too_long_is_not_tried(ptx):
    found, untried = other_conditions(replace(judged(ptx, "tickets"), warps=10**8))
    assert found == ()
    assert str(Condition.ORDER) in untried[0]


def test_other_inputs_show_what_the_first_ones_hide(ptx):
    found = other_inputs(judged(ptx, "absolute"), 0, ())
    assert found.condition is Condition.INPUTS
    assert "x" in found.detail
    assert other_inputs(judged(ptx, "plain"), 0, ()) is None


def test_another_problem_is_executed_too(ptx, monkeypatch):
    fewer = judged(ptx, "plain")
    step = replace(fewer.launches.steps[0], grid=(2, 1, 1))
    found = other_inputs(fewer, 0, [SizedLaunches({"ld": 2}, Launches((step,)))])
    assert (found.condition, found.finding.kind) == (Condition.INPUTS, "never-written")
    assert "ld = 2" in found.detail
    monkeypatch.setattr(Copy, "refuses_sizes", False)
    assert other_inputs(fewer, 0, [SizedLaunches({"ld": 2}, Launches((step,)))]) is None


def test_of_several_approximations_the_one_at_fault_is_named(ptx):
    (found,), _ = other_conditions(judged(ptx, "nearer"))
    assert found.condition is Condition.ROUNDING
    cause, _, worst = found.detail.partition(": y[")
    line = max(i for i, text in enumerate(SOURCE.splitlines(), 1) if "tanh.approx" in text)
    assert cause.startswith("tanh.approx.f32 at ")
    assert cause.endswith(f":{line}")
    assert worst.endswith("is off")


@pytest.mark.parametrize(("warps", "tried"), [(2_000_000, True), (2_000_001, False)])
def test_how_much_work_is_done_again(ptx, warps, tried):
    found, untried = other_conditions(replace(judged(ptx, "slots"), warps=warps))
    assert (len(found), len(untried)) == ((1, 0) if tried else (0, 1))


def test_orders_other_than_the_programs_own_are_tried_until_one_is_wrong(ptx, monkeypatch):
    outcomes = iter([("", None), ("y[3] is off", None), ("y[4] is off", None)])
    seeds = []

    def again(_judged, how, memory=None):
        seeds.append(how.schedule)
        return next(outcomes)

    monkeypatch.setattr(conditions, "_again", again)
    found = conditions._ordered(judged(ptx, "tickets"))
    assert found.detail == "the results depend on the order of blocks and warps: y[3] is off"
    assert seeds == [1, 2]


def test_other_inputs_that_say_nothing(ptx, monkeypatch):
    def overflowing(self, problem, inputs):
        return {"y": Expected(np.full(256, np.inf), np.ones(256))}

    once = judged(ptx, "absolute")
    monkeypatch.setattr(Copy, "reference", overflowing)
    assert other_inputs(once, 0, ()) is None
    step = replace(once.launches.steps[0], grid=(2, 1, 1))
    assert other_inputs(once, 0, [SizedLaunches({"ld": 2}, Launches((step,)))]) is None
    monkeypatch.setattr(Copy, "other_inputs", lambda *_: ())
    assert other_inputs(once, 0, ()) is None
