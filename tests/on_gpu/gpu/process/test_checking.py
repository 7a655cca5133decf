"""Checks on a real GPU without emulation: sound kernels, and wrong ones that are correct only once."""

from typing import Any

import pytest

from lab.runs.pipeline import RunOptions, run

pytestmark = pytest.mark.gpu

HEAD = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
LAUNCH = {"grid": "ceil_div(n, 128)", "block": "128"}
XY = '{y: "out float32[n]", x: "float32[n]", n: int32}'


def ran(folder, signature, body, arguments=XY, reference='{y: "2 * x"}', before="", n=1_000_003, **more):
    """Run one kernel without the CPU; the records."""
    (folder / "k.cu").write_text(f'{before}\nextern "C" __global__ void k({signature}) {{ {HEAD} {body} }}\n')
    keys = {"source": "k.cu", "problem": f"{{n: {n}}}", "arguments": arguments, **LAUNCH, **more}
    if reference:
        keys["reference"] = reference
    (folder / "k.yaml").write_text("".join(f"{key}: {value}\n" for key, value in keys.items()))
    return run(folder / "k.yaml", RunOptions(output=folder / "out", emulate=False, profile=False)).records


WITH_X = "float* y, float* x, int n"
WITH_COUNTER = "float* y, unsigned* done, const float* x, int n"
COUNTER = '{y: "out float32[n]", done: "uint32[1] zeros", x: "float32[n]", n: int32}'
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "scales its input and uses it": (
        {"signature": WITH_X, "body": "if (i < n) { x[i] *= 0.5f; y[i] = x[i] * 4.f; }"},
        "x is not declared as an output, but x[0] was written",
    ),
    "zeroes input and output": (
        {"signature": WITH_X, "body": "if (i < n) { y[i] = 0.f; x[i] = 0.f; }"},
        "x is not declared as an output, but x[0] was written",
    ),
    "an output without a word": (
        {
            "signature": "float* y, float* z, const float* x, int n",
            "body": "if (i < n) y[i] = 2.f * x[i]; if (i == 7) z[i] = 1.f;",
            "arguments": '{y: "out float32[n]", z: "float32[n]", x: "float32[n]", n: int32}',
        },
        "z is not declared as an output, but z[7] was written",
    ),
    "a counter that nobody sets back": (
        {
            "signature": WITH_COUNTER,
            "body": "if (i < n) y[i] = 2.f * x[i];"
            " if (threadIdx.x == 0 && atomicAdd(done, 1) >= gridDim.x) y[0] = 99.f;",
            "arguments": COUNTER,
        },
        "done is not declared as an output, but done[0] was written",
    ),
    "a workspace that nobody zeroes": (
        {
            "signature": "float* y, float* acc, const float* x, int n",
            "body": "if (i < n) y[i] = 2.f * x[i] + (atomicAdd(acc + (i & 31), 1.f) > n ? 1e3f : 0.f);",
            "arguments": '{y: "out float32[n]", acc: "float32[32] zeros", x: "float32[n]", n: int32}',
        },
        "acc is not declared as an output, but acc[0] was written",
    ),
    "a variable on the device": (
        {
            "signature": "float* y, const float* x, int n",
            "body": "if (i < n) y[i] = scale * x[i]; __syncthreads(); if (i == 0) scale = 0.f;",
            "before": "__device__ float scale = 2.f;",
            "n": 128,
        },
        "when it is launched again: y[",
    ),
    "a counter on the device": (
        {
            "signature": "float* y, const float* x, int n",
            "body": "if (i < n) y[i] = 2.f * x[i]; __threadfence(); __syncthreads();"
            " if (threadIdx.x == 0 && atomicAdd(&done, 1) >= gridDim.x) y[i] = 99.f;",
            "before": "__device__ unsigned done;",
        },
        "when it is launched again: y[",
    ),
    "a vector beyond the end": (
        {
            "signature": "float* y, const float* x, int n",
            "body": "if (i * 4 < n) *(float4*)(y + i * 4) = *(const float4*)(x + i * 4);",
            "reference": "{y: x}",
        },
        "y: 4 bytes written beyond its end",
    ),
    "a write before the start": (
        {
            "signature": "float* y, const float* x, int n",
            "body": "if (i < n) y[i] = 2.f * x[i]; if (i == 0) y[-1] = 0.f;",
        },
        "y: 4 bytes written before its start",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_a_comparison_of_values_does_not_show_fails(tmp_path, kind):
    given, words = WRONG[kind]
    (record,) = ran(tmp_path, **given)
    assert record.status.failed
    assert words in record.reason, record.reason
    assert record.measurement is None


@pytest.mark.parametrize("reference", ['{y: "log(x)"}', None])
def test_an_element_that_is_never_written_fails_with_and_without_a_reference(tmp_path, reference):
    body = "if (i < n && x[i] > 0.f) y[i] = logf(x[i]);"
    (record,) = ran(tmp_path, "float* y, const float* x, int n", body, reference=reference)
    assert record.status.failed
    assert "elements were never written" in record.reason, record.reason


SOUND: dict[str, dict[str, Any]] = {
    "writes what it reads": {
        "signature": "float* y, int n",
        "body": "if (i < n) y[i] *= 2.f;",
        "arguments": '{y: "inout float32[n]", n: int32}',
        "reference": '{y: "2 * y"}',
    },
    "accumulates": {
        "signature": "float* sum, const float* x, int n",
        "body": "if (i < n) atomicAdd(sum, x[i]);",
        "arguments": '{sum: "inout float32[1] zeros", x: "float32[n] uniform 0 1", n: int32}',
        "reference": '{sum: "sum(x)"}',
        "n": 100_003,
    },
    "sets its counter back": {
        "signature": "float* y, const float* x, int n",
        "body": "if (i < n) y[i] = 2.f * x[i]; if (threadIdx.x == 0 && atomicAdd(&done, 1) == gridDim.x - 1) done = 0;",
        "before": "__device__ unsigned done;",
    },
    "writes NaN": {
        "signature": "float* y, const float* x, int n",
        "body": "if (i < n) y[i] = logf(x[i]);",
        "reference": '{y: "log(x)"}',
    },
    "bytes": {
        "signature": "unsigned char* y, const unsigned char* x, int n",
        "body": "if (i < n) y[i] = x[i] ^ 1;",
        "arguments": '{y: "out uint8[n]", x: "uint8[n] uniform 0 256", n: int32}',
        "reference": '{y: "x ^ 1"}',
    },
}


@pytest.mark.parametrize("kind", SOUND)
def test_sound_kernels_pass(tmp_path, kind):
    (record,) = ran(tmp_path, **SOUND[kind])
    assert not record.status.failed, record.reason
    assert record.measurement is not None


def test_a_reference_variant_finds_its_constants(tmp_path):
    records = ran(
        tmp_path,
        "float* y, const unsigned char* x, const float* table, int n",
        "if (i < n) y[i] = MODE ? table[x[i]] : filter[x[i]];",
        arguments='{y: "out float32[n]", x: "uint8[n] uniform 0 256", table: "float32[256] range", n: int32}',
        constants='{filter: "float32[256] range"}',
        parameters="{MODE: [0, 1]}",
        before="__constant__ float filter[256];",
        reference=None,
    )
    assert [record.reason for record in records if record.status.failed] == []
    assert len(records) == 2


def test_a_grid_that_waits_for_itself_is_launched_cooperatively(tmp_path):
    body = (
        "for (int j = i; j < n; j += gridDim.x * blockDim.x) s[j] = x[j];"
        " cooperative_groups::this_grid().sync();"
        " for (int j = i; j < n; j += gridDim.x * blockDim.x) y[j] = s[n - 1 - j];"
    )
    (record,) = ran(
        tmp_path,
        "float* y, float* s, const float* x, int n",
        body,
        arguments='{y: "out float32[n]", s: "out float32[n]", x: "float32[n]", n: int32}',
        reference='{y: "x[::-1]", s: x}',
        before="#include <cooperative_groups.h>",
        grid="resident_blocks",
    )
    assert not record.status.failed, record.reason
    assert record.measurement is not None


def test_a_grid_that_waits_for_itself_and_does_not_fit_is_refused(tmp_path):
    (record,) = ran(
        tmp_path,
        "float* y, const float* x, int n",
        "if (i < n) y[i] = 2.f * x[i]; cooperative_groups::this_grid().sync();",
        before="#include <cooperative_groups.h>",
        n=16_777_216,
    )
    assert record.status.failed
    assert "too many blocks in cooperative launch: 131072" in record.reason, record.reason
    assert "resident_blocks" in record.reason


def test_what_a_kernel_prints_reaches_standard_error_without_commanding_the_terminal(tmp_path, capfd):
    body = r'if (i < n) y[i] = 2.f * x[i]; if (i == 7) printf("seven \x1b]0;title\x07\n");'
    (record,) = ran(tmp_path, WITH_X, body, before="#include <cstdio>", n=1003)
    assert not record.status.failed, record.reason
    printed = capfd.readouterr()
    assert r"seven \u001b]0;title\u0007" in printed.err
    assert "seven" not in printed.out
    assert "\x1b" not in printed.err
