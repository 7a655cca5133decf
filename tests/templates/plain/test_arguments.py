from __future__ import annotations

from dataclasses import dataclass

import pytest

from lab.base.errors import Location
from lab.isa.cuda.kernels import read_kernels
from lab.isa.ptx.module import read_ptx
from lab.isa.ptx.signature import entry_parameters
from lab.templates.plain.arguments import PassedStructure, arguments_error, check_arguments, compared, matching_kernel
from lab.toolchain.base import CompileRequest
from lab.toolchain.select import toolchain


@dataclass(frozen=True)
class Passed:
    name: str
    dtype: str
    is_array: bool = False
    is_written: bool = False
    is_mapped: bool = False


def array(name, dtype, *, written=False):
    return Passed(name, dtype, is_array=True, is_written=written)


def compiled(signature: str):
    includes = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    source = f'{includes}extern "C" __global__ void k({signature}) {{ }}'
    build = toolchain("nvrtc").compile(CompileRequest(source, "k.cu", "sm_90"))
    [kernel] = read_kernels(source)
    return entry_parameters(read_ptx(build.ptx).kernels[0]), kernel


SAXPY = "float *y, const float *x, float a, int n"
RIGHT = (array("y", "float32", written=True), array("x", "float32"), Passed("a", "float32"), Passed("n", "int32"))


def test_right_arguments():
    entry, kernel = compiled(SAXPY)
    assert check_arguments(entry, kernel, RIGHT) == []
    assert check_arguments(entry, None, RIGHT) == []
    assert arguments_error(entry, kernel, RIGHT, name="k") is None


def test_a_wrong_number():
    entry, kernel = compiled(SAXPY)
    assert check_arguments(entry, kernel, RIGHT[:3]) == ["the kernel takes 4 arguments, and the experiment declares 3"]


def test_a_wrong_order():
    entry, kernel = compiled(SAXPY)
    [mistake] = check_arguments(entry, kernel, (RIGHT[1], RIGHT[0], *RIGHT[2:]))
    assert mistake == "their order differs: the kernel takes y, x, a, n, and the experiment declares x, y, a, n"


def test_a_wrong_order_is_found_without_a_source_where_kinds_differ():
    entry, _ = compiled(SAXPY)
    mistakes = check_arguments(entry, None, (RIGHT[2], *RIGHT[:2], RIGHT[3]))
    assert [mistake.split(",")[0] for mistake in mistakes] == ["argument 1", "argument 3"]


def test_a_wrong_name():
    entry, kernel = compiled(SAXPY)
    mistakes = check_arguments(entry, kernel, (*RIGHT[:3], Passed("count", "int32")))
    assert mistakes == ["argument 4, count, is called n in the kernel"]


@pytest.mark.parametrize(
    ("signature", "argument", "words"),
    [
        ("float p", Passed("p", "int32"), "is int32 here, but the kernel takes float p"),
        ("int p", Passed("p", "float32"), "is float32 here, but the kernel takes int"),
        ("int p", Passed("p", "int64"), "has 8 bytes as int64, but the kernel takes 4 bytes"),
        ("long long p", Passed("p", "int32"), "has 4 bytes as int32, but the kernel takes 8 bytes"),
        ("float *p", Passed("p", "float32"), "is a scalar here, but the kernel takes a pointer"),
        ("float *p", Passed("p", "int64"), "is a scalar here, but the kernel takes a pointer"),
        ("float p", array("p", "float32"), "is an array here, but the kernel takes a value"),
        ("long long p", array("p", "float32"), "is an array here, but the kernel takes a value"),
        ("double *p", array("p", "float32"), "has elements of type float32 here, but the kernel takes double *"),
        ("__half *p", array("p", "bfloat16"), "has elements of type bfloat16 here, but the kernel takes __half *"),
        ("const float *p", array("p", "float32", written=True), "which it cannot write"),
        ("float2 *p", array("p", "complex128"), "has elements of type complex128"),
        ("__half p", Passed("p", "float32"), "has 4 bytes as float32, but the kernel takes 2 bytes"),
    ],
)
def test_wrong_kinds(signature, argument, words):
    entry, kernel = compiled(signature)
    [mistake] = check_arguments(entry, kernel, (argument,))
    assert mistake.startswith("argument 1, p, ")
    assert words in mistake


