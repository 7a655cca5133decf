"""Kernels and experiments on the CPU, from Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mistakes import coded

import lab
from lab.api.executing import is_source, is_text
from lab.base.errors import LabError, UserError

SOURCE = """namespace mine {
template <int B> __global__ void scale(float* y, const float* x, int n)
{ int i = blockIdx.x * B + threadIdx.x; if (i < n) y[i] = FACTOR * x[i]; }
}
extern "C" __global__ void other(int* a) { a[threadIdx.x] = 1; }
"""
X = np.arange(50, dtype=np.float32)
PLAIN = "__global__ void one(float* y, const float* x, int n) { int i = threadIdx.x; if (i < n) y[i] = F * x[i]; }"
EXPERIMENT = {
    "source": PLAIN,
    "problem": {"n": 1000},
    "emulate": {"n": 20},
    "arguments": {"y": "out float32[n]", "x": "float32[n]", "n": "int32"},
    "parameters": {"F": [2, 3]},
    "grid": 1,
    "block": 32,
    "reference": {"y": "2 * x"},
    "archs": ["sm_90"],
}


def test_what_is_cuda():
    assert is_text(PLAIN)
    assert is_source("a.cu")
    assert is_source(PLAIN)
    assert not is_source("a.ptx")


def test_a_template_with_macros_takes_arguments_by_name(tmp_path):
    (tmp_path / "k.cu").write_text(SOURCE)
    y = np.zeros_like(X)
    how: dict[str, Any] = {"kernel": "mine::scale<32>", "grid": 2, "macros": {"FACTOR": 3}}
    done = lab.emulate(tmp_path / "k.cu", {"y": y, "n": np.int32(50), "x": X}, **how)
    assert done.clean
    assert (y == 3 * X).all()
    assert lab.emulate(SOURCE, [y, X, "i32=50"], **how).clean
    once = y.copy()
    assert lab.emulate(SOURCE, [y, X, "i32=50"], **how, schedule=5).clean
    assert (y == once).all()
    ordered = lab.emulate(SOURCE, [y, X, "i32=50"], **how, schedule=5, engine="compiled")
    assert (ordered.engine, ordered.not_compiled) == ("interpreted", "a schedule seed is set")
    assert lab.emulate(SOURCE, [y, X, "i32=50"], **how, engine="compiled").engine == "compiled"


@pytest.mark.parametrize(
    ("arguments", "kernel", "message"),
    [
        ({"y": X, "x": X}, "mine::scale<32>", "an argument is missing"),
        ({"y": X, "x": X, "m": 3}, "mine::scale<32>", "no such parameter"),
        ([X], None, "several kernels"),
        ([X], "scal", "did you mean 'scale'"),
        (None, "other", "the arguments are missing"),
    ],
)
def test_what_does_not_fit_is_an_error(arguments, kernel, message):
    with pytest.raises(LabError, match=message):
        lab.emulate(SOURCE, arguments, kernel=kernel, macros={"FACTOR": 1})


def test_a_program_around_a_kernel_is_left_out_and_what_nvcc_includes_is_there(tmp_path):
    program = """#include <cstdio>
__global__ void told(uint n) { if (threadIdx.x < n) printf("thread %u of %d\\n", threadIdx.x, INT_MAX); }
int main() { told<<<1, 4>>>(2); cudaDeviceSynchronize(); }
"""
    (tmp_path / "told.cu").write_text(program)
    done = lab.emulate(tmp_path / "told.cu", ["u32=2"], block=4)
    assert done.clean
    assert done.printed == "".join(f"thread {i} of 2147483647\n" for i in range(2))
    assert lab.inspect(tmp_path / "told.cu").listings


def test_an_experiment_is_executed_and_compared(tmp_path):
    done = lab.emulate(EXPERIMENT)
    assert done.verification.passed
    assert done.problem["n"] == 20
    wrong = lab.emulate(EXPERIMENT, parameters={"F": 3})
    assert not wrong.verification.passed
    alone = lab.emulate({name: value for name, value in EXPERIMENT.items() if name not in ("reference", "emulate")})
    assert alone.verification is None
    assert alone.problem["n"] == 1000
    with pytest.raises(UserError, check=coded("mismatch", key="variant", found={"F": 4})):
        lab.emulate(EXPERIMENT, parameters={"F": 4})
    with pytest.raises(UserError, check=coded("conflict", key="arguments")):
        lab.emulate(EXPERIMENT, [X])
    with pytest.raises(UserError, check=coded("conflict", key="schedule")):
        lab.emulate(EXPERIMENT, schedule=1)


def test_text_and_mappings_are_inspected():
    assert lab.inspect(SOURCE.replace("FACTOR", "2")).to_json()["kernels"][0]["name"] == "other"
    one = {**EXPERIMENT, "parameters": {"F": 2}}
    assert [listing.isa for listing in lab.inspect(one).listings] == ["ptx", "sass"]
    with pytest.raises(UserError, check=coded("mismatch", key="variant")):
        lab.inspect(EXPERIMENT)
