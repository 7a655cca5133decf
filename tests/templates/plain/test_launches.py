"""Kernel launches in host code."""

from __future__ import annotations

import pytest

from lab.isa.cuda.kernels import read_kernels
from lab.templates.plain.launches import HostLaunch, launched_kernels, read_launch

KERNEL = "namespace ns { constexpr int W = 2; }\n__global__ void k(float *x, int n, int m, float scale) { n = 3; }\n"


def found(host: str, text: str = KERNEL, known: tuple[str, ...] = ("n", "m")) -> HostLaunch:
    whole = f"{text}int main() {{ {host} }}\n"
    return read_launch(whole, read_kernels(whole)[0], known)


@pytest.mark.parametrize(
    ("host", "grid", "block"),
    [
        ("k<<<64, 256>>>(x, n, m, s);", ("64",), ("256",)),
        ("int n = 9; k<<<(n + 255) / 256, 256>>>(x, n, m, s);", ("ceil_div(n, 256)",), ("256",)),
        ("k<<<(count - 1 + 256) / 256, 256>>>(x, count, m, s);", ("(n - 1 + 256) // 256",), ("256",)),
        ("const int b = 128; int g{(c + b - 1) / b}; k<<<g, b>>>(x, c, m, s);", ("ceil_div(n, 128)",), ("128",)),
        ("k<<<div_up((long)c, 4 * 32u), dim3(32, 4)>>>(x, c, m, s);", ("ceil_div(n, 4 * 32)",), ("32", "4")),
        (
            "dim3 b(16, 8, 1), g((w + 15) / 16, h); k<<<g, b, 0, st>>>(x, w, h, s);",
            ("ceil_div(n, 16)", "m"),
            ("16", "8"),
        ),
        (
            "dim3 b{16, 8}, g = dim3(w / b.x, h / b.y); k<<<g, b>>>(x, w, h, s);",
            ("n // 16", "m // 8"),
            ("16", "8"),
        ),
        ("dim3 b(16); k<<<std::min(1 << 10, n), b>>>(x, n, m, s);", ("min(1 << 10, n)",), ("16",)),
        ("const int b(32); k<<<min((n + 3) / 4, 64), b>>>(x, n, m, s);", ("min((n + 3) // 4, 64)",), ("32",)),
        ("dim3 b(16); b.x = 4; k<<<n, b>>>(x, n, m, s);", ("n",), ()),
        ("int g = 1; ++g; k<<<g, 32>>>(x, n, m, s);", (), ("32",)),
        ("int g = 0; occupancy(&g); k<<<g, 32>>>(x, n, m, s);", (), ("32",)),
        ("int g = f ? 1 : 2; k<<<g, 32>>>(x, n, m, s);", (), ("32",)),
        ("int c = 100; k<<<(c + 31) / 32, 32>>>(x, n, m, s);", (), ("32",)),
        ("int g = g + 1; k<<<g, 32>>>(x, n, m, s);", (), ("32",)),
        ("k<<<n, 32;", (), ()),
        ("k<<<n / 64, 256>>>(x, (int)n, m, s);", ("n // 64",), ("256",)),
        ("k<<<dim3(m / 8, n / 16), dim3(8, 16, 1)>>>(x, n, m, s);", ("m // 8", "n // 16"), ("8", "16")),
        ("ns::k<<<DIV_UP(c, 32u), 32 * ns::W>>>(x, (int)c, m, s);", ("ceil_div(n, 32)",), ("64",)),
        ("dim3 b{8, 8}, g = dim3(n, m); k<<<g, b>>>(x, n, m, s);", ("n", "m"), ("8", "8")),
        ("int sms = 0; ask(&sms); k<<<sms, 64>>>(x, n, m, s);", (), ("64",)),
        ("k<<<count(n), threads>>>(x, n, m, s);", (), ()),
        ("int g = 1; g += 1; k<<<g, 32 + 2 * 16>>>(x, n, m, s);", (), ("64",)),
        ("int n = 7; k<<<dim3(n, c), 32>>>(x, c, m, s);", ("7", "n"), ("32",)),
        ("k<<<dim3(n, m), 32>>>(x, m, n, s);", ("m", "n"), ("32",)),
        ("int g = 8; { int g = 8; } k<<<g, 32>>>(x, n, m, s);", ("8",), ("32",)),
    ],
)
def test_grids_and_blocks(host, grid, block):
    launch = found(host)
    assert (launch.grid, launch.block) == (grid, block)


def test_a_source_without_a_launch_says_nothing():
    assert found("") == HostLaunch()
    assert found("other<<<1, 32>>>(x);") == HostLaunch()
    assert found("// k<<<1, 2>>>(x, n, m, s);\n") == HostLaunch()


def test_the_numbers_that_the_host_passes():
    launch = found("const size_t rows = 1u << 20; float e = 1e-5f; k<<<1, 32>>>(x, rows, 3 * 4, e);")
    assert launch.values == {"n": "1048576", "m": "12", "scale": "1e-5"}
    assert found("int c = 64; k<<<1, 32>>>(x, c - 1, -c, -2.f);").values == {"n": "63", "m": "-64", "scale": "-2."}


def test_shared_memory_in_bytes():
    launch = found("int bytes = 2 * n * sizeof(double); k<<<1, 32, bytes>>>(x, n, m, s);")
    assert launch.shared_bytes == "2 * n * 8"
    assert found("k<<<1, 32, 4 * ((n + 3) / 4)>>>(x, n, m, s);").shared_bytes == "4 * ceil_div(n, 4)"
    launch = found("k<<<1, 32, sizeof(unsigned int) + sizeof(Tile)>>>(x, n, m, s);")
    assert (launch.shared_bytes, launch.shared_words) == ("", "sizeof(unsigned int)+sizeof(Tile)")
    assert found("k<<<1, 32, 0>>>(x, n, m, s);").shared_bytes == ""


