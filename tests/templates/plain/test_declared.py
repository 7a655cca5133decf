"""Declarations of constant memory in a source."""

from __future__ import annotations

from lab.isa.cuda.kernels import read_kernels
from lab.templates.plain.declared import declared_constants

SOURCE = """
typedef float real;
constexpr int R = 3;
#define SIDE 4
__constant__ real filter[2 * R + 1], scale;
static __constant__ int table[SIDE][n];
__constant__ double set = 2.0, also[2] = {1, 2};
__constant__ int of_other, of_function, unknown[sizeof(real) * rows()];
__device__ int f() { return of_function; }
__global__ void k(float *x, int n) { x[n] = filter[0] * scale + table[0][1] + set + unknown[0]; }
__global__ void other(int *x) { *x = of_other; }
"""


def test_variables_that_the_host_sets():
    found = declared_constants(SOURCE, read_kernels(SOURCE)[0], ["n"])
    assert [(one.variable.name, one.variable.dtype, one.shape) for one in found] == [
        ("filter", "float32", ("2 * 3 + 1",)),
        ("scale", "float32", ()),
        ("table", "int32", ("4", "n")),
        ("of_function", "int32", ()),
        ("unknown", "int32", ("",)),
    ]
