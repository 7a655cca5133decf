"""Headers of the C and C++ standard libraries and of host libraries, for a compiler without any of them.

NVRTC compiles device code alone and comes with no standard library. Files written for nvcc include it nevertheless.
The parts for device code are provided here as small texts: integer types, limits, constants of `<math.h>`,
`std::min`, `std::numeric_limits`. More of C++ (`<type_traits>`, `<tuple>`) comes from `cuda::std` of CUDA's headers,
which takes seconds to compile and is given only to sources that write `std::`. Host-only headers are empty
texts.

A change of these texts changes builds: raise `lab.toolchain.cache.SCHEMA` with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_DEVICE_RUNTIME = "cuda_device_runtime_api.h"
"""A header that nvcc includes by itself."""
_INTERNAL = "__CUDA_INCLUDE_COMPILER_INTERNAL_HEADERS__"


def _words(text: str) -> list[str]:
    return text.split()


FOLDER = "standard"
"""The folder under which line tables name these headers."""

TYPEOF = "lab/typeof.h"
"""A header of lab's own, for GNU's `__typeof__`."""

_EVERYTHING = ("algorithm", "climits", "cfloat", "cmath", "cstddef", "cstdint", "limits", "type_traits", "utility")

DRIVER = "cuda.h"
"""The header of the CUDA driver API."""

C_HEADERS = frozenset(
    _words(
        """
        assert complex ctype errno fcntl fenv float getopt inttypes limits locale malloc math memory pthread
        sched setjmp signal stdalign stdarg stdbool stddef stdint stdio stdlib string strings sys/mman
        sys/resource sys/stat sys/time sys/types sys/wait time unistd wchar wctype
        """
    )
)
"""Headers of C and POSIX, without `.h`."""

_CPP_HEADERS = frozenset(
    _words(
        """
        algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono
        cinttypes climits clocale cmath codecvt compare complex concepts condition_variable coroutine csetjmp
        csignal cstdarg cstddef cstdint cstdio cstdlib cstring ctime cwchar cwctype deque exception execution
        expected filesystem format forward_list fstream functional future initializer_list iomanip ios iosfwd
        iostream istream iterator latch limits list locale map memory memory_resource mutex new numbers numeric
        optional ostream print queue random ranges ratio regex scoped_allocator semaphore set shared_mutex
        source_location span sstream stack stdexcept stop_token streambuf string string_view strstream
        syncstream system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility
        valarray variant vector version
        """
    )
)
_FROM_CUDA = frozenset(
    _words(
        """
        array atomic bit bitset complex concepts functional initializer_list iterator numbers numeric optional
        ratio span tuple type_traits variant
        """
    )
)
"""C++ headers that `cuda::std` provides for device code."""

_HOST_ALONE = frozenset(
    [
        *(f"helper_{word}.h" for word in _words("cuda functions image math_host string timer cusolver cuda_drvapi gl")),
        *("exception.h", "drvapi_error_string.h", "nvrtc_helper.h", "multithreading.h", "timer.h", "cudaProfiler.h"),
        *("cuda_profiler_api.h", "nvToolsExt.h", "nvToolsExtCudaRt.h", "nvtx3/nvToolsExt.h", "nvtx3/nvtx3.hpp"),
        *("nvml.h", "nvrtc.h", "nvJitLink.h", "cublas.h", "cublas_v2.h", "cublasLt.h", "cublasXt.h", "cufft.h"),
        *("cufftXt.h", "curand.h", "cusparse.h", "cusparse_v2.h", "cusolverDn.h", "cusolverSp.h", "cudnn.h", "nccl.h"),
        *("omp.h", "mpi.h", "windows.h", "Windows.h", "intrin.h", "immintrin.h", "x86intrin.h", "xmmintrin.h"),
        *("opencv2/opencv.hpp", "gtest/gtest.h", "benchmark/benchmark.h", "nvbench/nvbench.cuh"),
        *(f"cuda_{word}_interop.h" for word in _words("gl egl vdpau")),
        *(f"cuda{word}.h" for word in _words("GL EGL VDPAU GLTypedefs EGLTypedefs VDPAUTypedefs ProfilerTypedefs")),
        *("cuda_occupancy.h", "driver_functions.h", "channel_descriptor.h"),
    ]
)
"""Headers of host libraries, which NVRTC never reads, even if they are installed."""
_HOST_ALONE_OF_CUDA = frozenset(
    f"thrust/{name}.h"
    for name in _words(
        """
        adjacent_difference async/copy async/reduce async/sort binary_search copy count device_allocator
        device_delete device_free device_malloc device_new device_ptr device_vector equal execution_policy
        extrema fill find for_each gather generate host_vector inner_product iterator/constant_iterator
        iterator/counting_iterator iterator/permutation_iterator iterator/transform_iterator
        iterator/zip_iterator logical merge partition random reduce remove replace reverse scan scatter sequence
        set_operations sort system_error tabulate transform transform_reduce transform_scan universal_vector
        unique system/cuda/execution_policy allocate_unique device_make_unique device_malloc_allocator
        device_new_allocator device_reference memory mismatch per_device_resource shuffle swap uninitialized_copy
        uninitialized_fill universal_allocator universal_ptr iterator/retag iterator/shuffle_iterator
        """
    )
)
_HOST_FOLDERS = ("thrust/mr/", "thrust/random/", "thrust/system/", "cub/device/", "cub/util_allocator.cuh")
"""Prefixes of further CUDA headers that NVRTC cannot read."""

_USES_STD = re.compile(r"\bstd\s*::|\bnumeric_limits\b")
_USING_STD = re.compile(r"\busing\s+namespace\s+std\s*;")
_TRAIT = (
    r"(?:is|has|remove|add)_\w+|make_(?:un)?signed\w*|(?:alignment|underlying|aligned)_\w+|common_type\w*|decay\w*"
    r"|conditional(?:_t)?|enable_if\w*|integral_constant|bool_constant|true_type|false_type|void_t|conjunction\w*"
    r"|disjunction\w*|negation\w*|result_of\w*|invoke_result\w*|rank(?:_v)?|extent(?:_v)?|type_identity\w*"
)
_PAIR = (
    "pair|make_pair|forward|move|declval|exchange|as_const|in_place\\w*|integer_sequence|index_sequence\\w*"
    "|make_index_sequence|make_integer_sequence|piecewise_construct\\w*"
)
_ALWAYS_THERE = {"type_traits": _TRAIT, "utility": _PAIR}
"""Headers of C++ that CUDA's runtime includes under nvcc, and what sources use of them without an include line."""
_GUARD = "#ifndef {guard}\n#define {guard}\n{text}#endif\n"


