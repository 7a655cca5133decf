"""Drafts of files as users write them. `LAB_REWRITE_GOLDEN=1` writes the expected files again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base import yamlfile
from lab.isa.cuda.kernels import read_kernels
from lab.templates.plain.draft import draft
from lab.templates.plain.draft import drafted as drafted_with_guesses_of

SOURCES = Path(__file__).parents[2] / "support" / "cuda"
GOLDEN = Path(__file__).parent / "golden"


def drafted(text: str, name: str = "k.cu"):
    made = draft(text, name, read_kernels(text)[0])
    return yamlfile.parse(made, Path("k.yaml")).data, made


def drafted_with_guesses(text: str):
    return drafted_with_guesses_of(text, "k.cu", read_kernels(text)[0])


@pytest.mark.parametrize("name", ["vector_add", "reduce", "stencil", "histogram", "half_gemm", "two_kernels"])
def test_drafts_of_files_as_users_write_them(name):
    _, made = drafted((SOURCES / f"{name}.cu").read_text(), f"{name}.cu")
    golden = GOLDEN / f"{name}.yaml"
    if os.environ.get("LAB_REWRITE_GOLDEN"):
        golden.write_text(made)
    assert made == golden.read_text()


def test_every_guess_is_marked_and_every_fact_is_not():
    _, made = drafted((SOURCES / "vector_add.cu").read_text())
    unmarked = [line for line in made.splitlines() if "TODO" not in line and not line.startswith("#")]
    assert unmarked == [
        "question: Which variant of vector_add is fastest?  # ask what you want to know",
        "source: k.cu",
        "kernel: vector_add",
        "problem: {n: 10_000_000}  # the sizes that you care about",
        "emulate: {n: 10_000}  # executed on the CPU",
        "arguments:",
        '  c: "out float32[n]"  # inferred: line 9',
        '  a: "float32[n]"  # inferred: line 9',
        '  b: "float32[n]"  # inferred: line 9',
        "  n: int32",
        "parameters:",
        "  block_size_x: [64, 128, 256, 512, 1024]",
        "grid: ceil_div(n, block_size_x)  # inferred: line 8",
        "block: block_size_x  # inferred: line 9",
    ]


_INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n)"


def argument(signature: str, body: str = "") -> str:
    value, _ = drafted(f"__global__ void k({signature}) {{ {body} }}")
    return next(iter(value["arguments"].values()))


@pytest.mark.parametrize(
    ("signature", "body", "written"),
    [
        ("const float *x, int n", "", "float32[n]"),
        ("float *x, int n", f"{_INDEX} x[i] = 3;", "out float32[n]"),
        ("float4 *x, int n", f"{_INDEX} x[i].x = 3;", "out partial float32[n, 4]"),
        ("float *x, int n", f"{_INDEX} x[i] += 3;", "inout float32[n]"),
        ("float *x, int n", "atomicAdd(&x[3], 1);", "inout float32[4] zeros"),
        ("float *x, float *y, int n", f"{_INDEX} y[i] = x[i];", "float32[n]"),
        ("float *x, int n", f"{_INDEX} x[i] = 2 * x[i];", "inout float32[n]"),
        ("float *x, int n", f"{_INDEX} if (x[i] > 3) x[i] = 3;", "inout float32[n]"),
        ("float *x, const int *m, int n", f"{_INDEX} if (m[i]) x[i] = 3;", "out partial float32[n]"),
        ("float *x, const int *m, int n", f"{_INDEX} {{ if (m[i]) x[i] = 3; else x[i] = 4; }}", "out float32[n]"),
        ("float *x, int n", f"{_INDEX} if (i > 0) x[i] = 3;", "out partial float32[n]"),
        ("float *x, int n", f"{_INDEX} {{ x[i] = 1; x[i] *= 2; }}", "out float32[n]"),
        ("float4 *x, int n", "", "out float32[n, 4]"),
        ("double a", "", "float64 = 1"),
        ("long long n", "", "int64"),
        ("const __nv_bfloat16 *x, int rows, int columns", "", "bfloat16[rows, columns]"),
        ("const real *x, int n", "", "float32[n]"),
        ("int seed", "", "int32 = 1"),
        ("const float *, int n", "", "float32[n]"),
    ],
)
def test_arguments(signature, body, written):
    assert argument(signature, body) == written


def test_views_of_vectors_are_counted_in_elements():
    macro = "#define FLOAT4(value) (reinterpret_cast<float4 *>(&(value))[0])\n"
    body = "int i = 4 * (blockIdx.x * 64 + threadIdx.x); if (i < n) FLOAT4(y[i]) = FLOAT4(x[i]);"
    value, _ = drafted(f"{macro}__global__ void k(float *x, float *y, int n) {{ {body} }}")
    assert value["arguments"] == {"x": "float32[n]", "y": "out float32[n]", "n": "int32"}
    assert (value["grid"], value["block"]) == ("ceil_div(n, 256)", 64)


def test_many_defaults_of_a_template_are_its_values_and_flags_are_tried_both_ways():
    few = "template <const int TILE_K = 16, int PAD = 8, const bool SWIZZLED = true{}>"
    kernel = "\n__global__ void k(float *x, int n) { x[n] = TILE_K; }"
    swept, _ = drafted(few.format("") + kernel)
    assert swept["parameters"] == {"TILE_K": [8, 16, 32], "PAD": [8], "SWIZZLED": [0, 1]}
    kept, _ = drafted(few.format(", int WARPS = 4") + kernel)
    assert kept["parameters"] == {"TILE_K": [16], "PAD": [8], "SWIZZLED": [0, 1], "WARPS": [4]}
    host = " int main() { k<32, 4, true><<<n, 32>>>(x, n); }"
    launched, _ = drafted(few.format("") + kernel + host)
    assert launched["parameters"] == {"TILE_K": [32], "PAD": [4], "SWIZZLED": [0, 1]}


def test_the_launch_of_the_host_is_that_of_the_file():
    kernel = "__global__ void k(float *x, int rows, int columns, float eps) { x[blockIdx.x * blockDim.x] = 1; }\n"
    value, made = drafted(kernel + "int main() { int r = 64; k<<<(r + 255) / 256, 256>>>(x, r, 1000, 1e-6f); }")
    assert value["problem"] == {"rows": 64}
    assert value["arguments"]["columns"] == "int32 = 1000"
    assert (value["grid"], value["block"]) == ("ceil_div(rows, threads)", "threads")
    assert value["arguments"]["eps"] == "float32 = 1e-6"
    assert [line.split(":")[0].strip() for line in made.splitlines() if "TODO" in line] == ["# TODO"]
    value, _ = drafted(kernel + "int main() { dim3 b(32, 4); k<<<dim3(c / 32, r / 4), b, 8 * c>>>(x, r, c, 1e-6f); }")
    assert (value["grid"], value["block"]) == (["columns // 32", "rows // 4"], [32, 4])
    assert "threads" not in value.get("parameters", {})


@pytest.mark.parametrize(
    ("launch", "grid", "block", "shared"),
    [
        ("<256><<<(n + 255) / 256, 256, 256 * 4>>>", "ceil_div(n, BLOCK)", "BLOCK", "4 * BLOCK"),
        ("<256><<<n, 256, 64>>>", "n", "BLOCK", "4 * BLOCK"),
        ("<256><<<(n + 31) / 32, 32, 64>>>", "ceil_div(n, 32)", 32, 64),
        ("<b><<<(n + b - 1) / b, b, b * 4>>>", "ceil_div(n, BLOCK)", "BLOCK", "BLOCK * 4"),
        ("<b><<<40, b>>>", 40, "BLOCK", "4 * BLOCK"),
    ],
)
def test_a_block_of_the_templates_is_swept_and_what_depends_on_it_follows(launch, grid, block, shared):
    body = "extern __shared__ float s[]; x[n] = s[threadIdx.x];"
    kernel = f"template <int BLOCK> __global__ void k(float *x, int n) {{ {body} }}\n"
    value, _ = drafted(f"{kernel}int main() {{ constexpr int b = 128; k{launch}(x, n); }}")
    assert (value["grid"], value["block"], value["shared_bytes"]) == (grid, block, shared)


def test_each_side_of_a_grid_follows_from_that_of_the_block():
    kernel = "template <int BLOCK_X, int BLOCK_Y> __global__ void k(float *x, int m, int n) { x[n] = m; }\n"
    value, _ = drafted(
        f"{kernel}int main() {{ dim3 b(16, 16); k<16, 16><<<dim3((n + 15) / 16, m / 16), b>>>(x, m, n); }}"
    )
    assert (value["grid"], value["block"]) == (["ceil_div(n, BLOCK_X)", "m // BLOCK_Y"], ["BLOCK_X", "BLOCK_Y"])


def test_other_blocks_are_tried_only_where_the_number_of_blocks_may_stay():
    kernel = "__global__ void k(float *x, int n) { x[blockIdx.x * blockDim.x] = 1; }\n"
    value, _ = drafted(kernel + "int main() { k<<<64, 256>>>(x, 16384); }")
    assert (value["grid"], value["block"]) == (64, 256)
    value, made = drafted(kernel.replace("1;", "gridDim.x;") + "int main() { k<<<64, 256>>>(x, 16384); }")
    assert (value["grid"], value["block"]) == (64, "threads")
    assert "grid: 64  # the host's: line 2" in made


@pytest.mark.parametrize(
    ("head", "body", "shared", "block"),
    [
        ("", "", "", "threads"),
        ("__launch_bounds__(256)", "", "", 256),
        ("", "__shared__ float t[256];", "", 256),
        ("", "__shared__ float t[B]; t[threadIdx.x] = 1;", "", 256),
        ("", "__shared__ float t[B / 32]; t[threadIdx.x / 32] = 1;", "", 256),
        ("", "__shared__ float t[32]; t[threadIdx.x / 32] = 1;", "", "threads"),
        ("", "extern __shared__ float t[];", ", 1024", 256),
        ("", "extern __shared__ float t[];", ", n * 4", "threads"),
    ],
)
def test_other_blocks_are_tried_only_where_nothing_else_depends_on_them(head, body, shared, block):
    kernel = f"__global__ void {head} k(float *x, int n) {{ {body} x[blockIdx.x * blockDim.x] = 1; }}\n"
    value, _ = drafted(f"const int B = 256;\n{kernel}int main() {{ k<<<(n + 255) / 256, 256{shared}>>>(x, n); }}")
    assert value["block"] == block


def test_one_size_along_two_sides_of_the_grid_is_that_of_a_matrix():
    kernel = "__global__ void k(float *x, int n) { x[blockIdx.y * n + threadIdx.x] = 1; }\n"
    value, _ = drafted(kernel + "int main() { k<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(x, n); }")
    assert (value["problem"], value["emulate"]) == ({"n": 4096}, {"n": 128})
    kernel = "__global__ void k(float *x, int n) { x[blockIdx.x * 256 + threadIdx.x] = 1; }\n"
    value, _ = drafted(kernel + "int main() { k<<<n / 256, 256>>>(x, n); }")
    assert (value["problem"], value["emulate"]) == ({"n": 10_000_000}, {"n": 10_000})


def test_the_clusters_that_the_host_asks_for_are_those_of_the_file():
    host = "int main() { int size = 4; attribute[0].val.clusterDim.x = size; attribute[0].val.clusterDim.y = 1; }"
    kernel = "__global__ void k(float *x, int n) { extern __shared__ float s[]; x[blockIdx.x * blockDim.x] = n; }"
    value, made = drafted(f"{kernel}\n{host}")
    assert value["cluster"] == 4
    assert "cluster: 4\n" in made  # a fact of the host's code and no guess
    assert value["grid"] == "ceil_div(n, 4 * threads) * 4"
    assert "cluster" not in drafted(kernel)[0]
    foreign = drafted(f"{kernel}\n{host.replace('int size = 4;', '')}")[1]
    assert "cluster: size  # TODO: a value for the host's size\n" in foreign


def test_a_tensor_map_describes_an_array_that_the_user_knows():
    for kind in ("const __grid_constant__ CUtensorMap a_map", "const CUtensorMap *a_map"):
        value, made = drafted(f"__global__ void k({kind}, int m, int n, int k) {{ }}")
        assert value["arguments"]["a_map"] == "float16[m, k] as map[64, 64] swizzle 128"
        assert "TODO: the array that the map describes" in made


@pytest.mark.parametrize("sizes", [("M_GLOBAL", "N_GLOBAL", "K_GLOBAL"), ("num_m", "num_n", "num_k"), ("m", "n", "k")])
def test_the_sides_of_a_product_are_told_by_their_letters(sizes):
    m, n, k = sizes
    signature = f"half *c, const half *a, const half *b, int {m}, int {n}, int {k}, int alpha"
    value, _ = drafted(f"__global__ void k({signature}) {{ }}")
    shapes = [value["arguments"][name] for name in "abc"]
    assert shapes == [f"float16[{m}, {k}]", f"float16[{k}, {n}]", f"out float16[{m}, {n}]"]
    assert value["problem"] == {m: 4096, n: 4096, k: 4096}
    assert value["arguments"]["alpha"] == "int32 = 1"


def test_a_structure_by_value_has_its_members():
    value, _ = drafted(
        "struct View { float *data; int n, pitch[2]; };\n__global__ void k(View v, float2 f, View w) {\n"
        "    if (threadIdx.x < v.n) v.data[threadIdx.x] = w.data[threadIdx.x]; }"
    )
    assert value["arguments"] == {
        "v": {"data": "out float32[n]", "n": "int32", "pitch_0": "int32 = 1", "pitch_1": "int32 = 1"},
        "f": {"f_x": "float32 = 1", "f_y": "float32 = 1"},
        "w": {"w_data": "float32[n]", "w_n": "int32 = 1", "w_pitch_0": "int32 = 1", "w_pitch_1": "int32 = 1"},
    }


def test_a_pointer_to_a_structure_is_left_to_the_user():
    value, made = drafted("struct Thing { int a; double b; };\n__global__ void k(const Thing *x, int n) {}")
    assert value["arguments"]["x"] == "uint8[n]"
    assert "# TODO: the element type of const Thing *" in made


def test_a_pointer_to_a_structure_of_one_type_has_a_column_for_each_member():
    kernel = (
        "struct __align__(8) Pair {{ float a, b; }};\n__global__ void k(Pair *x, int n) {{"
        " if (threadIdx.x < n) {{ x[threadIdx.x].a = 1; {} }} }}"
    )
    value, _ = drafted(kernel.format("x[threadIdx.x].b = 2;"))
    assert value["arguments"]["x"] == "out float32[n, 2]"
    assert list(value["parameters"]) == ["threads"]
    assert drafted(kernel.format(""))[0]["arguments"]["x"] == "out partial float32[n, 2]"


def test_a_local_array_called_like_a_member_is_no_output():
    value, _ = drafted(
        "struct View { float *f; int n; };\n__global__ void k(View v, float *to) {\n"
        "    float f[2]; f[0] = v.f[v.n]; to[0] = f[1]; }"
    )
    assert value["arguments"]["v"]["f"] == "float32[2]"
    assert value["arguments"]["to"] == "out float32[1]"


def test_a_template_with_a_type():
    value, made = drafted(
        "template <typename T, int block> __global__ void k(T *x, int n) { x[blockIdx.x * block + threadIdx.x] = 1; }"
    )
    assert value["kernel"] == "k<float, {block}>"
    assert value["arguments"]["x"] == "out float32[n]"
    assert value["block"] == "block"
    assert "# TODO: the type that stands for T" in made


def test_blocks_with_two_sides():
    value, _ = drafted(
        "__global__ void k(float *x, int w, int h) {"
        "  int i = blockIdx.x * block_size_x + threadIdx.x, j = blockIdx.y * block_size_y + threadIdx.y;"
        "  if (i < w && j < h) x[j * w + i] = 1; }"
    )
    assert value["block"] == ["block_size_x", "block_size_y"]
    assert value["grid"] == ["ceil_div(w, block_size_x)", "ceil_div(h, block_size_y)"]


def test_launch_bounds_say_what_a_block_is():
    assert drafted("__global__ void __launch_bounds__(128) k(float *x, int n) {}")[0]["block"] == 128


def test_a_kernel_that_asks_for_its_block_has_threads_to_sweep():
    value, _ = drafted("__global__ void k(float *x, int n) { x[blockDim.x] = 1; }")
    assert value["block"] == "threads"
    assert len(value["parameters"]["threads"]) == 5


_WORDS = st.sampled_from(
    [
        "float *x",
        "const int *y",
        "int n",
        "int m",
        "T t",
        "float",
        "double a",
        "S *s",
        "float4 *v",
        "bool b",
        "size_t k",
    ]
)
_BODY = st.sampled_from(
    ["x[n] = 1;", "BLOCK", "if (USE_IT)", "blockDim.x", "extern __shared__ float s[];", "x[n] +=", "<"]
)


@given(
    st.lists(_WORDS, max_size=6, unique=True),
    st.lists(_BODY, max_size=4),
    st.sampled_from(["", "template <class T, int>"]),
)
def test_any_draft_is_yaml_with_every_argument(parameters, body, template):
    value, _ = drafted(f"{template} __global__ void k({', '.join(parameters)}) {{ {' '.join(body)} }}")
    assert len(value["arguments"] or {}) == len(parameters)
    assert {"question", "source", "kernel", "emulate", "grid", "block"} <= value.keys()
    assert ("problem" in value) == (value["emulate"] != "full")


def test_what_is_only_asked_for_is_a_switch():
    text = """#if !staged
