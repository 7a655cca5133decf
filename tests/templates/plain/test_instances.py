"""Instances of kernel templates, by the host's launches."""

# ruff: noqa: ISC004 - texts of several lines in a table
from __future__ import annotations

import pytest

from lab.templates.plain.instances import template_instances

KERNEL = "template <typename T, int N = 4> __global__ void k(T *y, const T *x, T a) { y[0] = a * x[N]; }\n"


def expressions(text):
    return [instance.expression for instance in template_instances(KERNEL + text)]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("int main() { k<float><<<1, 2>>>(y, x, a); }", ["k<float>"]),
        ("int main() { k<int, 8><<<1, 2>>>(y, x, a); k<int, 16><<<1, 2>>>(y, x, a); }", ["k<int, 8>", "k<int, 16>"]),
        ("int main() { double *y; k<<<1, 2>>>(y, y, 1.0); }", ["k<double>"]),
        ("int main() { half2 y[4]; k<<<1, 2>>>(y, y, y[0]); }", ["k<half2>"]),
        ("void f(const float *p) { k<<<1, 2>>>(p, p, 1.f); }", ["k<float>"]),
        ("void f(void *p) { k<<<1, 2>>>((int *)p, (int *)p, 1); }", ["k<int>"]),
        ("void f(void *p) { k<<<1, 2>>>(static_cast<int *>(p), p, 1); }", ["k<int>"]),
        ("#define REAL double\nint main() { k<REAL><<<1, 2>>>(y, x, a); }", ["k<double>"]),
        ("int main() { constexpr int M = 32; k<float, M><<<1, 2>>>(y, x, a); }", ["k<float, 32>"]),
        ("int main() { using T = float; k<T><<<1, 2>>>(y, x, a); }", ["k<float>"]),
        ("template <class S> void f(S *p) { k<S><<<1, 2>>>(p, p, *p); }\nint main() { f<int>(0); }", ["k<int>"]),
        ("template <class S> void f(S *p) { k<<<1, 2>>>(p, p, *p); }\nint main() { int *q; f(q); }", ["k<int>"]),
        ("template <int M> void f(int *p) { k<int, M><<<1, 2>>>(p, p, 1); }\ntemplate void f<3>(int *);",
         ["k<int, 3>"]),
        ("void f() { cudaLaunchKernelEx(&config, k<int, 2>, y, x, a); }", ["k<int, 2>"]),
        ("void f() { auto kernel = &k<int, 2>; kernel<<<1, 2>>>(y, x, a); }", ["k<int, 2>"]),
        ("template <class S> struct Runner { void f(S *p) { k<S><<<1, 2>>>(p, p, 1); } };\nRunner<int> r;", ["k<int>"]),
        ("template <class S> struct Runner { void f(S *p); };\ntemplate class Runner<short>;\n"
         "template <class S> void Runner<S>::f(S *p) { k<S><<<1, 2>>>(p, p, 1); }", ["k<short>"]),
        ("template <class S> void f(S &&s) { k<<<1, 2>>>(std::forward<S>(s), 0, 1); }\n"
         "int main() { half *h; f(h); }", ["k<half>"]),
        ("template <class S> void f(S *p) { k<S><<<1, 2>>>(p, p, *p); }\ntemplate <class R> void g(R *p) { f<R>(p); }\n"
         "int main() { g<short>(0); }", ["k<short>"]),
        ("int main() { }", []),
        ("template <int M> void f(float *p) { k<float, M><<<1, 2>>>(p, p, 1); }", []),
    ],
)  # fmt: skip
def test_arguments_are_the_launchs(host, expected):
    assert expressions(host) == expected


def test_a_type_that_nothing_tells_is_assumed_and_said_to_be():
    text = "void f(Tensor y) { DISPATCH(y.type(), [&] { k<scalar_t><<<1, 2>>>(y.data_ptr<scalar_t>(), y, 1); }); }"
    (instance,) = template_instances(KERNEL + text)
    assert (instance.expression, instance.assumed) == ("k<float>", ("T = float",))


def test_types_stand_in_their_namespaces():
    text = "namespace a { struct Pixel { int r; };\n template <class T> __global__ void q(T *x) { x[0] = x[1]; }\n"
    text += "void f(Pixel *p) { q<Pixel><<<1, 2>>>(p); } }"
    assert [instance.expression for instance in template_instances(text)] == ["a::q<a::Pixel>"]
