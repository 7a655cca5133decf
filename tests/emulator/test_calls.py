"""Calls of device functions."""

import numpy as np
import pytest
from compiling import KERNELS, compile_text
from small_ptx import HEADER

from lab.emulator.api import launch
from lab.emulator.errors import UnsupportedInstruction

FUNCTIONS = """
.func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %a; ld.param.u32 %a, [x]; add.u32 %a, %a, %a;
st.param.b32 [r], %a; ret; }
.func (.param .b32 r) both(.param .b32 x, .param .b32 y) { .reg .b32 %a; .reg .b32 %b; .reg .pred %p;
ld.param.u32 %a, [x]; ld.param.u32 %b, [y]; setp.lt.u32 %p, %a, 5; @%p bra SMALL;
{ .param .b32 q; .param .b32 s; st.param.b32 [q], %a; call.uni (s), twice, (q); ld.param.b32 %a, [s]; }
add.u32 %a, %a, %b; st.param.b32 [r], %a; ret;
SMALL:
st.param.b32 [r], %b; ret; }
.func nothing() { }
"""
KERNEL = (
    HEADER
    + FUNCTIONS
    + """
.visible .entry k(.param .u64 out) {
.reg .b32 %t; .reg .b32 %v; .reg .b64 %d; .reg .b64 %o; .reg .pred %p;
mov.u32 %t, %tid.x; mov.u32 %v, 1000; setp.lt.u32 %p, %t, 30; @!%p bra DONE;
{ .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], %t; st.param.b32 [b], 100;
CALL
ld.param.b32 %v, [c]; }
DONE:
ld.param.u64 %o, [out]; mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], %v; ret; }
"""
)


def run(call):
    out = np.zeros(40, np.uint32)
    emulation = launch(KERNEL.replace("CALL", call), "k", 1, 40, [out])
    assert emulation.clean
    return emulation, out


def test_threads_part_within_a_function_and_meet_after_it():
    t = np.arange(40)
    emulation, out = run("call.uni (c), both, (a, b);")
    np.testing.assert_array_equal(out, np.where(t < 30, np.where(t < 5, 100, 2 * t + 100), 1000))
    stores = [line for line in emulation.lines if line.opcode == "st.global.u32"]
    assert [line.warps for line in stores] == [2]  # all threads store together again


def test_an_empty_function_returns_at_once():
    _, out = run("st.param.b32 [c], %t; call.uni nothing;")
    np.testing.assert_array_equal(out[:30], np.arange(30))


CUDA = """
struct Pair { int a; long long b[2]; char c; };
__device__ __noinline__ Pair swapped(Pair p, float f) {
  Pair q; q.a = (int)p.b[1]; q.b[0] = p.b[0] + (long long)f; q.b[1] = p.a; q.c = p.c + 1; return q;
}
extern "C" __global__ void structures(long long* out) {
  int i = threadIdx.x;
  Pair p; p.a = i; p.b[0] = 10 * i; p.b[1] = 100 * i; p.c = (char)i;
  Pair q = swapped(p, i % 2 ? 0.5f * i : 7.f);
  out[i] = q.a + 1000LL * q.b[0] + 1000000LL * q.b[1] + 1000000000LL * q.c;
}
__device__ __noinline__ unsigned fibonacci(unsigned n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void recursion(unsigned* out) { out[threadIdx.x] = fibonacci(threadIdx.x % 9); }
__device__ __noinline__ int reverse(const int* x, int* y, int n, int depth) {
  int kept[3]; for (int i = 0; i < 3; ++i) kept[i] = x[(depth + i) % n] * (i + 1);
  int below = depth < n ? reverse(kept, y, 3, depth + n) : 0;
  y[depth & 7] += kept[depth % 3];
  return below + kept[0] + kept[1] + kept[2];
}
extern "C" __global__ void locals(int* out) {
  int x[8], y[8]; for (int i = 0; i < 8; ++i) { x[i] = i + threadIdx.x; y[i] = 0; }
  int total = reverse(x, y, 8, threadIdx.x % 4);
  for (int i = 0; i < 8; ++i) total += y[i] * (i + 1);
  out[threadIdx.x] = total;
}
typedef int (*Function)(int, int);
__device__ __noinline__ int plus(int a, int b) { return a + b; }
__device__ __noinline__ int times(int a, int b) { return a * b; }
__device__ __noinline__ int minus(int a, int b) { return a - b; }
__device__ Function table[3] = {plus, times, minus};
extern "C" __global__ void pointers(int* out, int wrong) {
  int i = threadIdx.x;
  Function f = table[i % 3];
  if (wrong && i == 5) f = (Function)(size_t)64;
  out[i] = f(i, 7);
}
struct Shape { __device__ virtual int area() const = 0; __device__ virtual int sides() const { return 4; } };
struct Square : Shape { int a; __device__ int area() const override { return a * a; } };
struct Triangle : Shape { int a, b; __device__ int area() const override { return a * b / 2; }
  __device__ int sides() const override { return 3; } };
__device__ __noinline__ int describe(const Shape* s) { return 10 * s->area() + s->sides(); }
extern "C" __global__ void virtuals(int* out) {
  int i = threadIdx.x; Square s; s.a = i; Triangle t; t.a = i; t.b = 4;
  out[i] = describe(i % 2 ? (Shape*)&s : (Shape*)&t);
}
"""