__global__ void k(float *out, int n) { if (by_warps) out[threadIdx.x] = twice ? 2 : 1 + warps; out[0] = warps ? 1 : 0; }
#endif
"""
    data, _ = drafted(text)
    switches = {"staged": [0, 1], "by_warps": [0, 1], "twice": [0, 1], "warps": [2, 4, 8]}
    assert {name: data["parameters"][name] for name in switches} == switches


def test_a_launch_in_host_code_is_drafted_as_it_stands():
    text = """constexpr int THREADS = 128;
template <typename T, int TILE> __global__ void scale(T *out, const T *in, int rows, int cols) {
  extern __shared__ float tile[]; int c = blockIdx.x * 64 + threadIdx.x, r = blockIdx.y;
  if (r < rows && c < cols) out[r * cols + c] = in[r * cols + c];
}
int main() { int r = 64, c = 4096; float *p, *q;
  scale<__half, 64><<<dim3((c + 63) / 64, r), THREADS, 64 * sizeof(float)>>>(p, q, r, c); }
"""
    _, made = drafted(text, "scale.cu")
    lines = made.splitlines()
    assert 'kernel: "scale<__half, {TILE}>"' in lines
    assert "problem: {rows: 64, cols: 4096}" in lines
    assert 'grid: ["ceil_div(cols, 64)", rows]  # the host\'s: line 7' in lines
    assert "block: 128  # the host's: line 7" in lines
    assert "shared_bytes: 256" in lines
    assert any(line.startswith("  TILE: [64]") for line in lines)
    assert '  in: "float16[rows, cols]"  # inferred: line 4' in lines


@pytest.mark.parametrize(
    "store",
    [
        "*(float2*)(y + 2 * i) = v;",
        "*reinterpret_cast<float2*>(&y[2 * i]) = v;",
        "((float2 *)y)[i] = v;",
        "*((float2*)y + i) = v;",
    ],
)
def test_what_is_stored_through_a_cast_is_an_output(store):
    body = f"int i = threadIdx.x; if (i >= n) return; float2 v = *(float2*)&x[2 * i]; {store}"
    value, _ = drafted(f"__global__ void k(float *y, float *x, int n) {{ {body} }}", "k.cu")
    assert value["arguments"] == {"y": "out float32[2 * n]", "x": "float32[2 * n]", "n": "int32"}


def test_an_index_that_a_condition_lets_reach_a_size_is_a_guess():
    text = "__global__ void k(float *x, int n) { int i = blockIdx.x * 64 + threadIdx.x; if (i <= n) x[i] = 1; }"
    (guess,) = drafted_with_guesses(text).guesses
    assert (guess.key, guess.value) == ("arguments.x", "out float32[n]")
    host = "int main() { float *d; cudaMalloc(&d, (n + 1) * sizeof(float)); k<<<n / 64 + 1, 64>>>(d, n); }"
    assert not drafted_with_guesses(text + host).guesses
    assert '"out float32[n + 1]"' in drafted_with_guesses(text + host).text


def test_an_accumulator_that_the_host_never_clears_is_a_warning():
    text = "__global__ void k(float *s, int n) { if (threadIdx.x < n) atomicAdd(s, 1.0f); }\nint main() { float *d; "
    allocated = "cudaMalloc(&d, sizeof(float)); "
    (warning,) = drafted_with_guesses(f"{text}{allocated}k<<<1, 64>>>(d, 9); }}").warnings
    assert "line 2" in warning
    assert not drafted_with_guesses(f"{text}{allocated}cudaMemset(d, 0, 4); k<<<1, 64>>>(d, 9); }}").warnings
    assert not drafted_with_guesses(text.partition("\n")[0]).warnings


@pytest.mark.parametrize("passed", ["d + 3", "&d[3]"])
def test_a_pointer_into_an_array_is_a_guess(passed):
    text = "__global__ void k(float *x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 1; }\n"
    (guess,) = drafted_with_guesses(f"{text}int main() {{ float *d; k<<<1, 64>>>({passed}, 9); }}").guesses
    assert (guess.key, "line 2" in guess.reason) == ("arguments.x", True)
    assert not drafted_with_guesses(f"{text}int main() {{ float *d; k<<<1, 64>>>(d, 9); }}").guesses


def test_a_number_that_only_conditions_name_and_a_block_are_what_the_host_passes():
    value, _ = drafted(
        "__global__ void k(float *x, int n, int halo, int block) { int i = blockIdx.x * blockDim.x + threadIdx.x;"
        " if (threadIdx.x < halo) x[i + halo] = block; }\n"
        "int main() { float *x; cudaMalloc(&x, n * sizeof(float)); int b = 16;"
        " k<<<(n + b - 1) / b, b>>>(x, n, 3, b); }"
    )
    assert (value["problem"], value["block"], value["grid"]) == ({"n": 10_000_000}, 16, "ceil_div(n, 16)")
    assert value["arguments"] == {
        "x": "out partial float32[n]",
        "n": "int32",
        "halo": "int32 = 3",
        "block": "int32 = 16",
    }


def test_the_length_that_the_host_allocates_is_that_of_the_array():
    kernel = (
        "__global__ void k(float *x, int n, int m) {"
        " if (threadIdx.x < n) for (int r = 0; r < m; r++) x[r * n + threadIdx.x] = 1; }\n"
    )
    host = (
        "int main() {{ float *x; int n = 8, m = 4; cudaMalloc(&x, n * {0} * sizeof(float)); k<<<1, 8>>>(x, n, {1}); }}"
    )
    assert drafted(kernel + host.format("1", "m"))[0]["arguments"]["x"] == "out float32[n]"
    assert drafted(kernel + host.format("n", "n"))[0]["arguments"]["x"] == "out float32[m, n]"


def test_arguments_of_a_template_that_c_plus_plus_deduces():
    kernel = "template <class T, class S> __global__ void k(T *x, S s) { x[threadIdx.x] = s; }\n"
    value, made = drafted(kernel + "int main() { double *x; k<<<1, 32>>>(x, 3); }")
    assert (value["kernel"], value["arguments"]["s"]) == ("k<double, int>", "int32 = 3")
    assert "TODO: the type" not in made


@pytest.mark.parametrize(
    ("host", "emulated"),
    [
        ("", {"rows": 128, "cols": 256}),
        ("void f(int r, int c) { k<<<dim3(1, 1), dim3(16, 16)>>>(x, r, c); }", {"rows": 128, "cols": 256}),
        ("void f(int n) { k<<<dim3(1, 1), dim3(16, 16)>>>(x, n, n); }", {"rows": 128, "cols": 128}),
        ("void f() { int r = 512, c = 512; k<<<dim3(1, 1), dim3(16, 16)>>>(x, r, c); }", {"rows": 128, "cols": 128}),
        (
            "void f() { k<<<dim3(1, 1), dim3(16, 16)>>>(x, 512, 400); }",
            {"rows": 128, "cols": 256},
        ),
    ],
)
def test_sides_that_the_host_does_not_pass_alike_are_emulated_with_different_lengths(host, emulated):
    """Equal sides hide rows and columns that are mixed up."""
    kernel = """__global__ void k(float *x, int rows, int cols) {
  int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows && c < cols) x[r * cols + c] = 1;
}
"""
    assert drafted(kernel + host)[0]["emulate"] == emulated


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("void f(int tokens) { k<<<tokens, 256>>>(x, 8); }", "tokens"),
        ("void f(int t) { k<<<t * 2, 256>>>(x, 8); }", "blocks"),
        ("", "blocks"),
    ],
)
def test_rows_that_only_the_grid_counts_are_called_as_the_host_calls_them(host, name):
    kernel = "__global__ void k(float *x, int n) { if (threadIdx.x < n) x[blockIdx.x * n + threadIdx.x] = 1; }\n"
    values, _ = drafted(kernel + host)
    assert (values["grid"], values["arguments"]["x"]) == (name, f"out float32[{name}, n]")


def test_the_threads_of_a_block_have_a_name_that_the_kernel_does_not_have():
    kernel = """__global__ void k(float *x, int threads) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < threads) x[i] = 1;
}
void f(float *x, int threads) { k<<<(threads + 255) / 256, 256>>>(x, threads); }
"""
    values, _ = drafted(kernel)
    assert (values["block"], list(values["parameters"]), list(values["problem"])) == (
        "threads_",
        ["threads_"],
        ["threads"],
    )


@pytest.mark.parametrize(
    ("fill", "table"),
    [
        ("cudaMemset(t, 0xff, cap * 4);", "inout uint32[capacity] = full((capacity), 4294967295)"),
        ("cudaMemset(t, 0, cap * 4);", "inout uint32[capacity] zeros"),
        ("", "inout uint32[capacity] zeros"),
    ],
)
def test_a_table_holds_what_the_host_sets_its_bytes_to(fill, table):
    """Open addressing never ends in a table without an empty slot."""
    text = f"""__global__ void insert(const unsigned *keys, unsigned *table, unsigned capacity, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned slot = keys[i] & (capacity - 1);
  while (atomicCAS(&table[slot], 0xffffffffu, keys[i]) != 0xffffffffu) slot = (slot + 1) & (capacity - 1);
}}
int main() {{
  int n = 5000; unsigned cap = 16384, *k, *t;
  cudaMalloc(&t, cap * 4); {fill}
  insert<<<(n + 255) / 256, 256>>>(k, t, cap, n);
}}
"""
    values, _ = drafted(text)
    assert (values["arguments"]["table"], values["emulate"]["capacity"]) == (table, 16384)
