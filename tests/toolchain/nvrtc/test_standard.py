from __future__ import annotations

import pytest

from lab.templates.plain.template import implied_headers
from lab.toolchain.base import CompileRequest, warnings_in
from lab.toolchain.nvrtc import standard as headers_of_lab
from lab.toolchain.nvrtc.compiler import find_nvrtc
from lab.toolchain.nvrtc.headers import Headers, embed
from lab.toolchain.nvrtc.standard import IMPLICIT, replaced, standard, uses_std

NVRTC = find_nvrtc()


def ptx(source):
    assert NVRTC is not None
    return NVRTC.compile(CompileRequest(source, "kernel.cu", "sm_90")).ptx


def test_headers_of_the_host_are_empty():
    for name in ("cublas_v2.h", "helper_cuda.h", "omp.h", "nvrtc.h", "cuda_gl_interop.h"):
        assert replaced(name) == ""  # also where it is installed
    for name in ("stdio.h", "sys/time.h"):
        assert standard(name) == ""
    assert standard("vector") == standard("vector", with_std=False)
    assert "namespace std {" in standard("iostream")
    assert standard("cutlass/util/helper_cuda.hpp") == ""
    assert standard("mine.h") is None
    assert standard("curand_kernel.h") is None  # device code uses it


def test_headers_that_nvrtc_refuses_are_replaced():
    assert replaced("thrust/device_vector.h") is not None
    assert replaced("cub/device/device_scan.cuh") == "namespace cub {}\n"
    assert replaced("cub/block/block_scan.cuh") is None
    assert "cub/block/block_reduce.cuh" in replaced("cub/cub.cuh")
    assert "CUtensorMap" in replaced("cuda.h")
    assert replaced("cutlass/cluster_launch.hpp") == ""
    assert replaced("cuda_fp16.h") is None


def test_what_takes_seconds_to_compile_is_given_to_sources_that_name_std():
    assert "cuda/std/tuple" in standard("tuple")
    assert "cuda/std/tuple" not in standard("tuple", with_std=False)
    assert uses_std("std :: min(a, b)")
    assert not uses_std("using namespace std; // vector")


def test_every_text_compiles():
    names = (
        "cstdint inttypes.h cfloat climits cmath algorithm utility limits cstdlib cstring cstdio cstddef cuda.h vector"
    )
    every = "".join(f"#include <{name}>\n" for name in (*names.split(), *names.split()))
    assert ".entry k" in ptx(f'{every}using namespace std;\nextern "C" __global__ void k() {{}}')


def every_name():
    """Every header that lab answers with a text of its own."""
    c_headers = {f"{name}.h" for name in headers_of_lab.C_HEADERS}
    of_cuda = {"cuda.h", "cudaTypedefs.h", "cuda_device_runtime_api.h", *headers_of_lab._HOST_ALONE_OF_CUDA}
    return sorted(c_headers | headers_of_lab._CPP_HEADERS | headers_of_lab._HOST_ALONE | of_cuda)


@pytest.mark.parametrize("with_std", [False, True])
def test_headers_go_together_in_pairs(with_std):
    # Each is read before and behind each other one; what two of them declared would be declared twice.
    names = every_name()
    orders = (names,) if with_std else (names, names[::-1])  # what CUDA has of std takes seconds
    sources = ["".join(f"#include <{name}>\n" for name in order) for order in orders]
    uses = "std::min(1, 2)" if with_std else "1"
    assert replaced(names[0]) is not None or standard(names[0]) is not None
    for source in sources:
        assert ".entry k" in ptx(f'{source}extern "C" __global__ void k(CUtensorMap x, int *y) {{ *y = {uses}; }}')


def test_types_of_the_driver_are_declared_once_for_headers_of_cuda_too(tmp_path):
    (tmp_path / "cuda.h").write_text("typedef struct CUtensorMap_st { int x; } CUtensorMap;\n")
    (tmp_path / "user.h").write_text("#include <cuda.h>\nCUtensorMap *of_cuda;\n")
    made = embed('#include "user.h"\n#include <cudaTypedefs.h>\n', "k.cu", {}, Headers(tmp_path))
    declaring = {name for name, text in made.texts.items() if "CUtensorMap_st" in text}
    assert declaring == {"cuda.h", "/standard/cuda.h"}  # one text under two names, with one guard
    assert made.texts["cuda.h"] == made.texts["/standard/cuda.h"]


