from __future__ import annotations

import pytest

from lab.isa.cuda.body.limits import Limits
from lab.isa.cuda.body.polynomials import ONE, atom, number
from lab.isa.cuda.body.statements import read_body
from lab.isa.cuda.kernels import read_kernels

N, M = atom("n"), atom("m")


def largest(statements: str):
    text = f"__global__ void k(float *x, const unsigned char *b, int n, int m) {{ {statements} }}"
    body = read_body(text, read_kernels(text)[0])
    assert body is not None
    access = next(access for access in body.accesses if access.array == "x")
    return Limits(body.opaque).largest(access.index, access.bounds)


@pytest.mark.parametrize(
    ("statements", "value"),
    [
        ("int i = blockIdx.x * 64 + threadIdx.x; if (i < n) x[i] = 1;", N - ONE),
        ("int i = threadIdx.x, j = threadIdx.y; if (i < m && j < n) x[j * m + i] = 1;", N * M - ONE),
        ("int i = threadIdx.x; if (i < n * m) { int r = i / m; x[r] = 1; }", N - ONE),
        ("int i = threadIdx.x; if (i < n * m) { int r = i / m; x[(i - r * m) * n + r] = 1; }", N * M - ONE),
        ("if (threadIdx.x / 32 < n) x[threadIdx.x / 32 * m] = 1;", M * N - M),
        ("if (threadIdx.x < n) x[b[threadIdx.x]] = 1;", number(255)),
        ("x[b[0] % 7] = 1;", number(6)),
        ("x[threadIdx.x & 15] = 1;", number(15)),
        ("x[min(threadIdx.x, n - 1)] = 1;", N - ONE),
        ("int i = threadIdx.x; if (i < n) x[max(i - 1, 0)] = 1;", N - number(2)),
        ("int i = b[0] * 7; if (i >= m) i = m - 1; x[i] = 1;", M - ONE),
        ("for (int i = 1; i <= n; i++) x[n - i] = 1;", N - ONE),
        ("for (int i = 0; i < threadIdx.x; i++) if (threadIdx.x < n) x[i] = 1;", N - number(2)),
        ("x[threadIdx.x] = 1;", atom("blockDim.x") - ONE),
        ("if (threadIdx.x < n) for (int d = 1; d < n; d *= 2) x[threadIdx.x - d] = 1;", N - number(2)),
        ("if (threadIdx.x < n) for (int d = n; d > 0; d /= 2) x[threadIdx.x + d] = 1;", N + N - ONE),
    ],
)
def test_the_largest_value_of_an_index(statements, value):
    found = largest(statements)
    assert found is not None
    assert (found.value, found.is_assumed) == (value, False)


def test_a_tile_that_nothing_checks_is_assumed_to_divide_its_size():
    found = largest("for (int t = 0; t < n; t += 16) { if (threadIdx.x < 16) x[t + threadIdx.x] = 1; }")
    assert found is not None
    assert (found.value, found.is_assumed) == (N - ONE, True)


@pytest.mark.parametrize(
    "statements", ["x[((const int *)b)[0]] = 1;", "int i = 3; while (n) { if (m) i++; i--; } x[i] = 1;"]
)
def test_an_index_without_a_bound(statements):
    assert largest(statements) is None


def test_quotients_have_names_and_compare_by_their_operands():
    limits = Limits({})
    few, many = limits.operation("ceil", N - number(3), number(4)), limits.operation("ceil", N, number(4))
    assert limits.larger(few, many) == many
    assert limits.operation("ceil", N, number(4)) == many
    assert (limits.operation("ceil", number(9), number(4)), limits.operation("/", N * M, M)) == (number(3), N)
    assert limits.larger(N - ONE, N) == N
