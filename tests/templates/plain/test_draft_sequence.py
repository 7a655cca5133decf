from __future__ import annotations

from pathlib import Path

from lab.base import yamlfile
from lab.isa.cuda.kernels import read_kernels
from lab.templates.plain.draft_sequence import drafted_sequence

INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
KERNELS = f"""__global__ void scale(float *to, const float *from, float factor, int length) {{
  {INDEX} if (i < length) to[i] = factor * from[i];
}}
__global__ void total(const float *values, float *sum, int n) {{ {INDEX} if (i < n) atomicAdd(sum, values[i]); }}
"""
HOST = """int main() {
  int size = 3000; float *a, *b, *s;
  cudaMalloc(&a, size * 4); cudaMalloc(&b, size * 4); cudaMalloc(&s, 4); cudaMemset(s, 0, 4);
  scale<<<(size + 127) / 128, 128>>>(b, a, 2.5f, size);
  total<<<(size + 255) / 256, 256, 0, 0>>>(b, s, size);
}
"""


def draft_of(text: str):
    draft = drafted_sequence(text, "k.cu", read_kernels(text))
    return draft, yamlfile.parse(draft.text, Path("k.yaml")).data


def test_arrays_are_what_the_host_passes_under_one_name():
    draft, data = draft_of(KERNELS + HOST)
    assert data["arguments"] == {
        "b": "out float32[size]",
        "a": "float32[size]",
        "factor": "float32 = 2.5",
        "size": "int32",
        "s": "inout float32[1] zeros",
    }
    assert (data["problem"], data["emulate"]) == ({"size": 3000}, {"size": 3000})
    assert [(one["kernel"], one["arguments"]) for one in data["launches"]] == [
        ("scale", ["b", "a", "factor", "size"]),
        ("total", ["b", "s", "size"]),
    ]
    assert [(one["grid"], one["block"]) for one in data["launches"]] == [
        ("ceil_div(size, 128)", 128),
        ("ceil_div(size, 256)", 256),
    ]
    assert not draft.guesses
    assert not draft.warnings


def test_a_parameter_may_be_called_like_a_direction():
    text = (KERNELS + HOST).replace("float *to", "float *out").replace(" to[i]", " out[i]")
    assert draft_of(text)[1]["arguments"]["b"] == "out float32[size]"


def test_an_array_has_room_for_every_launch():
    text = (KERNELS + HOST).replace("cudaMalloc(&b, size * 4);", "")
    text = text.replace("values[i])", "values[i] + values[2 * i + 1])")
    assert draft_of(text)[1]["arguments"]["b"] == "out float32[max(size, 2 * size)]"
    text = text.replace("to[i] = factor", "to[2 * i] = to[2 * i + 1] = factor")
    assert draft_of(text)[1]["arguments"]["b"] == "out float32[2 * size]"


def test_launches_on_different_streams_are_a_warning():
    (warning,) = draft_of(KERNELS + HOST.replace("256, 0, 0>>>", "256, 0, other>>>"))[0].warnings
    assert "line 8 on the default stream, line 9 on other" in warning


def test_an_accumulator_that_nobody_clears_is_a_warning():
    (warning,) = draft_of(KERNELS + HOST.replace("cudaMemset(s, 0, 4);", ""))[0].warnings
    assert "adds to sum" in warning


def test_what_an_earlier_launch_reads_and_a_later_one_writes_has_contents():
    kernels = KERNELS.replace("float *to, const float *from", "const float *from, float *to")
    host = HOST.replace("(b, a, 2.5f, size)", "(a, b, 2.5f, size)").replace("(b, s, size)", "(b, a, size)")
    assert draft_of(kernels + host)[1]["arguments"]["a"].startswith("inout ")


def test_one_kernel_is_drafted_as_ever():
    text = KERNELS.splitlines()[-1]
    draft, data = draft_of(text)
    assert data["kernel"] == "total"
    assert "inferred" in draft.text