def test_values_are_those_of_the_hosts_headers():
    stored = ["FLT_MAX", "(float)INFINITY", "(float)M_PI", "(float)INT_MAX", "std::numeric_limits<float>::lowest()"]
    stores = " ".join(f"x[{i}] = {value};" for i, value in enumerate(stored))
    headers = "".join(f"#include <{name}>\n" for name in ("float.h", "math.h", "climits", "limits"))
    found = ptx(f"{headers}__global__ void k(float *x) {{ {stores} }}").lower()
    for bits in (0x7F7FFFFF, 0x7F800000, 0x40490FDB, 0x4F000000, 0xFF7FFFFF):
        signed = bits - (1 << 32) if bits >> 31 else bits
        assert any(written in found for written in (f"0f{bits:08x}", f" {signed}", f" {bits}")), hex(bits)


@pytest.mark.parametrize("call", ["sqrt", "abs", "exp", "isnan", "floor"])
def test_mathematics_of_std_are_those_of_cuda(call):
    body = "__global__ void k(float *x) {{ x[0] = {}{}(x[1]); }}"
    plain, of_std = ptx(body.format("", call)), ptx("#include <cmath>\n" + body.format("std::", call))
    assert instructions(of_std) == instructions(plain)


def test_names_that_need_no_include_are_those_of_the_texts():
    for header, names in IMPLICIT.items():
        text = standard(header)
        assert names
        assert text is None or all(name in text for name in names)


def test_short_names_of_unsigned_integers_need_no_include():
    source = "__global__ void k(uint *x, ushort a, ulong b) { ssize_t c = a; x[0] = uint(b) + uint(c); }"
    build = NVRTC.compile(CompileRequest(f"{implied_headers([source])}#line 1\n{source}", "kernel.cu", "sm_90"))
    assert build.resources
    own = "typedef unsigned int uint; __global__ void k(uint *x) { }"
    assert implied_headers([own]) == ""
    assert "ssize_t" in (standard("sys/types.h") or "")


def test_names_of_the_device_runtime_are_known_with_and_without_an_include():
    calls = "cudaGridDependencySynchronize(); cudaTriggerProgrammaticLaunchCompletion();"
    source = f"__global__ void k(float *x) {{ {calls} }}"
    for own in ("", "#include <cuda_runtime.h>\n", "#include <cuda_device_runtime_api.h>\n"):
        text = f"{own}{source}"
        assert NVRTC is not None
        build = NVRTC.compile(CompileRequest(f"{implied_headers([text])}#line 1\n{text}", "kernel.cu", "sm_90"))
        assert "griddepcontrol.wait" in build.ptx
        assert warnings_in(build.log) == ()
    assert implied_headers([f"__device__ void cudaGridDependencySynchronize() {{}}\n{source}"]) == ""


def instructions(text):
    return [line.strip() for line in text.splitlines() if line.startswith("\t") and not line.startswith("\t.")]


def test_integers_of_64_bits_are_those_of_linux():
    packs = "template <class T> struct Pack; template <> struct Pack<uint64_t> { enum { n = 1 }; };"
    packs += "template <> struct Pack<unsigned long long> { enum { n = 2 }; };"
    kernel = "__global__ void k(int *x) { x[0] = Pack<uint64_t>::n; x[1] = Pack<unsigned long>::n; }"
    assert ptx(f"#include <cstdint>\n{packs}\n{kernel}")
    assert ptx(f"#include <cstdint>\n#include <cuda/std/cstdint>\n#include <cuda/std/tuple>\n{packs}\n{kernel}")


@pytest.mark.parametrize(
    "line",
    [
        "std::common_type_t<int, float> y = x[0]; x[1] = y;",
        'static_assert(std::is_same<float, float>::value, ""); x[0] = 1;',
        "std::pair<int, float> p = std::make_pair(1, x[0]); x[1] = p.second;",
        "std::conditional<true, double, int>::type y = x[0]; x[1] = y;",
    ],
)
def test_nvcc_includes_traits_and_pairs_by_itself(line):
    text = f"__global__ void k(float *x) {{ {line} }}"
    assert ptx(implied_headers([text]) + text)


def test_streams_and_maps_are_no_traits():
    assert [name for name in ("is_same_v", "remove_cv_t", "decay") if not headers_of_lab.is_trait(name)] == []
    assert [
        name for name in ("istream", "hash", "adjacent_find", "ranges", "map") if headers_of_lab.is_trait(name)
    ] == []


def test_register_and_typeof_are_taken():
    text = "__global__ void k(float *x) { register float y = x[0]; __typeof__(x[1]) z = y; x[1] = z; }"
    assert ptx(implied_headers([text]) + text)


def test_everything_of_the_standard_library_in_one_header():
    assert ptx("#include <bits/stdc++.h>\n__global__ void k(float *x) { x[0] = std::max(x[0], x[1]); }")
