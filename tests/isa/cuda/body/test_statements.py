"""Accesses of kernels, as the index polynomials that a reader would write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.isa.cuda.body.polynomials import Polynomial, atom, number
from lab.isa.cuda.body.statements import read_body
from lab.isa.cuda.body.symbolic_values import Touch
from lab.isa.cuda.kernels import read_kernels

X, B, D = atom("threadIdx.x"), atom("blockIdx.x"), atom("blockDim.x")


def body_of(statements: str, signature: str = "float *x, float *y, int n", before: str = ""):
    text = f"{before}\n__global__ void k({signature}) {{ {statements} }}"
    found = read_body(text, read_kernels(text)[0])
    assert found is not None
    return found


def touched(statements: str, **more: str) -> list[tuple[str, Touch, Polynomial]]:
    return [(access.array, access.touch, access.index) for access in body_of(statements, **more).accesses]


@pytest.mark.parametrize(
    ("statements", "index"),
    [
        ("int i = blockIdx.x * blockDim.x + threadIdx.x; x[i] = 1;", B * D + X),
        ("x[__umul24(blockIdx.x, blockDim.x) + threadIdx.x] = 1;", B * D + X),
        ("*(x + 2 * threadIdx.x) = 1;", number(2) * X),
        ("float *p = x + n; p += 3; p[threadIdx.x] = 1;", atom("n") + number(3) + X),
        ("float *p = &x[n]; *p = 1;", atom("n")),
        ("float &r = x[threadIdx.x]; r = 1;", X),
        ("x[(threadIdx.x << 2) / 4] = 1;", X),
        ("int i = threadIdx.x; i++; ++i; x[i--] = 1;", X + number(2)),
        ("((float *)((float2 *)x + 1))[0] = 1;", number(2)),
        ("const int N = 4; x[N * threadIdx.x] = 1;", number(4) * X),
        ("auto b = cg::this_thread_block(); x[b.group_index().x * b.size() + b.thread_rank()] = 1;", B * D + X),
        ("auto g = cooperative_groups::this_grid(); x[g.thread_rank()] = 1;", B * D + X),
        ("x[static_cast<int>(threadIdx.x) * 0x10 + 010] = 1;", number(16) * X + number(8)),
        ("{ int n = 3; } x[n] = 1;", atom("n")),
    ],
)
def test_an_index(statements, index):
    assert touched(statements)[-1] == ("x", Touch.STORE, index)


@pytest.mark.parametrize(
    ("before", "index"),
    [
        ("#define AT(i, j, ld) (((j) * (ld)) + (i))", number(7) + X * atom("n")),
        ("__device__ int AT(int a, int b, int c) { return b * c + a; }", number(7) + X * atom("n")),
        ("template <class T> __device__ T AT(T a, T b, T c) { T r = b * c; return r + a; }", number(7) + X * atom("n")),
    ],
)
def test_macros_and_functions_are_executed_in_place(before, index):
    assert touched("x[AT(7, threadIdx.x, n)] = 1;", before=before) == [("x", Touch.STORE, index)]


def test_constants_of_the_source_are_numbers_and_those_of_the_experiment_are_names():
    before = "#define W 8\nconstexpr int H = W * 2;\nenum { Q = 3 };\n#ifndef T\n#define T 4\n#endif"
    assert touched("x[W + H + Q + T] = 1;", before=before)[0][2] == number(27) + atom("T")


def test_the_order_is_that_of_the_program_and_a_compound_assignment_is_an_update():
    found = touched("y[n] = 2 * x[n] + y[n]; y[0] += 1; atomicAdd(&x[1], 1.0f); x[2]++;")
    assert [(array, touch) for array, touch, _ in found] == [
        ("x", Touch.LOAD),
        ("y", Touch.LOAD),
        ("y", Touch.STORE),
        ("y", Touch.UPDATE),
        ("x", Touch.ATOMIC),
        ("x", Touch.UPDATE),
    ]


def test_a_view_as_a_vector_spans_its_lanes():
    (access,) = body_of("reinterpret_cast<float4 *>(x)[threadIdx.x] = make_float4(1, 2, 3, 4);").accesses
    assert (access.index, access.span) == (number(4) * X, 4)


@pytest.mark.parametrize(
    "statements",
    [
        "if (threadIdx.x < n) x[threadIdx.x] = 1;",
        "if (threadIdx.x >= n) return; x[threadIdx.x] = 1;",
        "if (!(n > threadIdx.x)) { return; } x[threadIdx.x] = 1;",
        "x[0] = threadIdx.x < n ? x[threadIdx.x] : 0;",
        "for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = 1;",
        "int i = threadIdx.x; while (i < n) { x[i] = 1; i += blockDim.x; }",
        "bool ok = threadIdx.x < n && x[threadIdx.x] > 0;",
        "if (threadIdx.x < n && threadIdx.x > 3) x[threadIdx.x] = 1;",
    ],
)
def test_the_conditions_of_an_access(statements):
    access = body_of(statements).accesses[0]
    assert access.index - atom("n") + number(1) in [bound.excess for bound in access.bounds]


def test_a_condition_ends_with_its_branch():
    _, second = body_of("if (threadIdx.x < n) { x[0] = 1; } x[1] = 1;").accesses
    assert not second.bounds


def test_branches_of_one_condition_are_sides_of_one_branch():
    first, second = body_of("if (y[0] < 1) x[1] = 1; else x[1] = 2;").accesses[1:]
    assert first.bounds[0].branch == second.bounds[0].branch >= 0
    assert (first.bounds[0].side, second.bounds[0].side) == (True, False)


def test_two_variables_of_a_loop_share_its_turn():
    (access,) = body_of("for (int a = 0, b = n; a < n; a += 4, b += 2) x[a - 2 * b] = 1;").accesses
    assert access.index == -(atom("n") + atom("n"))


def test_a_shared_array_has_an_index_for_each_dimension():
    found = body_of("__shared__ float s[4][9]; s[threadIdx.y][threadIdx.x] = 1; float *q = s[2]; q[3] = 1;")
    assert found.shared[0].indices == (atom("threadIdx.y"), X)
    assert found.shared[0].extents == (number(4), number(9))
    assert not found.accesses


def test_members_of_structures_are_arrays_by_their_paths():
    before = "struct M { int w; float *e; };"
    assert touched("a.e[threadIdx.x * a.w] = 1;", signature="M a", before=before) == [
        ("a.e", Touch.STORE, X * atom("a.w"))
    ]


def test_an_array_that_goes_to_an_unknown_function_escapes():
    assert body_of("mystery(x); y[0] = 1;").escaped == {"x"}


_PIECES = st.sampled_from(
    [
        *(
            "x[i]",
            "= 1;",
            "if (i < n)",
            "{",
            "}",
            "for (;;)",
            "while (i--)",
            "*",
            "&",
            "(",
            ")",
            "[",
            "]",
            "s.t",
            "->q",
        ),
        *("int i = 3;", "return;", "y += n", ";", "switch (n) { case 1: }", "do", "[&](int z) { return z; };", "? :"),
        "i <<= 2;",
    ]
)


@given(st.lists(_PIECES, max_size=12))
def test_any_text_can_be_read(pieces):
    text = f"__global__ void k(float *x, float *y, int n) {{ {' '.join(pieces)} }}"
    for kernel in read_kernels(text):
        read_body(text, kernel)


def test_names_of_unknown_values_depend_on_the_text_alone():
    statements = "int a = 0, b = 0; for (int i = 0; i < n; i += 2) { a += 3; b += a; x[a + b + i / 3] = 1; } x[a] = b;"
    texts = [f"__global__ void k(float *x, int n) {{ {statements} }}{'//' * end}" for end in range(2)]
    first, second = (read_body(text, read_kernels(text)[0]) for text in texts)
    assert first is not None
    assert second is not None
    assert (first.accesses, first.opaque) == (second.accesses, second.opaque)


def test_what_a_constructor_gets_is_read():
    assert touched("Vector v(x[0], x[n]); y[1] = v.first;") == [
        ("x", Touch.LOAD, number(0)),
        ("x", Touch.LOAD, atom("n")),
        ("y", Touch.STORE, number(1)),
    ]