@pytest.mark.parametrize(
    ("signature", "argument"),
    [
        ("unsigned p", Passed("p", "int32")),
        ("size_t p", Passed("p", "int64")),
        ("bool p", Passed("p", "bool")),
        ("__half p", Passed("p", "float16")),
        ("__nv_bfloat16 p", Passed("p", "bfloat16")),
        ("float2 p", Passed("p", "complex64")),
        ("unsigned char *p", array("p", "uint8", written=True)),
        ("char *p", array("p", "bool")),
        ("float4 *p", array("p", "float32")),
        ("float2 *p", array("p", "complex64")),
        ("const void *p", array("p", "float64")),
        ("float * const p", array("p", "float32", written=True)),
        ("__half2 *p", array("p", "float16")),
        ("float p[]", array("p", "float32", written=True)),
    ],
)
def test_kinds_that_fit(signature, argument):
    entry, kernel = compiled(signature)
    assert check_arguments(entry, kernel, (argument,)) == []


def test_several_mistakes_are_all_named():
    entry, kernel = compiled(SAXPY)
    mistakes = check_arguments(entry, kernel, (Passed("y", "float32"), array("x", "float64"), *RIGHT[2:]))
    assert len(mistakes) == 2


def test_both_lists_stand_side_by_side_in_the_error():
    entry, kernel = compiled(SAXPY)
    error = arguments_error(entry, kernel, RIGHT[:3], name="k", at=Location("e.yaml", 7))
    assert error is not None
    assert str(error).splitlines() == [
        (
            "e.yaml:7: the arguments do not match the kernel k: "
            "the kernel takes 4 arguments, and the experiment declares 3"
        ),
        "        the kernel takes  the experiment declares",
        "     1  float * y         y: written float32[…]",
        "     2  const float * x   x: float32[…]",
        "     3  float a           a: float32",
        "     4  int n             -",
        "  key: arguments",
    ]


def test_without_a_source_the_ptx_is_shown():
    entry, _ = compiled("float *p, float4 q")
    assert ".u64" in compared(entry, None, ()) or "pointer" in compared(entry, None, ())
    assert "16 bytes aligned to 16" in compared(entry, None, ())


def test_the_overload_that_fits_an_entry():
    kernels = read_kernels("__global__ void k(float x) {}\n__global__ void k(float *x) {}\n__global__ void k() {}")
    entry, _ = compiled("float x")
    assert matching_kernel(kernels, entry) is kernels[0]
    entry, _ = compiled("int x, int y")
    assert matching_kernel(kernels, entry) is None


def test_several_launches_pass_what_they_will():
    entry, kernel = compiled("float *b, const float *a, int n")
    swapped = (array("u", "float32"), array("v", "float32"), Passed("n", "int32"))
    assert check_arguments(entry, kernel, swapped)
    assert check_arguments(entry, kernel, swapped, by_name=False) == []
    exchanged = (array("a", "float32"), array("b", "float32"), Passed("n", "int32"))
    assert check_arguments(entry, kernel, exchanged, by_name=False) == []
    assert check_arguments(entry, kernel, (*swapped[:2], Passed("n", "float64")), by_name=False)


def test_a_structure_is_passed_by_its_members():
    entry, kernel = compiled("float *y, float2 s")
    [mistake] = check_arguments(entry, kernel, (array("y", "float32", written=True), array("s", "float32")))
    assert mistake.endswith("(float2 s); a structure is a mapping of its members, {data: float32[n], rows: int32}")
    assert check_arguments(entry, kernel, (RIGHT[0], PassedStructure("s", (Passed("u", "float32"),) * 2))) == []


VIEW = "struct View { double scale; float *data; char rows; }; struct __align__(16) Wide { int i; };\n"


