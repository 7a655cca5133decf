from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.isa.cuda.kernels import read_kernels
from lab.isa.cuda.struct_declarations import elements_of, parts_of, read_structures

SOURCE = """
typedef float real;
struct Shape { int rows, cols; };
template <int N> struct Counted { int values[N]; };
struct Base { int a; };
struct Derived : Base { int b; };
struct Bits { unsigned a : 4, b : 4; };
struct __align__(16) View {
    const real *data = nullptr, *end;   // two pointers
    Shape shape;
    unsigned char pad[2];
    float2 origin;
    static constexpr int RANK = 2;
    __device__ float operator()(int i) const { return data[i]; }
    __host__ __device__ int size() const;
};
typedef struct { double dt; bool on; } Step;
__global__ void k(View v, const Step *p, const Step s, Derived d, Bits b, float4 f, int n) {}
"""


def members(name):
    return [(one.name, one.dtype, one.is_pointer) for one in read_structures(SOURCE).get(name, ())]


def test_members_in_order():
    assert members("View") == [
        ("data", "float32", True),
        ("end", "float32", True),
        ("shape_rows", "int32", False),
        ("shape_cols", "int32", False),
        ("pad_0", "uint8", False),
        ("pad_1", "uint8", False),
        ("origin_x", "float32", False),
        ("origin_y", "float32", False),
    ]
    assert members("Step") == [("dt", "float64", False), ("on", "bool", False)]


@pytest.mark.parametrize("name", ["Counted", "Derived", "Bits"])
def test_what_is_not_plain_is_left_out(name):
    assert members(name) == []


def test_parameters_by_value():
    structures = read_structures(SOURCE)
    [kernel] = read_kernels(SOURCE)
    parts = {parameter.name: [part.name for part in parts_of(parameter, structures)] for parameter in kernel.parameters}
    assert parts["s"] == ["dt", "on"]
    assert parts["f"] == ["x", "y", "z", "w"]
    assert [parts[name] for name in ("p", "d", "b", "n")] == [[], [], [], []]
    [grid] = read_kernels("__global__ void k(const dim3 grid) {}")[0].parameters
    assert [(one.name, one.dtype) for one in parts_of(grid, {})] == [("x", "uint32"), ("y", "uint32"), ("z", "uint32")]


def test_elements_behind_a_pointer():
    structures = read_structures(SOURCE)
    view, steps, *_ = read_kernels(SOURCE)[0].parameters
    assert [one.name for one in elements_of(steps, structures)] == ["dt", "on"]
    assert elements_of(view, structures) == ()
    assert elements_of(replace(view, pointer=1), structures) == ()  # whose members are pointers


@given(st.text("struct S{};,*[]()=:<>#intfloat \n0123", max_size=80))
def test_any_text_is_read(text):
    read_structures(text)
