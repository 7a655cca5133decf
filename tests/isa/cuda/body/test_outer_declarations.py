from __future__ import annotations

from lab.isa.cuda.body.outer_declarations import assigned_in, surroundings
from lab.isa.cuda.syntax_tree import parse, written


def test_what_a_body_may_name():
    text = """#define W (2 * 8)
#define AT(i, n) ((i) * n)
#ifndef T
#define T 4
#endif
static const int H = 3;
int counter = 0;
enum { A = 1, B };
__constant__ float taps[5][7];
__device__ int f(int i) { const int local = 2; return local; }
__global__ void k(float *x) {}
"""
    found = surroundings(text)
    assert {name: written(node) for name, node in found.constants.items()} == {"W": "(2 * 8)", "H": "3", "A": "1"}
    assert found.macros["AT"].parameters == ("i", "n")
    assert set(found.functions) == {"f"}
    assert [written(node) for node in found.arrays["taps"]] == ["5", "7"]


def test_the_variables_that_a_statement_changes():
    assert assigned_in(parse("void f() { a = 1; (b) += 2; c++; --d; e[0] = 1; *g = 2; }").root) == {"a", "b", "c", "d"}