@pytest.mark.parametrize(
    ("signature", "declared", "wanted"),
    [
        ("View v", [Passed("scale", "float64"), array("data", "float32"), Passed("rows", "int8")], None),
        ("View v", [Passed("scale", "float64")], "v, has 8 bytes by its members (scale 8), but the kernel takes 24"),
        ("View *v", [Passed("scale", "float64")], "v, is a structure here, but the kernel takes a pointer (View * v)"),
        ("int4 v", [Passed(name, "int32") for name in "xyzw"], None),
        ("int2 v", [Passed("x", "float64")], None),
        (
            "float3 v",
            [Passed("x", "int32"), Passed("y", "int64")],
            "v, has 16 bytes by its members (x 4, y 8), but",
        ),
        (
            "Wide v",
            [Passed("i", "int32")],
            "v, has 4 bytes by its members (i 4), but the kernel takes 16 bytes",
        ),
    ],
)
def test_structures(signature, declared, wanted):
    source = f'{VIEW}extern "C" __global__ void k({signature}) {{ }}'
    build = toolchain("nvrtc").compile(CompileRequest(source, "k.cu", "sm_90"))
    found = check_arguments(
        entry_parameters(read_ptx(build.ptx).kernels[0]),
        read_kernels(source)[0],
        [PassedStructure("v", tuple(declared))],
    )
    assert [one.startswith(f"argument 1, {wanted}") for one in found] == ([True] if wanted else [])


def test_both_lists_show_a_structure():
    entry, kernel = compiled("float2 s")
    text = compared(entry, kernel, [PassedStructure("s", (Passed("u", "float32"), array("x", "int8")))])
    assert text.splitlines()[1] == "     1  float2 s          s: {u: float32, x: int8[…]}"


MAPS = "typedef struct { alignas(64) unsigned long long opaque[16]; } CUtensorMap;"


def test_a_tensor_map_is_passed_by_value():
    source = f'{MAPS} extern "C" __global__ void k(const __grid_constant__ CUtensorMap a, float *b) {{ }}'
    build = toolchain("nvrtc").compile(CompileRequest(source, "k.cu", "sm_90"))
    [kernel], entry = read_kernels(source), entry_parameters(read_ptx(build.ptx).kernels[0])
    right = (Passed("a", "float16", is_array=True, is_mapped=True), array("b", "float32"))
    assert check_arguments(entry, kernel, right) == []
    assert check_arguments(entry, None, right) == []
    [mistake] = check_arguments(entry, kernel, (array("a", "float16"), right[1]))
    assert "float16[m, k] as map[64, 64] swizzle 128" in mistake
    [mistake] = check_arguments(entry, kernel, (right[0], Passed("b", "float32", is_array=True, is_mapped=True)))
    assert mistake.startswith("argument 2, b, is a tensor map here, but the kernel takes float * b; a map is passed by")
    assert "a: float16[…] as map[…]" in compared(entry, kernel, right)


def test_a_tensor_map_is_passed_by_pointer():
    signature = "const CUtensorMap *__restrict__ a, void *b, float *c, const CUtensorMap **d, long e"
    source = f'{MAPS} extern "C" __global__ void k({signature}) {{ }}'
    build = toolchain("nvrtc").compile(CompileRequest(source, "k.cu", "sm_90"))
    [kernel], entry = read_kernels(source), entry_parameters(read_ptx(build.ptx).kernels[0])
    maps = tuple(Passed(name, "float16", is_array=True, is_mapped=True) for name in "abcde")
    mistakes = check_arguments(entry, kernel, maps)
    assert [mistake[: mistake.index(",")] for mistake in mistakes] == ["argument 3", "argument 4", "argument 5"]
    assert mistakes[0].endswith("const __grid_constant__ CUtensorMap, or by a pointer: const CUtensorMap*")
    assert check_arguments(entry[:4], None, maps[:4]) == []  # PTX does not say what a pointer points to


def test_the_type_to_write_is_named():
    entry, kernel = compiled("__half *x")
    [mistake] = check_arguments(entry, kernel, (array("x", "uint16"),))
    assert mistake.endswith("the kernel takes __half *; write float16[…]")
