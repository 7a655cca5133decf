from __future__ import annotations

import pytest

from lab.isa.cuda.body.limits import Limits
from lab.isa.cuda.body.polynomials import ONE, ZERO, atom, number
from lab.isa.cuda.body.statements import read_body
from lab.isa.cuda.kernels import read_kernels
from lab.templates.plain.inference.arrays import infer_array, rounded

N, M = atom("n"), atom("m")


def use(statements: str, array: str = "y"):
    text = f"__global__ void k(const float *x, float *y, int n, int m) {{ int i = threadIdx.x; {statements} }}"
    body = read_body(text, read_kernels(text)[0])
    assert body is not None
    return infer_array(array, body, Limits(body.opaque), ())


def test_the_uses_of_an_array():
    found = use("if (i < n) y[i] = x[i];")
    assert (found.shape, found.is_stored, found.is_loaded, found.is_partial) == ((N,), True, False, False)
    found = use("if (i < n) y[i] = x[i];", "x")
    assert (found.shape, found.is_stored, found.is_loaded) == ((N,), False, True)
    found = use("if (i < n) atomicAdd(&y[0], x[i]);")
    assert (found.shape, found.accumulates, found.is_loaded) == ((ONE,), True, True)
    assert use("if (i < n) y[i] += x[i];").accumulates is False
    assert use("y[(int)x[i]] = 1;").is_data_indexed


@pytest.mark.parametrize(
    ("statements", "shape"),
    [
        ("int j = threadIdx.y; if (i < n && j < m) y[j * n + i] = 1;", (M, N)),
        ("int j = threadIdx.y; if (i < n && j < m) y[i * m + j] = 1;", (N, M)),
        ("int j = threadIdx.y; if (i < n && j < m) y[2 * (j * n + i)] = 1;", (number(2) * M * N,)),
        (
            "int j = threadIdx.y, l = threadIdx.z; if (i < n && j < m && l < 3) y[(l * m + j) * n + i] = 1;",
            (number(3), M, N),
        ),
        ("for (int t = 0; t < n; t += 4) for (int l = 0; l < 4; l++) y[t + l] = 1;", (N,)),
    ],
)
def test_dimensions_follow_from_strides(statements, shape):
    assert use(statements).shape == shape


def test_a_branch_that_the_other_side_completes_leaves_out_nothing():
    assert not use("if (i < n) { if (x[i] > 0) y[i] = 1; else y[i] = 2; }").is_partial
    assert use("if (i < n) { if (x[i] > 0) y[i] = 1; }").is_partial
    assert use("if (i < n && i % 2 == 0) y[i] = 1;").is_partial
    assert not use("if (i < n && threadIdx.y == 0) y[i] = 1;").is_partial


def test_sizes_are_rounded_up_and_never_down():
    limits = Limits({})
    assert rounded(N - ONE, limits) == N
    assert rounded(N + ONE, limits) == N + ONE
    assert rounded(N * M - N - ONE, limits) == N * M
    assert rounded(N * M + N, limits) == N * M + N
    assert rounded(number(7), limits) == number(7)
    assert rounded(ZERO, limits) == ZERO
