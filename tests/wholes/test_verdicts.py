"""Verdicts on kernels that are wrong, or wrong under one condition: each kind was once called verified."""

import pytest
from verdicts import Trial, judge_all

from lab.recorded.run_records import Condition, Status

SIGNATURE = 'extern "C" __global__ void k('
INDEX = "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"


def kernel(parameters, *lines, before="", index=True):
    body = "".join(f"  {line}\n" for line in lines)
    return f"{before}{SIGNATURE}{parameters}) {{\n{INDEX if index else ''}{body}}}\n"


COPY = "float* y, const float* x, int n"
WRONG = {
    "zeroes its input, too": (
        Trial(kernel("float* y, float* x, int n", "if (i < n) { y[i] = 0; x[i] = 0; }"), reference="{y: 2 * x}"),
        ("undeclared-write", 3),
    ),
    "reads its output": (
        Trial(kernel(COPY, "if (i < n) y[i] += x[i];"), reference=""),
        ("uninitialised-read", 3),
    ),
    "writes half of its output": (
        Trial(kernel(COPY, "if (i < n && i % 2) y[i] = x[i];"), reference=""),
        ("never-written", 0),
    ),
    "leaves what is to be NaN": (
        Trial(kernel(COPY, "if (i < n && x[i] > 0) y[i] = logf(x[i]);"), reference="{y: log(x)}"),
        ("never-written", 0),
    ),
    "shuffles from lanes that have ended": (
        Trial(
            kernel(COPY, "if (i >= n) return;", "y[i] = x[i] + 0 * __shfl_down_sync(0xffffffffu, x[i], 16);"),
            emulate="{n: 1011}",
        ),
        ("warp-divergence", 4),
    ),
    "hides small elements beside large ones": (
        Trial(
            kernel(COPY, "if (i < n) y[i] = x[i] < 3 ? 0 : expf(3 * x[i]);"),
            arguments='{y: "out float32[n]", x: "float32[n] uniform 0 20", n: int32}',
            reference="./ref.py:f",
        ),
        None,
    ),
}
SUSPECT = {
    "a grid without a loop that is clamped": (
        Trial(kernel(COPY, "if (i < n) y[i] = x[i];"), grid='"min(ceil_div(n, 128), 64)"'),
        Condition.FULL_SIZE,
        "8192",
    ),
    "blocks beyond a number do nothing": (
        Trial(kernel(COPY, "if (i < n && i < 500000) y[i] = x[i];")),
        Condition.FULL_SIZE,
        "no block writes",
    ),
    "an index of 32 bits": (
        Trial(
            kernel(
                "float* y, const float* x, int rows, int width",
                "if (i < rows) {",
                "  int at = i * width;",
                "  y[i] = x[at];",
                "}",
            ),
            arguments='{y: "out float32[rows]", x: "float32[rows, width]", rows: int32, width: int32}',
            problem="{rows: 300000, width: 8960}",
            emulate="{rows: 300, width: 17}",
            grid='"ceil_div(rows, 128)"',
            reference="{y: 'x[:, 0]'}",
        ),
        Condition.FULL_SIZE,
        "k.cu:4",
    ),
    "a sum in half precision that stalls": (
        Trial(
            kernel(
                "half* y, const half* x, int rows, int width",
                "if (i >= rows) return;",
                "half s = 0;",
                "for (int j = 0; j < width; ++j) s += x[(long long)i * width + j];",
                "y[i] = s;",
                before="#include <cuda_fp16.h>\n",
            ),
            arguments='{y: "out float16[rows]", x: "float16[rows, width] uniform 0.9 1.1", rows: int32, width: int32}',
            problem="{rows: 4096, width: 9000}",
            emulate="{rows: 40, width: 30}",
            grid='"ceil_div(rows, 128)"',
            reference="{y: 'sum(x, axis=1)'}",
            more="tolerance: 0.02",
        ),
        Condition.FULL_SIZE,
        "y[",
    ),
    "a vector that runs over the end": (
        Trial(kernel(COPY, "if (i * 4 < n) ((float4*)y)[i] = ((const float4*)x)[i];"), emulate="{n: 1024}"),
        None,
        "out-of-bounds",
    ),
    "places that depend on the order": (
        Trial(
            kernel(
                COPY,
                "__shared__ unsigned t;",
                "if (threadIdx.x == 0) t = atomicAdd(&taken, 1u);",
                "__syncthreads();",
                "unsigned from = t * 128 + threadIdx.x;",
                "if (i < n && from < n) y[i] = x[from];",
                before="__device__ unsigned taken;\n",
            ),
            problem="{n: 1000064}",
            emulate="{n: 1024}",
        ),
        None,
        "",
    ),
    "the number of an SM": (
        Trial(
            kernel(
                COPY,
                "unsigned s;",
                'asm volatile("mov.u32 %0, %%smid;" : "=r"(s));',
                "if (i < n) y[i] = s < 4 ? x[i] : 0;",
            )
        ),
        Condition.MACHINE,
        "%smid",
    ),
    "what the first launch left": (
        Trial(
            kernel(
                COPY,
                "if (i < n) y[i] = scale * x[i];",
                "__syncthreads();",
                "if (i == 0) scale = 0;",
                before="__device__ float scale = 1;\n",
            ),
            problem="{n: 128}",
            emulate="{n: 128}",
            grid="1",
        ),
        Condition.SECOND_LAUNCH,
        "y[",
    ),
    "a counter that nobody resets": (
        Trial(
            kernel(
                "float* y, unsigned* done, const float* x, int n",
                "if (i < n) y[i] = x[i];",
                "if (threadIdx.x == 0 && atomicAdd(done, 1) >= gridDim.x) y[0] = 99;",
            ),
            arguments='{y: "out float32[n]", done: "scratch uint32[1] zeros", x: "float32[n]", n: int32}',
        ),
        Condition.SECOND_LAUNCH,
        "y[0]",
    ),
    "an approximation": (
        Trial(
            kernel(
                COPY,
                "float r;",
                "if (i < n) {",
                '  asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(x[i]));',
                "  y[i] = r;",
                "}",
            ),
            reference="{y: tanh(x)}",
        ),
        Condition.ROUNDING,
        "tanh.approx.f32 at k.cu:5",
    ),
    "division for floor division": (
        Trial(
            kernel("int* y, const int* x, int n", "if (i < n) y[i] = x[i] / 2;"),
            arguments='{y: "out int32[n]", x: "int32[n]", n: int32}',
            reference="{y: x // 2}",
        ),
        Condition.INPUTS,
        "x",
    ),
    "a factor that is ignored": (
        Trial(
            kernel("float* y, const float* x, float alpha, int n", "if (i < n) y[i] = x[i];"),
            arguments='{y: "out float32[n]", x: "float32[n]", alpha: float32, n: int32}',
            problem="{n: 1000003, alpha: 1}",
            reference="{y: alpha * x}",
        ),
        Condition.INPUTS,
        "alpha = 1.5",
    ),
    "a pitch that is ignored": (
        Trial(
            kernel(
                "float* y, const float* x, int rows, int width, int pitch",
                "if (i < rows * width) y[i] = x[i];",
            ),
            arguments='{y: "out float32[rows, width]", x: "float32[rows, pitch]", rows: int32, width: int32,'
            " pitch: int32}",
            problem="{rows: 1000, width: 400, pitch: 400}",
            emulate="{rows: 5, width: 40, pitch: 40}",
            grid='"ceil_div(rows * width, 128)"',
            reference="{y: 'x[:, :width]'}",
        ),
        Condition.INPUTS,
        "pitch = 80",
    ),
    "a barrier of more blocks than fit": (
        Trial(
            kernel(
                "float* y, float* z, const float* x, int n",
                "if (i < n) z[i] = x[i];",
                "__threadfence();",
                "__syncthreads();",
                "if (threadIdx.x == 0) { atomicAdd(&here, 1); while (atomicAdd(&here, 0) < gridDim.x) ; }",
                "__syncthreads();",
                "__threadfence();",
                "if (i < n) y[i] = __ldcg(z + n - 1 - i);",
                before="__device__ unsigned here;\n",
            ),
            arguments='{y: "out float32[n]", z: "scratch float32[n]", x: "float32[n]", n: int32}',
            reference="{y: 'x[::-1]'}",
            problem="{n: 10000003}",
        ),
        None,
        "",
    ),
    "a race that needs two tiles": (
        Trial(
            kernel(
                COPY,
                "__shared__ float t[128];",
                "float s = 0;",
                "for (int first = 0; first < n; first += 128) {",
                "  t[threadIdx.x] = first + threadIdx.x < n ? x[first + threadIdx.x] : 0;",
                "  __syncthreads();",
                "  for (int j = 0; j < 128; ++j) s += t[j];",
                "}",
                "if (i < n) y[i] = s;",
            ),
            reference="{y: 'sum(x) + zeros(n)'}",
            problem="{n: 4096}",
            emulate="{n: 100}",
        ),
        None,
        "shared-race",
    ),
}
SOUND = {
    "a copy": Trial(kernel(COPY, "if (i < n) y[i] = x[i];")),
    "a grid-stride loop": Trial(kernel(COPY, "for (; i < n; i += gridDim.x * blockDim.x) y[i] = x[i];"), grid="264"),
    "vectors with a tail": Trial(
        kernel(
            COPY,
            "if (i * 4 + 3 < n) ((float4*)y)[i] = ((const float4*)x)[i];",
            "else for (int j = i * 4; j < n; ++j) y[j] = x[j];",
        ),
    ),
    "a counter that is reset": Trial(
        kernel(
            "float* y, unsigned* done, const float* x, int n",
            "if (i < n) y[i] = x[i];",
            "if (threadIdx.x == 0 && atomicAdd(done, 1) == gridDim.x - 1) *done = 0;",
        ),
        arguments='{y: "out float32[n]", done: "scratch uint32[1] zeros", x: "float32[n]", n: int32}',
    ),
    "a matrix with a factor and a pitch": Trial(
        kernel(
            "float* y, const float* x, float alpha, int rows, int width, int pitch",
            "if (i < rows * width) y[i] = alpha * x[i / width * pitch + i % width];",
        ),
        arguments='{y: "out float32[rows, width]", x: "float32[rows, pitch]", alpha: float32, rows: int32,'
        " width: int32, pitch: int32}",
        problem="{rows: 400, width: 400, pitch: 400, alpha: 1}",
        emulate="{rows: 40, width: 40, pitch: 40}",
        grid='"ceil_div(rows * width, 128)"',
        reference="{y: 'alpha * x[:, :width]'}",
    ),
    "sums of the rows": Trial(
        kernel(
            "float* y, const float* x, int rows, int width",
            "if (i >= rows) return;",
            "float s = 0;",
            "for (int j = 0; j < width; ++j) s += x[(long long)i * width + j];",
            "y[i] = s;",
        ),
        arguments='{y: "out float32[rows]", x: "float32[rows, width]", rows: int32, width: int32}',
        problem="{rows: 300000, width: 777}",
        emulate="{rows: 300, width: 17}",
        grid='"ceil_div(rows, 128)"',
        reference="{y: 'sum(x, axis=1)'}",
    ),
    "exponentials": Trial(
        kernel(COPY, "if (i < n) y[i] = expf(x[i]) / (1 + tanhf(x[i]) * tanhf(x[i]));"),
        reference="{y: exp(x) / (1 + tanh(x) ** 2)}",
    ),
}


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verdicts")
    trials = (
        {name: trial for name, (trial, _) in WRONG.items()}
        | {name: trial for name, (trial, *_) in SUSPECT.items()}
        | SOUND
    )
    return judge_all(trials, folder, files={"ref.py": "import numpy as np\n\ndef f(x):\n    return np.exp(3 * x)\n"})


@pytest.mark.parametrize("name", WRONG)
def test_wrong_at_the_executed_size(records, name):
    record, finding = records[name], WRONG[name][1]
    assert record.status is Status.WRONG, record.reason
    if finding is not None:
        found = [(finding.kind, finding.source.line if finding.source else 0) for finding in record.emulation.findings]
        assert finding in found


@pytest.mark.parametrize("name", SUSPECT)
def test_suspect_under_a_condition(records, name):
    record, (_, condition, said) = records[name], SUSPECT[name]
    assert record.status is Status.SUSPECT, record.reason
    suspicions = record.emulation.suspicions
    if condition is not None:
        assert condition in {suspicion.condition for suspicion in suspicions}
    assert said in " ".join(suspicion.summary for suspicion in suspicions)


@pytest.mark.parametrize("name", SOUND)
def test_verified_where_everything_holds(records, name):
    record = records[name]
    assert record.status is Status.VERIFIED, record.reason
    full = record.emulation.full_size
    assert full.covered
    assert full.compared > 0
    assert full.blocks <= full.of_blocks


def test_the_line_of_a_product_that_wraps_around_is_named(records):
    assert "wraps around at k.cu:4" in records["an index of 32 bits"].emulation.suspicions[0].summary
