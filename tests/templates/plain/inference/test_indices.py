"""Contents of index arrays, as drafts give them."""

import pytest

from lab.isa.cuda.kernels import read_kernels
from lab.templates.plain.draft import drafted

CSR = """template <typename I, typename T>
__global__ void spmv(I rows, const I *start, const I *column, const T *value, const T *x, T *y) {{
  I row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  T s = 0;
  for (I e = start[row]; e < start[row + 1]; {step}) s += value[e] * x[column[e]];
  y[row] = s;
}}
void f(int n, int *p, int *c, double *v, double *x, double *y) {{
  spmv<int, double><<<(n + 63) / 64, 64>>>(n, p, c, v, x, y);
}}
"""
INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;"


def arguments(text):
    draft = drafted(text, "k.cu", read_kernels(text)[0])
    words = [line.strip().split("  #")[0] for line in draft.text.splitlines()]
    return dict(line.replace('"', "").split(": ", 1) for line in words if ": " in line), draft.guesses


@pytest.mark.parametrize("step", ["++e", "e += 1"])
def test_row_pointers_ascend_and_columns_are_those_of_the_vector(step):
    drafted_arguments, guesses = arguments(CSR.format(step=step))
    assert drafted_arguments["start"] == "int32[rows + 1] = 4 * arange(rows + 1)"
    assert drafted_arguments["column"] == "int32[4 * rows] uniform 0 256"
    assert (drafted_arguments["value"], drafted_arguments["x"]) == ("float64[4 * rows]", "float64[256]")
    assert guesses == ()


@pytest.mark.parametrize(
    ("statement", "host", "index", "array"),
    [
        ("y[i] = x[at[i]];", "", "int32[n] uniform 0 256", "float32[256]"),
        ("y[i] = x[at[i] * c + i % c];", "", "int32[n] uniform 0 256", "float32[256, c]"),
        ("y[i] = x[at[i]];", "cudaMalloc(&x, 4 * 50);", "int32[n] uniform 0 50", "float32[50]"),
        ("y[i] = x[at[i]];", "cudaMalloc(&x, 4 * (n + 2));", "int32[n] uniform 0 n+2", "float32[n + 2]"),
        ("atomicAdd(&x[at[i]], y[i]);", "", "int32[n] uniform 0 256", "inout float32[256] zeros"),
    ],
)
def test_indices_are_within_what_they_index(statement, host, index, array):
    text = f"__global__ void k(float *x, float *y, const int *at, int n, int c) {{ {INDEX} {statement} }}"
    host = f"void f(float *x, float *y, int *at, int n, int c) {{ {host} k<<<(n + 63) / 64, 64>>>(x, y, at, n, c); }}"
    drafted_arguments, guesses = arguments(f"{text}\n{host}")
    assert (drafted_arguments["at"].replace("uniform 0 2+n", "uniform 0 n+2"), drafted_arguments["x"]) == (index, array)
    assert guesses == ()


def test_where_equal_indices_race_nothing_is_chosen():
    text = f"__global__ void k(float *x, const int *at, int n) {{ {INDEX} x[at[i]] = 1; }}"
    assert [guess.key for guess in arguments(text)[1]] == ["arguments.x"]
