"""Drafts of kernels whose bodies say everything: no host code, nothing in their heads but names."""

from __future__ import annotations

import pytest

from lab.isa.cuda.body.statements import read_body
from lab.isa.cuda.kernels import read_kernels
from lab.isa.cuda.names import expected_macros, used_names
from lab.templates.plain.inference.infer import Known, infer


def inferred(
    text: str,
    block: tuple[str, ...] = (),
    grid: tuple[str, ...] = (),
    lengths: dict[str, str] | None = None,
    numbers: dict[str, int] | None = None,
):
    kernel = read_kernels(text)[0]
    body = read_body(text, kernel)
    assert body is not None
    arrays = [parameter.name for parameter in kernel.parameters if parameter.is_pointer]
    integers = [
        parameter.name for parameter in kernel.parameters if not parameter.is_pointer and parameter.dtype == "int32"
    ]
    parameters = [macro.name for macro in expected_macros(text)]
    return infer(
        body,
        Known(
            arrays,
            integers,
            parameters,
            {},
            block,
            grid,
            used_names(text),
            lengths or {},
            dict.fromkeys(arrays, 4),
            {},
            numbers or {},
        ),
    )


ROW_COLUMN = "int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;"


def test_a_product_of_square_matrices():
    inference = inferred(
        f"__global__ void k(const float *a, const float *b, float *c_, int n) {{ {ROW_COLUMN} if (r < n && c < n) {{"
        " float s = 0; for (int i = 0; i < n; i++) s += a[r * n + i] * b[i * n + c]; c_[r * n + c] = s; } }"
    )
    assert {name: (one.shape, one.direction) for name, one in inference.arrays.items()} == {
        "a": (("n", "n"), ""),
        "b": (("n", "n"), ""),
        "c_": (("n", "n"), "out"),
    }
    assert inference.grid == ("ceil_div(n, threads_x)", "ceil_div(n, threads_y)")
    assert inference.block == ("threads_x", "threads_y") == tuple(inference.threads)
    assert (inference.sizes, inference.degrees) == (("n",), {"n": 2})


@pytest.mark.parametrize(
    ("head", "statements", "block"),
    [
        ("", "__shared__ float s[128]; s[threadIdx.x] = x[threadIdx.x];", ("128",)),
        ("", "__shared__ float s[2 * T]; s[threadIdx.x + blockDim.x] = x[threadIdx.x];", ("T",)),
        ("", "__shared__ float s[8][16]; s[threadIdx.y][threadIdx.x] = x[threadIdx.x];", ("16", "8")),
        ("", "__shared__ float s[8 * 16]; s[threadIdx.y * 16 + threadIdx.x] = x[threadIdx.x];", ("16", "8")),
        ("", "__shared__ float s[8]; s[threadIdx.x / 32] = x[threadIdx.x];", ("256",)),
        ("", "__shared__ float s[32]; s[threadIdx.x >> 5] = x[threadIdx.x];", ("threads",)),
        ("", "for (int i = threadIdx.x; i < n; i += 96) x[i] = 1;", ("96",)),
        ("", "int i = blockIdx.x * 64 + threadIdx.x; if (i < n) x[i] = 1;", ("64",)),
        ("#define W 32\n", "int i = blockIdx.x * W + threadIdx.x; if (i < n) x[i] = 1;", ("32",)),
        ("", "x[0] = n;", ("1",)),
        ("", "for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = 1;", ("threads",)),
    ],
)
def test_the_block(head, statements, block):
    assert inferred(f"{head}__global__ void k(float *x, int n) {{ {statements} }}").block == block


@pytest.mark.parametrize(
    ("statements", "grid"),
    [
        ("int i = blockIdx.x * 64 + threadIdx.x; if (i < n) x[i] = 1;", ("ceil_div(n, 64)",)),
        ("int i = 4 * (blockIdx.x * 64 + threadIdx.x); if (i < n) x[i] = 1;", ("ceil_div(n, 256)",)),
        ("int i = blockIdx.x * 64 + threadIdx.x + 1; if (i < n - 1) x[i] = 1;", ("ceil_div(n - 2, 64)",)),
        ("int r = (blockIdx.x * 64 + threadIdx.x) / 32; if (r < n) x[r] = 1;", ("ceil_div(32 * n, 64)",)),
        ("for (int r = blockIdx.x; r < n; r += gridDim.x) x[r] = 1;", ("n",)),
        ("x[blockIdx.x * 64 + threadIdx.x] = n;", ("ceil_div(n, 64)",)),
        ("for (int i = threadIdx.x; i < n; i += 32) x[blockIdx.x * n + i] = 1;", ("blocks",)),
        ("if (blockIdx.x == 0) for (int i = 0; i < n; i++) x[i] = 1;", ("1",)),
        ("x[threadIdx.x] = n;", ("1",)),
    ],
)
def test_the_grid(statements, grid):
    assert inferred(f"__global__ void k(float *x, int n) {{ {statements} }}").grid == grid


def test_a_number_of_rows_that_only_the_grid_knows_is_a_size():
    inference = inferred(
        "__global__ void k(float *x, int n) { if (threadIdx.x < n) x[blockIdx.x * n + threadIdx.x] = 1; }"
    )
    assert (inference.free, inference.arrays["x"].shape) == ({"blocks": "n"}, ("blocks", "n"))


def test_a_leading_dimension_is_the_length_of_a_row():
    inference = inferred(
        f"__global__ void k(float *a, int lda, int m, int n) {{ {ROW_COLUMN} if (r < m && c < n) a[r * lda + c] = 1; }}"
    )
    assert (inference.derived, inference.sizes, inference.arrays["a"].shape) == ({"lda": "n"}, ("m", "n"), ("m", "n"))