def test_a_variable_that_stands_for_several_sizes_is_told():
    launch = found("int s = 512; k<<<s / 4, 64>>>(x, s, s, 1.0f);")
    assert (launch.grid, launch.shares) == (("n // 4",), True)
    assert launch.values == {"n": "512", "m": "512", "scale": "1.0"}
    assert not found("k<<<n / 4, 64>>>(x, 512, 512, 1.0f);").shares


def test_arguments_of_a_template_are_its_parameters():
    text = "#define ITEMS 4\ntemplate <class T, int B> __global__ void k(T *x, int n) {}\n"
    launch = found("constexpr int b = 64; k<float, b><<<n / (b * ITEMS), b>>>(x, n);", text, ("n", "B"))
    assert (launch.grid, launch.block) == (("n // (B * 4)",), ("B",))
    assert launch.template == ("float", "64")


@pytest.mark.parametrize(
    ("host", "template"),
    [
        ("int main() { k<__half, 64><<<1, 32>>>(x, n); }", ("__half", "64")),
        ("int main() { using real = double; k<real, 64><<<1, 32>>>(x, n); }", ("double", "64")),
        ("int main() { k<unsigned char, true><<<1, 32>>>(x, n); }", ("unsigned char", "1")),
        ("int main() { k<Pair<float, 2>, W / 2><<<1, 32>>>(x, n); }", ("Pair<float,2>", "8")),
        ("template <class U, int C> void f() { k<U, C><<<1, 32>>>(x, n); }", ("", "C")),
        ("int main() { k<<<1, 32>>>(x, n); }", ()),
    ],
)
def test_arguments_of_a_template(host, template):
    text = "constexpr int W = 16;\ntemplate <typename T, int B> __global__ void k(T *x, int n) {}\n"
    assert read_launch(text + host, read_kernels(text)[0], ["n", "B"]).template == template


def test_a_whole_program():
    text = "template <typename T, int TILE> __global__ void k(T *out, int m, int n) { int step = 3; }\n"
    host = """constexpr int kWarps = 4, kThreads = 32 * kWarps;
#define TILE_M 64
int main() { int rows = 4096, cols = 1 << 10; float *p; cudaMalloc(&p, rows * cols * 4);
  dim3 grid((cols + TILE_M - 1) / TILE_M, (rows + 63) / 64);
  k<__half, 64><<<grid, kThreads, 2 * TILE_M * sizeof(float)>>>(p, rows, cols); }
"""
    assert read_launch(text + host, read_kernels(text)[0], ["m", "n"]) == HostLaunch(
        template=("__half", "64"),
        grid=("ceil_div(n, 64)", "ceil_div(m, 64)"),
        block=("128",),
        shared_bytes="512",
        shared_words="2*TILE_M*sizeof(float)",
        values={"m": "4096", "n": "1024"},
        lengths={"out": "m * n * 4"},
        variables={"out": "p", "m": "rows", "n": "cols"},
        line=6,
    )


def test_a_copy_to_what_a_method_returns():
    source = """__global__ void twice(const float *x, float *y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
    void host(std::vector<float> &from, std::vector<float> &into) {
        float *device_x, *device_y;
        cudaMemcpy(device_x, from.data(), bytes, cudaMemcpyHostToDevice);
        twice<<<4, 64>>>(device_x, device_y);
        cudaMemcpy(into.data(), device_y, bytes, cudaMemcpyDeviceToHost);
    }"""
    (kernel,) = read_kernels(source)
    launch = read_launch(source, kernel, set())
    assert launch.grid == ("4",)
    assert launch.block == ("64",)


def test_a_source_may_end_anywhere_and_nest_deeply():
    host = "dim3 b(16), g = dim3(n / b.x); int c = 4 * sizeof(int); k<<<g, b, static_cast<int>(c)>>>(x, n, m, s);"
    whole = KERNEL + host
    [kernel] = read_kernels(whole)
    assert read_launch(whole, kernel, ["n"]).shared_bytes == "16"
    for end in range(len(KERNEL), len(whole)):
        read_launch(whole[:end], kernel, ["n"])
    assert found(f"k<<<{'(' * 500}n{')' * 500}, 32>>>(x, n, m, s);").grid == ()


def test_the_kernels_that_the_host_launches_in_its_order():
    text = "__global__ void a(int *x) {}\n__global__ void b(int *x) {}\n__global__ void c(int *x) {}\n"
    host = "int main() { b<<<1, 1>>>(p); a<<<1, 1>>>(p); b<<<2, 1>>>(p); other<<<1, 1>>>(p); }"
    assert [kernel.name for kernel in launched_kernels(text + host, read_kernels(text))] == ["b", "a"]


def test_names_are_those_of_the_function_that_launches():
    text = (
        "__global__ void k(float *x, int n) {}\n__global__ void l(float *x, int n) {}\n"
        "void first(int c) { dim3 b(32), g((c + b.x - 1) / b.x); k<<<g, b>>>(x, c); }\n"
        "void second(int c) { dim3 b(64), g(c / b.x); l<<<g, b>>>(x, c); }\n"
    )
    first, second = (read_launch(text, kernel, ("n",)) for kernel in read_kernels(text))
    assert (first.grid, first.block) == (("ceil_div(n, 32)",), ("32",))
    assert (second.grid, second.block) == (("n // 64",), ("64",))
