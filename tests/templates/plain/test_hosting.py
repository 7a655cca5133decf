"""What host code in a source says of a kernel's launch."""

import pytest

from lab.isa.cuda.kernels import read_kernels
from lab.templates.plain.hosting import HostLaunch, host_launch

KERNEL = "template <typename T, int TILE> __global__ void k(T *out, int m, int n) { int step = 3; }\n"
PLAIN = "namespace ns { constexpr int W = 2; __global__ void k(float *out, int m, int n) { } }\n"


def launched(source, names=("m", "n")):
    [kernel] = read_kernels(source)
    return host_launch(source, kernel, names)


def test_a_launch_gives_arguments_of_the_template_and_numbers_behind_names():
    host = """constexpr int kWarps = 4, kThreads = 32 * kWarps;
#define TILE_M 64
int main() { int rows = 4096, cols = 1 << 10; float *p; cudaMalloc(&p, rows * cols * 4);
  dim3 grid((cols + TILE_M - 1) / TILE_M, (rows + 63) / 64);
  k<__half, 64><<<grid, kThreads, 2 * TILE_M * sizeof(float)>>>(p, rows, cols); }
"""
    assert launched(KERNEL + host) == HostLaunch(
        template=("__half", "64"),
        grid=("ceil_div(n, 64)", "ceil_div(m, 64)"),
        block=("128",),
        shared="512",
        shared_words="2*TILE_M*sizeof(float)",
        sizes={"m": "4096", "n": "1024"},
    )


@pytest.mark.parametrize(
    ("launch", "grid", "block"),
    [
        ("k<<<m / 64, 256>>>(p, m, n)", ("m // 64",), ("256",)),
        ("k<<<dim3(n / 8, m / 16), dim3(8, 16, 1)>>>(p, m, n)", ("n // 8", "m // 16"), ("8", "16")),
        ("ns::k<<<DIV_UP(n, 32u), 32 * ns::W>>>(p, (int)m, n)", ("ceil_div(n, 32)",), ("64",)),
        ("dim3 b{8, 8}, g = dim3(m, n); k<<<g, b>>>(p, m, n)", ("m", "n"), ("8", "8")),
        ("k<<<sms, 64>>>(p, m, n)", (), ("64",)),  # nobody knows what the driver answers
        ("k<<<count(m), threads>>>(p, m, n)", (), ()),
        ("k<<<again, 64>>>(p, m, n)", (), ("64",)),
    ],
)
def test_geometries(launch, grid, block):
    host = f"int main() {{ int m, n, sms = 0, again = 1; ask(&sms); again += 1; {launch}; }}"
    found = launched(PLAIN + host)
    assert (found.grid, found.block) == (grid, block)


def test_a_variable_that_stands_for_several_sizes_is_told():
    found = launched(PLAIN + "int main() { int s = 512; k<<<s / 4, 64>>>(p, s, s); }")
    assert (found.grid, found.shares, found.sizes) == (("m // 4",), True, {"m": "512", "n": "512"})


def test_nothing_is_known_without_a_launch():
    assert launched(PLAIN + "// k<<<1, 2>>>(p, m, n);\n") == HostLaunch()
    assert launched(PLAIN + "int main() { other<<<1, 2>>>(p); }") == HostLaunch()


def test_bytes_that_are_not_known_are_told_as_they_stand():
    found = launched(PLAIN + "struct Tile; int main() { k<<<1, 2, sizeof(Tile)>>>(p, m, n); }")
    assert (found.shared, found.shared_words) == ("", "sizeof(Tile)")
