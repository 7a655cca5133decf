"""A user's own kernel in the short form, whole, on a real GPU: every way in is verified and timed there."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from plain_files import FILES, write

import lab
from lab.recorded.run_records import Status

pytestmark = pytest.mark.gpu

SCRIPTS = sorted((Path(__file__).parents[2] / "wholes" / "scripts").glob("*.py"))
ADD = """
__global__ void add(float *out, const float *x, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) out[i] = x[i] + OFFSET;
}
"""
TRITON = """
import triton
import triton.language as tl

@triton.jit
def add(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)
"""


def given(**changes):
    """A mapping on `ADD`, with changes; keys that are changed to None are left out."""
    whole = {
        "source": ADD,
        "problem": {"n": 100_003},
        "emulate": {"n": 1000},
        "arguments": {"out": "out float32[n]", "x": "float32[n]", "n": "int32"},
        "parameters": {"BLOCK": [64, 256], "OFFSET": 1},
        "grid": "ceil_div(n, BLOCK)",
        "block": "BLOCK",
        "reference": {"out": "x + OFFSET"},
        **changes,
    }
    return {key: value for key, value in whole.items() if value is not None}


def done(experiment, folder, count):
    """Run it; every variant is verified on the GPU and timed."""
    run = lab.run(experiment, output=folder, profile=False)
    records = [variant.record for variant in run.variants]
    assert len(records) == count
    for record in records:
        assert record.status.sound, record.reason
        assert record.measurement is not None, run.outcome.run.not_measured or run.outcome.run.notes
        assert record.measurement.samples.median > 0
    return run


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_host_code_is_measured(name, tmp_path):
    done(write(name, tmp_path), tmp_path / "run", 2)


def test_the_first_variant_stands_in_for_a_reference(tmp_path):
    done(given(reference=None), tmp_path / "run", 2)


def test_a_variant_that_differs_from_the_stand_in_is_found(tmp_path):
    run = lab.run(
        given(reference=None, parameters={"BLOCK": 64, "OFFSET": [1, 2]}), output=tmp_path / "run", emulate=False
    )
    first, second = (variant.record for variant in run.variants)
    assert first.status is Status.PARTIAL, first.reason
    assert second.status is Status.WRONG


def test_a_setting_is_the_baseline(tmp_path):
    done(given(baseline={"BLOCK": 64}), tmp_path / "run", 2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "uint64", "complex64"])
def test_elements_of_every_kind_are_measured(dtype, tmp_path):
    names = {
        "float16": "__half",
        "bfloat16": "__nv_bfloat16",
        "float64": "double",
        "int8": "signed char",
        "uint64": "unsigned long long",
        "complex64": "float2",
    }
    source = f"""#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void copy({names[dtype]} *out, const {names[dtype]} *x, int n) {{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) out[i] = x[i];
}}
"""
    arguments = {"out": f"out {dtype}[n]", "x": f"{dtype}[n]", "n": "int32"}
    done(
        given(source=source, arguments=arguments, reference={"out": "x"}, parameters={"BLOCK": [64, 256]}),
        tmp_path / "run",
        2,
    )


def test_ptx_is_measured(tmp_path):
    first = done(given(parameters={"BLOCK": 64, "OFFSET": 1}), tmp_path / "cuda", 1)
    file = tmp_path / "add.ptx"
    file.write_text(first.variants[0].ptx)
    entry = next(line for line in first.variants[0].ptx.splitlines() if ".entry" in line).split()[-1].rstrip("(")
    text = given(
        source=str(file), kernel=entry, parameters=None, grid="ceil_div(n, 64)", block=64, reference={"out": "x + 1"}
    )
    done(text, tmp_path / "ptx", 1)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_a_triton_function_is_measured(tmp_path):
    (tmp_path / "k.py").write_text(TRITON)
    done(
        given(
            source=f"{tmp_path / 'k.py'}:add",
            parameters={"BLOCK": 256},
            configs={"num_warps": [1, 2, 4]},
            block=None,
            reference={"out": "x + 1"},
        ),
        tmp_path / "run",
        3,
    )


def test_a_wrong_result_at_the_large_size_fails_though_the_small_one_is_right(tmp_path):
    source = ADD.replace("i < n", "i < n && i < 50000")
    run = lab.run(given(source=source), output=tmp_path / "run")
    for variant in run.variants:
        assert variant.record.status is Status.SUSPECT, run.outcome.run.not_measured
        assert variant.record.emulation.verification.passed


def test_an_array_is_given_and_a_function_is_the_reference(tmp_path):
    x = np.random.default_rng(0).normal(size=100_003).astype(np.float32)
    arguments = {"out": "out float32[n]", "x": x, "n": "int32"}
    done(given(arguments=arguments, reference={"out": lambda x: x + np.float32(1)}), tmp_path / "run", 2)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda one: one.stem)
def test_a_script_of_kernel_tuners_users_is_measured(script, tmp_path):
    for source in script.parent.glob("*.cu"):
        (tmp_path / source.name).write_text(source.read_text())
    (tmp_path / script.name).write_text(script.read_text().replace("from kernel_tuner import", "from lab import"))
    end = subprocess.run(
        [sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert end.returncode == 0, end.stdout + end.stderr
    assert "all configurations are verified" in end.stdout


REDUCE = r"""
#include <cuda.h>
#include <cuda_fp16.h>
// Each block adds its box of 16 rows and 64 columns to C: blocks along z to the same one.
extern "C" __global__ void k(const __grid_constant__ CUtensorMap c_map, const T *a)
{
    __shared__ alignas(128) T tile[16 * 64];
    for (int i = threadIdx.x; i < 16 * 64; i += blockDim.x) tile[i] = a[blockIdx.z];
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];"
                     :: "l"(&c_map), "r"(blockIdx.x * 64), "r"(blockIdx.y * 16),
                        "r"((unsigned)__cvta_generic_to_shared(tile)) : "memory");
        asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::: "memory");
    }
}
"""
REDUCE_FILE = """
source: k.cu
problem: {rows: 100, columns: 200, parts: 5}
emulate: full
parameters: {T: [float, half, int]}
arguments: {c_map: "inout {T}[rows, columns] ones as map[16, 64]", a: "{T}[parts] range"}
grid: ["ceil_div(columns, 64)", "ceil_div(rows, 16)", parts]
block: 64
reference: {c_map: c_map + sum(a)}
"""


def test_blocks_add_boxes_to_the_same_tensor(tmp_path):
    """As the CPU executes it (`emulate: full`), for every type of the map."""
    (tmp_path / "k.cu").write_text(REDUCE)
    (tmp_path / "k.yaml").write_text(REDUCE_FILE)
    run = lab.run(tmp_path / "k.yaml", output=tmp_path / "out")
    for variant in run.variants:
        assert not variant.record.status.failed, variant.record.reason
        assert variant.record.emulation.verification.passed
        assert variant.record.measurement is not None