def uses_std(text: str) -> bool:
    """Return whether a text uses the namespace `std`."""
    return bool(_USES_STD.search(text))


def uses_pairs(text: str) -> bool:
    """Return whether a text uses more of `<utility>` than `swap`."""
    return _uses(text, _PAIR)


def always_there(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the headers of C++ that texts for nvcc use, and that nvcc includes by itself."""
    return tuple(name for name, names in _ALWAYS_THERE.items() if any(_uses(text, names) for text in texts))


def _uses(text: str, names: str) -> bool:
    is_used = re.search(rf"\bstd\s*::\s*(?:{names})\b", text) is not None
    return is_used or (_USING_STD.search(text) is not None and re.search(rf"\b(?:{names})\s*<", text) is not None)


def is_trait(name: str) -> bool:
    """Return whether a name of `std` is a type trait, which device code can use."""
    return re.fullmatch(_TRAIT, name) is not None


def replaced(name: str) -> str | None:
    """Return the replacement of a CUDA or CUTLASS header that NVRTC rejects; None for any other."""
    if name in _HOST_ALONE_OF_CUDA or name.startswith(_HOST_FOLDERS):
        return f"namespace {name.partition('/')[0]} {{}}\n"
    if name in _HOST_ALONE or name == "cutlass/cluster_launch.hpp":  # the latter launches kernels
        return ""
    if name == DRIVER:
        return _guarded(name, _DRIVER)
    if name == _DEVICE_RUNTIME:  # without the macro it warns that it is internal
        return _guarded(name, f"#define {_INTERNAL}\n#include <{name}>\n#undef {_INTERNAL}\n")
    if name == "cudaTypedefs.h":  # types are declared in one text only
        return f"#include <{DRIVER}>\n"
    return _guarded(name, "".join(f"#include <cub/{path}>\n" for path in _CUB)) if name == "cub/cub.cuh" else None


def standard(name: str, *, with_std: bool = True, with_pairs: bool = False) -> str | None:
    """Return the text of a header that CUDA lacks, by its name in an include line; None if it is unknown.

    Args:
        name: `stdint.h`, `cstdint`, `vector`, `cublas_v2.h`.
        with_std: Whether the source uses the namespace `std`; if not, parts that need `cuda::std` are left out.
        with_pairs: It uses more of `<utility>` than `swap`.
    """
    if name.startswith("cutlass/util/"):  # host utilities of CUTLASS's examples
        return ""
    stem = name.removesuffix(".h")
    if with_std and (name in _FROM_CUDA or (name == "utility" and with_pairs)):
        return _guarded(name, f"#include <cuda/std/{name}>\nnamespace std {{ using namespace cuda::std; }}\n")
    if name in _CPP_HEADERS and name not in _TEXTS:
        c_name = name[1:] if name.startswith("c") and name[1:] in C_HEADERS else ""
        text = _TEXTS.get(f"{c_name}.h", "") if c_name else ""
        return _guarded(name, f"{text}namespace std {{ {_using(_NAMES.get(c_name, ''))} }}\n")
    if name in _CPP_HEADERS | _TEXTS.keys() or (stem != name and stem in C_HEADERS):
        return _guarded(name, _TEXTS.get(name, ""))
    return None


def _guarded(name: str, text: str) -> str:
    return _GUARD.format(guard=f"LAB_STANDARD_{re.sub(r'[^A-Za-z0-9]', '_', name)}", text=text) if text else ""


def _using(names: str) -> str:
    return " ".join(f"using ::{name};" for name in names.split())


def _defined(values: str) -> str:
    """Return a guarded #define for each line `NAME VALUE`."""
    pairs = (line.strip().split(None, 1) for line in values.strip().splitlines())
    return "".join(f"#ifndef {name}\n#define {name} {value}\n#endif\n" for name, value in pairs)


_INTEGERS = {8: "char", 16: "short", 32: "int", 64: "long"}
"""As on Linux for 64-bit targets: overloads and specialisations tell `uint64_t` from `unsigned long long`."""
_STDINT = "".join(
    f"typedef {sign} {kind} {prefix}int{middle}{bits}_t;\n"
    for bits, kind in _INTEGERS.items()
    for sign, prefix in (("signed", ""), ("unsigned", "u"))
    for middle in ("", "_least")
) + (
    "typedef signed char int_fast8_t; typedef unsigned char uint_fast8_t;\n"
    "typedef signed long intptr_t, intmax_t; typedef unsigned long uintptr_t, uintmax_t;\n"
)
_STDINT_LIMITS = """
    INT8_MIN (-128)
    INT16_MIN (-32767 - 1)
    INT32_MIN (-2147483647 - 1)
    INT64_MIN (-9223372036854775807L - 1)
    INT8_MAX 127
    INT16_MAX 32767
    INT32_MAX 2147483647
    INT64_MAX 9223372036854775807L
    UINT8_MAX 255
    UINT16_MAX 65535
    UINT32_MAX 4294967295U
    UINT64_MAX 18446744073709551615UL
    INTPTR_MAX INT64_MAX
    UINTPTR_MAX UINT64_MAX
    SIZE_MAX 18446744073709551615UL
"""
_LIMITS = """
    CHAR_BIT 8
    SCHAR_MIN (-128)
    SCHAR_MAX 127
    UCHAR_MAX 255
    CHAR_MIN SCHAR_MIN
    CHAR_MAX SCHAR_MAX
    SHRT_MIN (-32768)
    SHRT_MAX 32767
    USHRT_MAX 65535
    INT_MIN (-2147483647 - 1)
    INT_MAX 2147483647
    UINT_MAX 4294967295U
    LONG_MIN (-9223372036854775807L - 1L)
    LONG_MAX 9223372036854775807L
    ULONG_MAX 18446744073709551615UL
    LLONG_MIN (-9223372036854775807LL - 1LL)
    LLONG_MAX 9223372036854775807LL
    ULLONG_MAX 18446744073709551615ULL
"""
_FLOAT = """
    FLT_RADIX 2
    FLT_MANT_DIG 24
    DBL_MANT_DIG 53
    FLT_DIG 6
    DBL_DIG 15
    FLT_MIN_EXP (-125)
    DBL_MIN_EXP (-1021)
    FLT_MAX_EXP 128
    DBL_MAX_EXP 1024
    FLT_MAX 3.402823466e+38F
    DBL_MAX 1.7976931348623157e+308
    FLT_MIN 1.175494351e-38F
    DBL_MIN 2.2250738585072014e-308
    FLT_TRUE_MIN 1.401298464e-45F
    DBL_TRUE_MIN 4.9406564584124654e-324
    FLT_EPSILON 1.192092896e-07F
    DBL_EPSILON 2.2204460492503131e-16
"""
_MATH = """
    M_E 2.7182818284590452354
    M_LOG2E 1.4426950408889634074
    M_LOG10E 0.43429448190325182765
    M_LN2 0.69314718055994530942
    M_LN10 2.30258509299404568402
    M_PI 3.14159265358979323846
    M_PI_2 1.57079632679489661923
    M_PI_4 0.78539816339744830962
    M_1_PI 0.31830988618379067154
    M_2_PI 0.63661977236758134308
    M_2_SQRTPI 1.12837916709551257390
    M_SQRT2 1.41421356237309504880
    M_SQRT1_2 0.70710678118654752440
    INFINITY __builtin_bit_cast(float, 0x7F800000)
    NAN __builtin_bit_cast(float, 0x7FC00000)
    HUGE_VAL __builtin_bit_cast(double, 0x7FF0000000000000LL)
    HUGE_VALF __builtin_bit_cast(float, 0x7F800000)
"""
_MATH_NAMES = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim floor
    fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf
    nearbyint nextafter pow remainder remquo rint round scalbn sin sinh sqrt tan tanh tgamma trunc abs isnan
    isinf isfinite signbit fmaf fmaxf fminf sqrtf expf logf powf sinf cosf tanf fabsf floorf ceilf
"""
_SYS_TYPES = f"""{_STDINT}typedef unsigned char u_char;
typedef unsigned short u_short, ushort;
typedef unsigned int u_int, uint;
typedef unsigned long u_long, ulong;
typedef unsigned char u_int8_t; typedef unsigned short u_int16_t;
typedef unsigned int u_int32_t; typedef unsigned long u_int64_t;
typedef long ssize_t, off_t;
"""
_ALGORITHM = """namespace std {
template <class T> __host__ __device__ constexpr const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T> __host__ __device__ constexpr const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <class T> __host__ __device__ constexpr const T& clamp(const T& x, const T& low, const T& high) {
  return x < low ? low : high < x ? high : x;
}
}
"""
_SWAP = """namespace std {
template <class T> __host__ __device__ constexpr void swap(T& a, T& b) { T kept = a; a = b; b = kept; }
}
"""
_NUMERIC_LIMITS = """namespace std {
template <class T> struct numeric_limits { static constexpr bool is_specialized = false; };
template <class T> struct numeric_limits<const T> : numeric_limits<T> {};
#define LAB_FUNCTION static __host__ __device__ constexpr
#define LAB_INTEGER(T, LOW, HIGH, IS_SIGNED, DIGITS, DIGITS10) \\
  template <> struct numeric_limits<T> { \\
    static constexpr bool is_specialized = true, is_signed = IS_SIGNED, is_integer = true, is_exact = true; \\
    static constexpr bool has_infinity = false, has_quiet_NaN = false, is_iec559 = false; \\
    static constexpr int digits = DIGITS, digits10 = DIGITS10, radix = 2; \\
    LAB_FUNCTION T min() { return LOW; } \\
    LAB_FUNCTION T max() { return HIGH; } \\
    LAB_FUNCTION T lowest() { return LOW; } \\
    LAB_FUNCTION T epsilon() { return 0; } \\
  };
#define LAB_FLOATING(T, LOW, HIGH, SMALLEST, EPSILON, INFINITE, NOT_A_NUMBER, DIGITS, DIGITS10) \\
  template <> struct numeric_limits<T> { \\
    static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false; \\
    static constexpr bool has_infinity = true, has_quiet_NaN = true, is_iec559 = true; \\
    static constexpr int digits = DIGITS, digits10 = DIGITS10, radix = 2; \\
    LAB_FUNCTION T min() { return LOW; } \\
    LAB_FUNCTION T max() { return HIGH; } \\
    LAB_FUNCTION T lowest() { return -HIGH; } \\
    LAB_FUNCTION T denorm_min() { return SMALLEST; } \\
    LAB_FUNCTION T epsilon() { return EPSILON; } \\
    LAB_FUNCTION T infinity() { return INFINITE; } \\
    LAB_FUNCTION T quiet_NaN() { return NOT_A_NUMBER; } \\
  };
LAB_INTEGER(bool, false, true, false, 1, 0)
LAB_INTEGER(char, -128, 127, true, 7, 2)
LAB_INTEGER(signed char, -128, 127, true, 7, 2)
LAB_INTEGER(unsigned char, 0, 255, false, 8, 2)
LAB_INTEGER(short, -32768, 32767, true, 15, 4)
LAB_INTEGER(unsigned short, 0, 65535, false, 16, 4)
LAB_INTEGER(int, -2147483647 - 1, 2147483647, true, 31, 9)
LAB_INTEGER(unsigned int, 0, 4294967295U, false, 32, 9)
LAB_INTEGER(long, -9223372036854775807L - 1, 9223372036854775807L, true, 63, 18)
LAB_INTEGER(unsigned long, 0, 18446744073709551615UL, false, 64, 19)
LAB_INTEGER(long long, -9223372036854775807LL - 1, 9223372036854775807LL, true, 63, 18)
LAB_INTEGER(unsigned long long, 0, 18446744073709551615ULL, false, 64, 19)
LAB_FLOATING(float, 1.175494351e-38F, 3.402823466e+38F, 1.401298464e-45F, 1.192092896e-07F,
             __builtin_bit_cast(float, 0x7F800000), __builtin_bit_cast(float, 0x7FC00000), 24, 6)
LAB_FLOATING(double, 2.2250738585072014e-308, 1.7976931348623157e+308, 4.9406564584124654e-324,
             2.2204460492503131e-16, __builtin_bit_cast(double, 0x7FF0000000000000LL),
             __builtin_bit_cast(double, 0x7FF8000000000000LL), 53, 15)
#undef LAB_FUNCTION
#undef LAB_INTEGER
#undef LAB_FLOATING
}
"""
_TYPEOF = """template <class T> struct lab_value { typedef T type; };
template <class T> struct lab_value<T&> { typedef T type; };
template <class T> struct lab_value<T&&> { typedef T type; };
#define __typeof__(...) typename lab_value<decltype((__VA_ARGS__))>::type
#define __typeof(...) __typeof__(__VA_ARGS__)
#define typeof(...) __typeof__(__VA_ARGS__)
"""
_TEXTS = {
    "stdint.h": _STDINT + _defined(_STDINT_LIMITS),
    "inttypes.h": _STDINT + _defined(_STDINT_LIMITS),
    "limits.h": _defined(_LIMITS),
    "float.h": _defined(_FLOAT),
    "math.h": _defined(_MATH),
    "sys/types.h": _SYS_TYPES,
    "limits": _NUMERIC_LIMITS,
    TYPEOF: _TYPEOF,
    "bits/stdc++.h": "".join(f"#include <{word}>\n" for word in _EVERYTHING),
    "algorithm": f"#include <utility>\n{_ALGORITHM}",
    "utility": _SWAP,
}
_STDINT_NAMES = " ".join(re.findall(r"u?int\w*_t", _STDINT))
_NAMES = {
    "stdint": _STDINT_NAMES,
    "inttypes": _STDINT_NAMES,
    "stddef": "size_t ptrdiff_t",
    "stdlib": "size_t",
    "string": "size_t",
    "stdio": "size_t",
    "math": _MATH_NAMES,
}
_DRIVER = """typedef struct CUtensorMap_st { alignas(64) unsigned long long opaque[16]; } CUtensorMap;
typedef unsigned long long CUdeviceptr;
typedef int CUdevice;
typedef struct CUctx_st* CUcontext;
typedef struct CUmod_st* CUmodule;
typedef struct CUfunc_st* CUfunction;
typedef struct CUstream_st* CUstream;
typedef struct CUevent_st* CUevent;
"""
_CUB = (
    *(f"block/block_{word}.cuh" for word in _words("exchange histogram load radix_sort reduce scan shuffle store")),
    *(f"warp/warp_{word}.cuh" for word in _words("exchange load merge_sort reduce scan store")),
    *(f"thread/thread_{word}.cuh" for word in _words("load operators reduce scan store")),
)
IMPLICIT: dict[str, frozenset[str]] = {
    "math.h": frozenset(line.split()[0] for line in _MATH.strip().splitlines()),
    "limits.h": frozenset(line.split()[0] for line in _LIMITS.strip().splitlines()),
    "stdint.h": frozenset(_STDINT_NAMES.split()),
    "float.h": frozenset(line.split()[0] for line in _FLOAT.strip().splitlines()),
    "sys/types.h": frozenset(_words("uint ushort ulong u_char u_short u_int u_long ssize_t")),
    TYPEOF: frozenset(_words("typeof __typeof __typeof__")),
    _DEVICE_RUNTIME: frozenset(["cudaGridDependencySynchronize", "cudaTriggerProgrammaticLaunchCompletion"]),
}
"""Names that nvcc provides without an include line, by the header that defines them."""