@pytest.fixture(scope="module")
def compiled():
    return compile_text(CUDA)


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def reverse(x, y, n, depth):
    kept = [x[(depth + i) % n] * (i + 1) for i in range(3)]
    below = reverse(kept, y, 3, depth + n) if depth < n else 0
    y[depth & 7] += kept[depth % 3]
    return below + sum(kept)


def total(thread):
    x, y = [i + thread for i in range(8)], [0] * 8
    found = reverse(x, y, 8, thread % 4)
    return found + sum(y[i] * (i + 1) for i in range(8))


def test_structures_are_passed_and_returned_by_value(compiled):
    out = np.zeros(32, np.int64)
    assert launch(compiled, "structures", 1, 32, [out]).clean
    i = np.arange(32)
    added = np.where(i % 2, i // 2, 7)
    np.testing.assert_array_equal(out, 100 * i + 1000 * (10 * i + added) + 10**6 * i + 10**9 * (i + 1))


def test_a_function_calls_itself(compiled):
    out = np.zeros(40, np.uint32)
    assert launch(compiled, "recursion", 2, 40, [out]).clean
    assert out.tolist() == [fibonacci(i % 9) for i in range(40)]


def test_each_call_has_local_variables_of_its_own(compiled):
    out = np.zeros(32, np.int32)
    assert launch(compiled, "locals", 1, 32, [out]).clean
    assert out.tolist() == [total(i) for i in range(32)]


def test_functions_are_called_through_pointers(compiled):
    out = np.zeros(32, np.int32)
    assert launch(compiled, "pointers", 1, 32, [out, 0]).clean
    wanted = [(i + 7, i * 7, i - 7)[i % 3] for i in range(32)]
    assert out.tolist() == wanted
    (found,) = launch(compiled, "pointers", 1, 32, [out, 1]).findings
    assert (found.kind, found.count, found.thread) == ("out-of-bounds", 1, (5, 0, 0))
    assert "an address without a function" in found.detail


def test_virtual_functions_are_called(compiled):
    out = np.zeros(32, np.int32)
    assert launch(compiled, "virtuals", 1, 32, [out]).clean
    assert out.tolist() == [10 * i * i + 4 if i % 2 else 10 * (i * 4 // 2) + 3 for i in range(32)]


REGISTERS = """
.func (.reg .b32 sum, .reg .pred odd) add(.reg .b32 a, .reg .b64 b) {
.reg .b32 %t; cvt.u32.u64 %t, b; add.u32 sum, a, %t; and.b32 %t, sum, 1; setp.ne.u32 odd, %t, 0; ret; }
.visible .entry k(.param .u64 out) {
.reg .b32 %t; .reg .b32 %v; .reg .b64 %d; .reg .b64 %o; .reg .pred %p;
mov.u32 %t, %tid.x; mov.u64 %d, 5; call (%v, %p), add, (%t, %d); @%p add.u32 %v, %v, 100;
call (%v, _), add, (%v, 1000);
ld.param.u64 %o, [out]; mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], %v; ret; }
"""


def test_registers_and_constants_are_passed():
    out = np.zeros(32, np.uint32)
    assert launch(HEADER + REGISTERS, "k", 1, 32, [out]).clean
    i = np.arange(32) + 5
    np.testing.assert_array_equal(out, i + np.where(i % 2, 1100, 1000))


def test_endless_recursion_is_found():
    text = HEADER + ".func f() { call f; ret; }\n.entry k() { call f; ret; }"
    (found,) = launch(text, "k", 1, 32, []).findings
    assert (found.kind, found.count) == ("out-of-bounds", 32)
    assert "deep need more than 16384 bytes of stack" in found.detail


def test_a_call_with_another_number_of_arguments_is_refused():
    with pytest.raises(UnsupportedInstruction, match="twice has 1 arguments, not 2"):
        run("call.uni (c), twice, (a, b);")


@pytest.mark.parametrize("version", ["11_8", "12_9"])
def test_listings_of_older_compilers_run(version):
    """The listings are NVRTC's own, of a kernel with virtual functions, recursion and printf."""
    out = np.zeros(32, np.int32)
    done = launch((KERNELS / f"calls_nvrtc_{version}.ptx").read_text(), "k", 1, 32, [out])
    assert done.clean
    assert done.printed == "2009 done\n"
    assert out.tolist() == [(i * i if i % 2 else 3 * i) + 1000 * fibonacci(i % 7) for i in range(32)]


def test_a_listing_in_the_shape_of_clangs_runs():
    x = np.arange(8, dtype=np.float32)
    text = (KERNELS / "clang_style.ptx").read_text()
    assert launch(text, "k", 1, 8, [x, np.array([1, 2, 3], np.float32).tobytes()]).clean
    np.testing.assert_array_equal(x, (np.arange(8) + 1) * 3 + 3)


def test_a_provided_function_has_all_of_its_arguments():
    text = KERNEL.replace("CALL", "call.uni (c), vprintf, (a);").replace(".param .b32 a;", ".param .b64 a;")
    with pytest.raises(UnsupportedInstruction, match="the function takes 2 arguments"):
        launch(text.replace("st.param.b32 [a], %t", "st.param.b64 [a], %d"), "k", 1, 32, [np.zeros(32, np.uint32)])