@pytest.mark.parametrize(
    ("statements", "shape", "direction"),
    [
        ("if (i > 0 && i < n - 1) y[i] = x[i - 1] + x[i + 1];", ("n",), "out partial"),
        ("if (i < n) y[i] = x[n - 1 - i];", ("n",), "out"),
        ("if (i < n) atomicAdd(&y[i % 8], x[i]);", ("8",), "inout"),
        ("if (i == 0) { y[0] = x[0]; for (int j = 1; j < n; j++) y[j] = y[j - 1] + x[j]; }", ("n",), "out"),
        ("if (i < n && x[i] > 0) y[i] = 1;", ("n",), "out partial"),
        ("if (i < n) { if (x[i] > 0) y[i] = 1; else y[i] = 2; }", ("n",), "out"),
        ("if (i < n) y[i] = max(x[i], y[i]);", ("n",), "inout"),
    ],
)
def test_the_direction(statements, shape, direction):
    index = "int i = blockIdx.x * 64 + threadIdx.x;"
    inference = inferred(f"__global__ void k(const float *x, float *y, int n) {{ {index} {statements} }}").arrays
    assert (inference["y"].shape, inference["y"].direction, inference["x"].shape) == (shape, direction, ("n",))


def test_an_index_from_data_is_a_guess_unless_the_host_allocates_the_array():
    text = "__global__ void k(const int *x, int *y, int n) { int i = threadIdx.x; if (i < n) atomicAdd(&y[x[i]], 1); }"
    assert inferred(text.replace("atomicAdd(&y[x[i]], 1)", "y[x[i]] = 1")).arrays["y"].guess
    inference = inferred(text, lengths={"y": "4 * n + 8"}).arrays["y"]
    assert (inference.guess, inference.shape, inference.accumulates) == ("", ("n + 2",), True)


def test_what_a_counter_places_fills_a_part_of_the_array():
    text = """__device__ int count;
__global__ void k(const int *x, int *y, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n && x[i] > 0) y[atomicAdd(&count, 1)] = x[i];
}"""
    assert inferred(text, lengths={"y": "4 * n"}).arrays["y"].direction == "out partial"


@pytest.mark.parametrize(("rows", "shape"), [(128, ("n", "c")), (64, ("64 * c",))])
def test_a_length_of_the_hosts_numbers_is_that_of_the_sizes_which_have_them(rows, shape):
    text = f"__global__ void k(float *x, int n, int c) {{ {ROW_COLUMN} if (r < n && col < c) x[r * c + col] = 1; }}"
    inference = inferred(
        text.replace(", c =", ", col ="), lengths={"x": f"4 * {rows} * c"}, numbers={"n": 128, "c": 96}
    )
    assert inference.arrays["x"].shape == shape


def test_the_hosts_number_of_blocks_counts_where_the_kernel_only_compares_it():
    text = "__global__ void k(float *x, int n) { int i = threadIdx.x; if (blockIdx.x == 0) { if (i < n) x[i] = 1; } }"
    assert inferred(text, ("256",), ("2",)).grid == ("2",)


def test_a_condition_that_reaches_a_size_is_a_guess():
    inference = inferred("__global__ void k(float *x, int n) { if (threadIdx.x <= n) x[threadIdx.x] = 1; }").arrays["x"]
    assert (inference.shape, bool(inference.guess)) == (("n",), True)


def test_dynamic_shared_memory():
    inference = inferred(
        "__global__ void k(float *x, int n) { extern __shared__ double s[]; s[threadIdx.x + n] = x[threadIdx.x]; }"
    )
    assert (inference.shared_bytes, inference.shared_line) == ("8 * n + 8 * threads", 1)


def test_the_launch_of_the_host_counts():
    inference = inferred("__global__ void k(float *x, int n) { x[blockIdx.x] = n; }", ("1",), ("512",))
    assert (inference.block, inference.grid, inference.arrays["x"].shape) == (("1",), ("512",), ("512",))


def test_a_number_that_only_picks_a_row_is_no_size():
    text = f"__global__ void k(float *x, int n, int row) {{ {ROW_COLUMN} x[r * n + c] += x[row * n + c]; }}"
    inference = inferred(text)
    assert (inference.sizes, inference.arrays["x"].shape) == (("n",), ("n", "n"))


def test_blocks_that_count_each_others_rows_are_as_many_along_both_axes():
    inference = inferred(
        "__global__ void k(float *to, const float *from) {"
        " int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, w = gridDim.x * 8;"
        " to[(blockIdx.x * 8 + threadIdx.y) * w + blockIdx.y * 8 + threadIdx.x] = from[y * w + x]; }"
    )
    assert (inference.grid, inference.free) == (("blocks", "blocks"), {"blocks": "8"})
    assert inference.arrays["to"].shape == inference.arrays["from"].shape == ("blocks", "8", "blocks", "8")


def test_a_grid_of_a_kernel_that_does_not_check_its_size_is_a_guess():
    text = "__global__ void k(float *x, int n) { int i = blockIdx.x * 64 + threadIdx.x; x[i] = 1; }"
    inference = inferred(text)
    assert (inference.grid, inference.arrays["x"].shape, inference.sizes) == (("ceil_div(n, 64)",), ("n",), ("n",))
    assert "checks none of its sizes" in inference.grid_guess
    assert not inferred(text.replace("x[i]", "if (i < n) x[i]")).grid_guess
    assert not inferred(text.replace(", int n", "")).grid_guess
