from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.errors import CompileError
from lab.toolchain.base import CompileRequest, Resources
from lab.toolchain.cubin import image as cubins
from lab.toolchain.cubin.resources import parse_log, resources
from lab.toolchain.select import toolchain

GOLDEN = Path(__file__).parents[1] / "golden"
SOURCE = """
__constant__ float w[64];
extern "C" __global__ void spill(float *C, int n) {
    float a[64];
#pragma unroll
    for (int i = 0; i < 64; i++) a[i] = C[i * n];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 64; i++) C[i * n + threadIdx.x] = a[i] * a[63 - i];
}
extern "C" __global__ void shared(float *C, int n) {
    __shared__ double s[100];
    s[threadIdx.x] = n + 0.7231;
    __syncthreads();
    C[threadIdx.x] = s[n] + w[n];
}
extern "C" __global__ void plain(float *C) { *C = 1; }
"""


# The logs of 13.5 are a compiler's own; those of 11 and 12 were written in the form that these print.
@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            "ptxas-11-sm_70.log",
            {
                "_Z4gemmPKfS0_Pfi": Resources(64, 16, 20, 24, 2064, 396, 0),
                "copy": Resources(8, 0, 0, 0, 0, 368, 0),
            },
        ),
        ("ptxas-12-sm_80.log", {"k": Resources(40, 0, 0, 8, 4224, 380, 2)}),
        (
            "ptxas-13.5-sm_75.log",
            {"k2": Resources(32, 0, 0, 128, 800, 372, 1), "spill": Resources(32, 80, 108, 80, 0, 364, 1)},
        ),
        (
            "ptxas-13.5-sm_90.log",
            {"k2": Resources(32, 0, 0, 128, 800, 0, 1), "spill": Resources(32, 80, 112, 80, 0, 0, 1)},
        ),
    ],
)
def test_logs_of_three_releases(log, expected):
    assert parse_log((GOLDEN / log).read_text()) == expected


def test_nvrtc_writes_the_stack_line_with_a_prefix():
    log = (
        "ptxas info    : Compiling entry function 'k' for 'sm_90'\n"
        "ptxas info    : Function properties for k\n"
        "ptxas         .     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Used 21 registers, used 1 barriers, 4224 bytes smem\n"
    )
    assert parse_log(log) == {"k": Resources(21, 4, 12, 8, 4224, 0, 1)}


@pytest.mark.parametrize("log", ["", "warning: nothing of ptxas", "ptxas info : Used 3 registers"])
def test_a_log_without_kernels(log):
    assert parse_log(log) == {}


@pytest.fixture(scope="module", params=["sm_75", "sm_80", "sm_90", "sm_120"])
def built(request):
    return toolchain("nvrtc").compile(CompileRequest(SOURCE, "kernel.cu", request.param, ("--maxrregcount=32",)))


def test_the_image_agrees_with_the_log(built):
    logged, image = parse_log(built.log), cubins.kernels(built.cubin)
    assert set(logged) == set(image) == {"spill", "shared", "plain"}
    for name, used in logged.items():
        found = image[name]
        assert (found.registers, found.shared_bytes) == (used.registers, used.shared_bytes)
        assert (found.stack_bytes, found.barriers) == (used.stack_bytes, used.barriers)
        assert used.constant_bytes in (0, found.constant_bytes)
    assert image["shared"].shared_bytes == 800
    assert logged["spill"].spill_bytes > 0


def test_constant_bytes_are_never_missing(built):
    assert all(used.constant_bytes >= 8 for used in built.resources.values())  # at least the pointer


def test_without_a_log_only_kernels_without_stack_are_known(built):
    with pytest.raises(CompileError, match="spills of kernel 'spill'"):
        resources("", built.cubin)
    log = built.log.replace("'plain'", "'another'")
    assert resources(log, built.cubin)["plain"] == built.resources["plain"]


@pytest.mark.parametrize("cut", [0, 5, 63, 200, 0.5, 0.99])
def test_a_truncated_image_is_refused(built, cut):
    part = built.cubin[: int(cut if isinstance(cut, int) else cut * len(built.cubin))]
    with pytest.raises(ValueError, match=r"ELF|cubin"):
        cubins.kernels(part)


def test_an_image_that_is_no_cubin():
    with pytest.raises(CompileError, match="cannot read"):
        resources("", b"MZ" + bytes(100))


def test_parameters_lie_where_the_constant_bank_aligns_them():
    source = """
struct __align__(64) Map { unsigned long long words[16]; };
extern "C" __global__ void maps(int m, const __grid_constant__ Map map, float* C, char flag) {
    *C = m + map.words[m] + flag;
}
extern "C" __global__ void plain(int m, double x, char flag, float* C) { *C = m + x + flag; }
extern "C" __global__ void none() {}
"""
    made = toolchain("nvrtc").compile(CompileRequest(source=source, name="maps.cu", arch="sm_90"))
    assert cubins.parameter_offsets(made.cubin, "maps") == (0, 48, 176, 184)  # the bank's parameters begin at 0x210
    assert cubins.parameter_offsets(made.cubin, "plain") == (0, 8, 16, 24)
    assert cubins.parameter_offsets(made.cubin, "none") == ()
    with pytest.raises(ValueError, match="not a complete cubin"):
        cubins.parameter_offsets(made.cubin[:-200], "maps")


def test_a_cluster_has_the_blocks_that_its_kernel_says():
    source = """
extern "C" __global__ void __cluster_dims__(3, 2, 1) six(float* C) { C[blockIdx.x] = 1; }
extern "C" __global__ void alone(float* C) { C[blockIdx.x] = 1; }
"""
    made = toolchain("nvrtc").compile(CompileRequest(source=source, name="clusters.cu", arch="sm_90"))
    found = cubins.kernels(made.cubin)
    assert (found["six"].cluster, found["alone"].cluster) == (6, 1)
